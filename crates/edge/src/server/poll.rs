//! Long polls: clients that wait for one published response, or for their origin's after a time.

use fermata_edge_pushpin::stats::mode::Mode;
use fermata_engine::stats::Counter;
use fermata_engine::{Left, RequestId};
use fermata_grip::instruct::Instruct;
use fermata_grip::item::{Body, Response, ResponseAction};

use crate::client::clients::Clients;
use crate::client::journal::Outcome;
use crate::client::missed::Standing;
use crate::client::poll::{Poll, passes, patched};
use crate::client::session::{Kind, Session};
use crate::client::source::{Engine, Source};
use crate::routes::figures::{Count, RouteFigures};
use crate::server::edge::Edge;
use crate::server::reliable::standing;
use crate::timers::Timer;
use crate::upstream::reply::{FAILED, STATUS_FINAL_MIN};
use crate::upstream::response::Head;
use crate::upstream::talk::Talk;

impl Edge {
    /// Lets a client wait.
    pub(super) fn begin_poll(
        &mut self,
        talk: &mut Talk,
        handle: RequestId,
        instruct: Instruct,
        body: Vec<u8>,
    ) {
        let subscriptions =
            self.clients
                .subscriptions(&self.policy, &mut self.worker, &talk.source, &instruct);
        let standing = standing(&mut self.worker, &subscriptions);
        let channels: Vec<&[u8]> = subscriptions.iter().map(|it| &it.channel[..]).collect();
        if self.worker.poll_items(handle, &channels).is_err() {
            self.clients.forget_request(&mut self.worker, handle);
            return;
        }
        talk.noted.outcome = Outcome::Held;
        self.reports()
            .on_entered(handle, &talk.source, Mode::Response, None);
        for channel in &channels {
            self.reports()
                .on_subscribed(handle, &talk.source, channel, Mode::Response);
        }
        let due_ms = self.worker.net.now_ms() + u64::from(instruct.timeout_s) * 1_000;
        self.timers.at(due_ms, Timer::Poll(handle));
        self.clients
            .watch_for_gone(handle, &talk.source, instruct.gone);
        let serial = self.clients.next_serial();
        let session = Session {
            source: talk.source.clone(),
            subscriptions,
            meta: instruct.meta,
            kind: Kind::Poll(Box::new(Poll {
                answer: instruct.answer,
                body,
                is_queued: false,
                due_ms,
            })),
            serial,
        };
        self.clients.sessions.insert(handle, Box::new(session));
        if let Some(mut keeper) = self.keeper() {
            keeper.watch();
        }
        // Once: an origin whose ids are not those that are published would be asked for ever.
        let may_ask = talk.last_ids.is_empty();
        match standing {
            Standing::Behind if self.catch_up(Left::Request(handle), false) => {}
            Standing::Behind if may_ask => {
                self.worker.net.count(Counter::EdgeCaughtUpRequest, 1);
                self.ask_again(handle);
            }
            Standing::Unknown if may_ask => {
                self.clients
                    .on_first_subscription(&mut self.timers, &mut self.worker, handle)
            }
            Standing::Behind | Standing::Unknown | Standing::UpToDate => {}
        }
    }

    /// A long poll's time is over, if it is still waiting.
    pub(super) fn on_poll_due(&mut self, handle: RequestId) {
        let now_ms = self.worker.net.now_ms();
        match self.clients.sessions.get(&handle).map(|it| &it.kind) {
            // It was asked again meanwhile, and waits anew.
            Some(Kind::Poll(poll)) if poll.due_ms > now_ms => {
                let due_ms = poll.due_ms;
                self.timers.at(due_ms, Timer::Poll(handle));
            }
            Some(Kind::Poll(_)) => {
                let is_asked_about = self.clients.filtering.ends_with_first(handle);
                if !is_asked_about {
                    self.end_poll(handle, None);
                }
            }
            _ => {}
        }
    }

    /// A long poll is over.
    fn end_poll(&mut self, handle: RequestId, published: Option<&Response>) {
        let Some(session) = self.clients.sessions.remove(&handle) else {
            // An item before has answered it.
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
            &self.route_figures,
            &mut self.worker,
            handle,
            &source,
            *poll,
            published,
        );
    }

    /// Something was published for a long poll. True when it is over.
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

    /// The whole request is asked again: there is news of which the edge does not know what it is.
    pub(super) fn ask_again(&mut self, handle: RequestId) {
        let Some(session) = self.clients.sessions.remove(&handle) else {
            // An item before has answered it.
            return;
        };
        self.timers.forget(Timer::Poll(handle));
        self.worker.end_items(handle);
        self.on_no_longer_held(handle);
        let last_ids = session.last_ids();
        let mut source = session.source;
        source.target = 0;
        self.ask(
            crate::client::source::Owner::Client(handle),
            source,
            last_ids,
        );
    }
}

impl Clients {
    /// Answers a long poll: with what was published, or with what its origin has said.
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
            let head = Head {
                status: answer.status,
                reason: answer.reason,
                headers: answer.headers,
                length: None,
            };
            figures.count_route(
                worker,
                source,
                &[(Count::ClientHeadSent, head.words_bytes())],
            );
            self.respond(worker, handle, &head, &body);
            return;
        };
        if response.code < STATUS_FINAL_MIN {
            self.answer_text(worker, handle, 502, FAILED);
            return;
        }
        let mut headers = answer.headers;
        if let Body::Bytes(_) = &response.body {
            // It says how the body was that is not sent now.
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
        figures.count_route(
            worker,
            source,
            &[(Count::ClientHeadSent, head.words_bytes())],
        );
        match &response.body {
            Body::Bytes(bytes) => self.respond(worker, handle, &head, bytes),
            Body::Patch(patch) => match patched(&body, patch) {
                Some(patched) => self.respond(worker, handle, &head, &patched),
                None => self.answer_text(worker, handle, 502, FAILED),
            },
        }
    }
}
