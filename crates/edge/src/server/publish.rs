//! How items get into the ring, and what plain streams are sent of them.

use fermata_engine::{Message, PublishFailure};
use fermata_grip::control::{self, Reply, Request};
use fermata_grip::item::{Item, StreamAction};
use fermata_grip::packet::Notation;

use super::edge::Edge;
use super::items;

/// What the ring's records are to streams without wishes: content as it was published. False: it is no content.
pub(super) fn stream(data: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(item) = items::read(data) else {
        return true;
    };
    let Some(format) = item.http_stream else {
        return true;
    };
    // Content that filters were to change must not be seen unchanged.
    if format.content_filters.is_some_and(|it| !it.is_empty()) {
        return true;
    }
    match format.action {
        StreamAction::Send(content) => {
            out.extend_from_slice(&content);
            true
        }
        StreamAction::Refresh => true,
        StreamAction::Hint | StreamAction::Close => false,
    }
}

impl Edge {
    /// Appends an item to the ring, from which every worker reads it.
    pub(super) fn publish(&mut self, item: &Item) -> Result<(), PublishFailure> {
        let data = item.to_value(Notation::Json).to_json().to_string();
        let message = Message {
            name: None,
            data: data.as_bytes(),
        };
        self.worker.publish(&item.channel, message).map(|_| ())
    }

    /// A request to the control port.
    pub(super) fn on_control(&mut self) {
        let view = self.worker.request();
        let handle = view.handle();
        let accept = view.header(b"accept", 0);
        let request = control::read(view.method(), view.target(), accept, view.body());
        let reply = match request {
            Request::Answer(reply) | Request::Recover(reply) => reply,
            Request::Publish(items, reply) => match self.publish_all(&items) {
                Ok(()) => reply,
                Err(failure) => refused(&failure),
            },
        };
        self.reply(handle, &reply);
    }

    fn publish_all(&mut self, items: &[Item]) -> Result<(), PublishFailure> {
        items.iter().try_for_each(|item| self.publish(item))
    }

    fn reply(&mut self, handle: u64, reply: &Reply) {
        let allow = reply.allow.map(|it| (&b"Allow"[..], it.as_bytes()));
        let media = Some(reply.media.as_bytes());
        let body = reply.body.as_bytes();
        // Who has left needs no answer.
        let _ = self
            .worker
            .respond(handle, reply.status, media, allow.into_iter(), body);
    }
}

fn refused(failure: &PublishFailure) -> Reply {
    let status = match failure {
        PublishFailure::Misuse(_) => 400,
        PublishFailure::Backpressure(_) => 503,
    };
    Reply {
        status,
        media: "text/plain",
        allow: None,
        body: format!("{failure}\n"),
    }
}
