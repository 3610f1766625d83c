//! Next links whose answers are larger than an instruction may be: they are passed on as they come, and what is published
//! meanwhile comes behind them.

use std::collections::VecDeque;
use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::RequestId;
use fermata_engine::stats::Counter;
use fermata_grip::item::Item;

use crate::client::clients::Clients;
use crate::client::links::link_instruct;
use crate::client::source::{Asker, Engine, Owner};
use crate::server::edge::Edge;
use crate::timers::Timer;
use crate::upstream::link_body::{LinkBody, PENDING_BYTES_MAX};
use crate::upstream::reply::Phase;
use crate::upstream::talk::{Step, Talk};

/// Items that wait for one client until its link's answer is passed on, as many as Pushpin keeps.
const HELD_BACK_MAX: usize = 100;

/// How soon a client that takes little is looked at again.
const PAUSE_MS: u64 = 20;

impl Edge {
    /// The answer of a next link has become larger than an instruction: it is passed on, unless it has to be read whole.
    pub(super) fn begin_link_body(&mut self, talk: &mut Talk, handle: RequestId) -> Step {
        let Phase::Whole { head, body } = std::mem::replace(&mut talk.phase, Phase::AwaitingHead)
        else {
            return Step::Goes;
        };
        if !(200..300).contains(&head.status) {
            return self.fail(talk, 502, &format!("the next link answers {}", head.status));
        }
        let instruct = match link_instruct(&head, None) {
            Ok(instruct) => instruct,
            Err(error) => return self.fail(talk, 502, &error.to_string()),
        };
        let Some(stream) = self.clients.stream(handle) else {
            return Step::Over;
        };
        stream.is_passing = true;
        talk.phase = Phase::Linked(LinkBody {
            pending: body,
            has_ended: false,
            instruct: Box::new(instruct),
        });
        self.pass_link(talk)
    }

    /// Gives the client what it takes of its link's answer.
    pub(super) fn pass_link(&mut self, talk: &mut Talk) -> Step {
        let (Owner::Link(handle), Phase::Linked(body)) = (talk.owner, &mut talk.phase) else {
            return Step::Goes;
        };
        let Some(unsent) = self.worker.net.held_unsent(handle) else {
            return Step::Over;
        };
        if !body.pending.is_empty() {
            if unsent > PENDING_BYTES_MAX {
                let due_ms = self.worker.net.now_ms() + PAUSE_MS;
                self.timers.at(due_ms, Timer::LinkBody(handle));
                return Step::Goes;
            }
            // It was there a moment ago.
            let _ = self.worker.write_held(handle, &body.pending);
            body.pending.clear();
        }
        if !body.has_ended {
            return Step::Goes;
        }
        if let Phase::Linked(body) = std::mem::replace(&mut talk.phase, Phase::AwaitingHead) {
            self.follow_link(talk, handle, *body.instruct);
            self.resume_filtering(handle);
        }
        Step::Over
    }

    /// A client that took too little of its link's answer may take more now.
    pub(super) fn on_link_body_due(&mut self, handle: RequestId) {
        let Some(id) = self.upstream.talks.of(Asker::Client(handle)) else {
            return;
        };
        self.with_talk(id, |edge, talk| match edge.pass_link(talk) {
            Step::Goes => edge.pump(talk),
            Step::Over => Step::Over,
        });
    }

    /// Gives a client what was published while its link's answer was passed on. Of channels with ids it has that from the ring.
    pub(super) fn give_held_back(
        &mut self,
        handle: RequestId,
        items: VecDeque<(Rc<[u8]>, Rc<Item>)>,
        has_lost: bool,
    ) {
        for (channel, item) in items {
            let Some(session) = self.clients.sessions.get_mut(&handle) else {
                // An item before has ended it.
                return;
            };
            let without_ids = session.subscription(&channel);
            if without_ids.is_some_and(|it| it.prev_id.is_none())
                && self.on_item(fermata_engine::Left::Held(handle), &channel, &item)
            {
                return;
            }
        }
        if has_lost {
            match self.clients.has_link(handle) {
                true => self.update(handle),
                false => self.end_stream_of(handle),
            }
        }
    }
}

impl Clients {
    /// Keeps an item for a client whose link's answer is being passed on. False: there is none.
    pub(super) fn holds_back(
        &mut self,
        worker: &mut Engine,
        handle: RequestId,
        channel: &[u8],
        item: &Rc<Item>,
    ) -> bool {
        let Some(stream) = self.stream(handle).filter(|it| it.is_passing) else {
            return false;
        };
        if stream.held_back.len() < HELD_BACK_MAX {
            let channel = Rc::from(channel);
            stream.held_back.push_back((channel, Rc::clone(item)));
            return true;
        }
        if !std::mem::replace(&mut stream.has_lost, true) {
            let line = format!(
                "more than {HELD_BACK_MAX} items wait for a client whose next link answers; it has missed something"
            );
            worker.net.log_for_client(LogLevel::Warning, &line);
        }
        worker.net.count(Counter::EdgeDroppedQueue, 1);
        true
    }
}
