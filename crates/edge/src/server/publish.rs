//! How items get into the ring, and what plain streams are sent of them.

use fermata_config::LogLevel;
use fermata_engine::{Message, PublishFailure};
use fermata_grip::item::{Item, StreamAction};
use fermata_grip::packet::Notation;
use fermata_grip::reliable::Verdict;

use super::edge::Edge;
use super::items;
use super::timers::Timer;
use crate::control::{self, Action, Answer, Request};

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
    fn append(&mut self, item: &Item) -> Result<(), PublishFailure> {
        let data = item.to_value(Notation::Json).to_json().to_string();
        let message = Message {
            name: None,
            data: data.as_bytes(),
        };
        self.worker.publish(&item.channel, message).map(|_| ())
    }

    /// Publishes items, whatever port they came by: in the order of their ids, each once.
    pub(super) fn publish(&mut self, items: Vec<Item>) -> Result<(), PublishFailure> {
        let now_ms = self.worker.now_ms();
        let mut ready = Vec::new();
        for item in items {
            let channel = item.channel.clone();
            let verdict = self.intake.offer(now_ms, item, &mut ready);
            let reason = match verdict {
                Verdict::Delivered | Verdict::Waiting => continue,
                // Sending one thing several ways is what ids are for.
                Verdict::Duplicate => continue,
                Verdict::Rival => "another item waits for the same predecessor",
                Verdict::Full => "too many items wait for their predecessors",
            };
            let line = format!(
                "an item for {} is dropped: {reason}",
                channel.escape_ascii()
            );
            self.worker.log_for_client(LogLevel::Warning, &line);
        }
        self.watch_items();
        ready.iter().try_for_each(|item| self.append(item))
    }

    /// Publishes what has waited long enough for its predecessor.
    pub(super) fn on_items_due(&mut self) {
        self.items_due_ms = u64::MAX;
        let mut ready = Vec::new();
        let now_ms = self.worker.now_ms();
        self.intake.expire(now_ms, &mut ready);
        for item in &ready {
            if let Err(failure) = self.append(item) {
                let line = format!("an item is dropped: {failure}");
                self.worker.log_for_client(LogLevel::Warning, &line);
            }
        }
        self.watch_items();
    }

    fn watch_items(&mut self) {
        if let Some(due_ms) = self.intake.next_deadline_ms()
            && due_ms < self.items_due_ms
        {
            self.items_due_ms = due_ms;
            self.timers.at(due_ms, Timer::Items);
        }
    }

    /// A request to the control port.
    pub(super) fn on_control(&mut self) {
        let view = self.worker.request();
        let handle = view.handle();
        let (answer, action) = control::answer(&Request {
            method: view.method(),
            target: view.target(),
            accept: view.header(b"accept", 0),
            origin: view.header(b"origin", 0),
            body: view.body(),
        });
        let answer = match action {
            Action::None => answer,
            Action::Recover => {
                self.intake.recover();
                self.recover_streams();
                answer
            }
            Action::Publish(items) => match self.publish(items) {
                Ok(()) => answer,
                Err(failure) => refused(&failure),
            },
        };
        let headers = answer.headers.iter();
        let headers = headers.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        // Who has left needs no answer.
        let _ = self
            .worker
            .respond(handle, answer.status, None, headers, &answer.body);
    }
}

fn refused(failure: &PublishFailure) -> Answer {
    let status = match failure {
        PublishFailure::Misuse(_) => 400,
        PublishFailure::Backpressure(_) => 503,
    };
    Answer {
        status,
        headers: vec![("Content-Type", "text/plain")],
        body: format!("{failure}\n").into_bytes(),
    }
}
