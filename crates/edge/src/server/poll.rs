//! Long polls: a client waits for one published response. After a time-out, it receives the response that its origin sent with the
//! instruction.

use fermata_engine::RequestId;
use fermata_grip::item::{Body, Response, ResponseAction};

use crate::client::clients::Clients;
use crate::client::poll::{Poll, passes, patched};
use crate::client::session::{Kind, Session};
use crate::client::source::{Engine, Owner, Source};
use crate::routes::figures::RouteFigures;
use crate::server::holds::Holds;
use crate::server::tasks::Ask;
use crate::timers::Timer;
use crate::upstream::reply::{FAILED, STATUS_FINAL_MIN};
use crate::upstream::response::Head;

impl Holds<'_> {
    /// Responds to a long poll that timed out.
    pub(super) fn on_poll_due(&mut self, handle: RequestId) {
        let now_ms = self.worker.net.now_ms();
        match self.clients.sessions.get(&handle).map(|it| &it.kind) {
            // The poll was held again with a later time-out.
            Some(Kind::Poll(poll)) if poll.due_ms > now_ms => {
                let due_ms = poll.due_ms;
                self.timers.at(due_ms, Timer::Poll(handle));
            }
            Some(Kind::Poll(_)) => {
                // If a filter's server is being queried about an item, the poll ends with the result of this query.
                let is_asked_about = self.clients.filtering.ends_with_first(handle);
                if !is_asked_about {
                    self.end_poll(handle, None);
                }
            }
            _ => {}
        }
    }

    /// Removes a long poll, and responds with the published response or with the response of the origin.
    fn end_poll(&mut self, handle: RequestId, published: Option<&Response>) {
        let Some(session) = self.clients.sessions.remove(&handle) else {
            // An earlier item was the response to this poll.
            return;
        };
        let Session { source, kind, .. } = *session;
        let Kind::Poll(poll) = kind else {
            return;
        };
        self.timers.forget(Timer::Poll(handle));
        self.worker.end_items(handle);
        self.clients.forget_gone(handle);
        self.on_no_longer_held(handle);
        self.clients.answer_poll(
            self.route_figures,
            self.worker,
            handle,
            &source,
            *poll,
            published,
        );
    }

    /// Handles an item for a long poll. Returns true if the poll ended.
    pub(super) fn on_poll_item(&mut self, handle: RequestId, action: &ResponseAction) -> bool {
        match action {
            ResponseAction::Send(response) => {
                self.end_poll(handle, Some(response));
                true
            }
            ResponseAction::Hint => {
                self.ask_again(handle);
                true
            }
            ResponseAction::Close | ResponseAction::Refresh => false,
        }
    }

    /// Sends the request to the origin again, because items were published that the edge does not have.
    pub(super) fn ask_again(&mut self, handle: RequestId) {
        let Some(session) = self.clients.sessions.remove(&handle) else {
            // An earlier item was the response to this poll.
            return;
        };
        self.timers.forget(Timer::Poll(handle));
        self.worker.end_items(handle);
        self.on_no_longer_held(handle);
        let last_ids = session.last_ids();
        let mut source = session.source;
        // `choose` selects the target again.
        source.target = 0;
        let ask = Ask::new(Owner::Client(handle), source);
        self.tasks.ask(ask.behind(last_ids));
    }
}

impl Clients {
    /// Responds to a long poll with the published response, or with the origin's response if there is none.
    fn answer_poll(
        &mut self,
        figures: &RouteFigures,
        worker: &mut Engine,
        handle: RequestId,
        source: &Source,
        poll: Poll,
        published: Option<&Response>,
    ) {
        let Poll { answer, body, .. } = poll;
        let Some(response) = published else {
            let head = Head::from(answer);
            figures.count_head_sent(worker, source, &head);
            self.respond(worker, handle, &head, &body);
            return;
        };
        if response.code < STATUS_FINAL_MIN {
            self.answer_text(worker, handle, 502, FAILED);
            return;
        }
        let mut headers = answer.headers;
        if let Body::Bytes(_) = &response.body {
            // Remove the field: it describes the origin's body, which is not sent.
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case(b"content-encoding"));
        }
        for (name, _) in &response.headers {
            headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        }
        headers.extend(response.headers.iter().filter(|it| passes(it)).cloned());
        let head = Head {
            status: response.code,
            reason: response.reason.clone(),
            headers,
            length: None,
        };
        figures.count_head_sent(worker, source, &head);
        match &response.body {
            Body::Bytes(bytes) => self.respond(worker, handle, &head, bytes),
            Body::Patch(patch) => match patched(&body, patch) {
                Some(patched) => self.respond(worker, handle, &head, &patched),
                None => self.answer_text(worker, handle, 502, FAILED),
            },
        }
    }
}
