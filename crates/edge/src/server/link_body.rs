//! Responses of `next` links that exceed the size limit of an instruction. The edge forwards such a response while it arrives.
//! Items published during that time are queued, and delivered after the response.

use std::collections::VecDeque;
use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::stats::Counter;
use fermata_engine::{Left, Relayed, RequestId};
use fermata_grip::instruct::{Hold, Instruct};
use fermata_grip::item::Item;

use crate::client::clients::Clients;
use crate::client::links::link_instruct;
use crate::client::missed::ReplayState;
use crate::client::session::{Kind, keep_alive};
use crate::client::source::{Engine, Owner};
use crate::server::catch_up::replay_state;
use crate::server::holds::Holds;
use crate::timers::Timer;
use crate::upstream::exchange::{Step, Stop, UpstreamExchange};
use crate::upstream::link_body::{LinkBody, PENDING_BYTES_MAX};
use crate::upstream::reply::Phase;
use crate::upstream::response::Head;

/// Maximum number of items held back for one client, as in Pushpin.
const HELD_BACK_MAX: usize = 100;

/// Interval in milliseconds at which the edge checks whether a slow client accepts more bytes.
const PAUSE_MS: u64 = 20;

impl Holds<'_> {
    /// Handles the response to a link request. Its body continues the stream, and its instruction replaces the previous
    /// instruction.
    pub(super) fn on_link(
        &mut self,
        exchange: &mut UpstreamExchange,
        handle: RequestId,
        head: Head,
        body: Vec<u8>,
    ) {
        if !(200..300).contains(&head.status) {
            let reason = format!("the next link answers {}", head.status);
            self.on_link_failed(handle, &reason);
            return;
        }
        let mut instruct = match link_instruct(&head, Some(&body)) {
            Ok(instruct) => instruct,
            Err(error) => return self.on_link_failed(handle, &error.to_string()),
        };
        let body = instruct.answer.body.take().unwrap_or(body);
        if !body.is_empty() && self.worker.write_held(handle, &body).is_err() {
            return;
        }
        if let Some(stream) = self.clients.stream(handle) {
            stream.empty_links = if body.is_empty() {
                stream.empty_links.saturating_add(1)
            } else {
                0
            };
        }
        self.follow_link(exchange, handle, instruct);
    }

    /// Follows the instruction of a link's response after the response body was forwarded.
    pub(super) fn follow_link(
        &mut self,
        exchange: &UpstreamExchange,
        handle: RequestId,
        instruct: Instruct,
    ) {
        let mut instruct = instruct;
        let subscriptions =
            self.clients
                .subscriptions(self.policy, self.worker, &exchange.source, &instruct);
        let Some(session) = self.clients.sessions.get_mut(&handle) else {
            // The client may have left.
            return;
        };
        let Kind::Stream(stream) = &mut session.kind else {
            return;
        };
        stream.is_asking = false;
        stream.is_passing = false;
        stream.retries = 0;
        stream.next = instruct.next.clone();
        let held_back = std::mem::take(&mut stream.held_back);
        let has_lost = std::mem::take(&mut stream.has_lost);
        session.meta.append(&mut instruct.meta);
        match instruct.hold {
            Hold::Stream => {
                let channels: Vec<&[u8]> = subscriptions.iter().map(|it| &it.channel[..]).collect();
                let hold = Relayed {
                    channels: &channels,
                    takes_items: true,
                    keep_alive: keep_alive(&instruct),
                };
                let is_same = channels.len() == session.subscriptions.len()
                    && channels
                        .iter()
                        .all(|it| session.subscriptions.iter().any(|old| old.channel == *it));
                // Keep the existing subscriptions, because new ones would start after the items that were published during the
                // request.
                let updated = if is_same {
                    Ok(())
                } else {
                    self.worker.update_held(handle, &hold)
                };
                session.subscriptions = subscriptions.clone();
                if updated.is_err() {
                    return;
                }
                self.reports().on_replaced(handle, &channels);
                // Items of channels with ids were dropped during the request, and the sequence of a new channel may have advanced.
                // Deliver these items from the ring, or request the link again.
                let is_behind = replay_state(self.worker, &subscriptions) == ReplayState::Behind;
                if is_behind && !self.catch_up(Left::Held(handle), false) {
                    let random = fermata_io::random::u64() as u32;
                    let now_ms = self.worker.net.now_ms();
                    match self.clients.after_lag(handle, now_ms, random) {
                        Some(due_ms) => self.timers.at(due_ms, Timer::Link(handle)),
                        None => self.on_missed(handle),
                    }
                    return;
                }
                if let Some(stream) = self.clients.stream(handle) {
                    stream.lags = 0;
                    stream.empty_links = 0;
                }
                self.clients.watch_link(self.timers, self.worker, handle);
                self.give_held_back(handle, held_back, has_lost);
            }
            _ if instruct.next.is_some() => {
                let random = fermata_io::random::u64() as u32;
                let now_ms = self.worker.net.now_ms();
                match self.clients.after_empty_link(handle, now_ms, random) {
                    Some(due_ms) => self.timers.at(due_ms, Timer::Link(handle)),
                    None => self.ask_link(handle),
                }
            }
            _ => self.end_stream_of(handle),
        }
    }

    /// Starts to forward a link's response that exceeds the limit of an instruction, unless the body is the instruction.
    pub(super) fn begin_link_body(
        &mut self,
        exchange: &mut UpstreamExchange,
        handle: RequestId,
    ) -> Step {
        let Phase::Whole { head, body } =
            std::mem::replace(&mut exchange.phase, Phase::AwaitingHead)
        else {
            return Ok(());
        };
        if !(200..300).contains(&head.status) {
            return Err(Stop::failed(
                502,
                format!("the next link answers {}", head.status),
            ));
        }
        let instruct = match link_instruct(&head, None) {
            Ok(instruct) => instruct,
            Err(error) => return Err(Stop::failed(502, error)),
        };
        let Some(stream) = self.clients.stream(handle) else {
            return Err(Stop::Over);
        };
        stream.is_passing = true;
        stream.empty_links = 0;
        exchange.phase = Phase::Linked(LinkBody {
            pending: body,
            has_ended: false,
            instruct: Box::new(instruct),
        });
        self.pass_link(exchange)
    }

    /// Sends body bytes of a link's response to the client as far as the client accepts them.
    pub(super) fn pass_link(&mut self, exchange: &mut UpstreamExchange) -> Step {
        let (Owner::Link(handle), Phase::Linked(body)) = (exchange.owner, &mut exchange.phase)
        else {
            return Ok(());
        };
        let Some(unsent) = self.worker.net.held_unsent(handle) else {
            return Err(Stop::Over);
        };
        if !body.pending.is_empty() {
            if unsent > PENDING_BYTES_MAX {
                let due_ms = self.worker.net.now_ms() + PAUSE_MS;
                self.timers.at(due_ms, Timer::LinkBody(handle));
                return Ok(());
            }
            // Cannot fail: the client was checked above.
            let _ = self.worker.write_held(handle, &body.pending);
            body.pending.clear();
        }
        if !body.has_ended {
            return Ok(());
        }
        if let Phase::Linked(body) = std::mem::replace(&mut exchange.phase, Phase::AwaitingHead) {
            self.follow_link(exchange, handle, *body.instruct);
            self.resume_filtering(handle);
        }
        Err(Stop::Over)
    }

    /// Delivers the items that were queued while a link's response was forwarded. Items of channels with ids are skipped, because
    /// [`Holds::catch_up`] delivers them from the ring.
    pub(super) fn give_held_back(
        &mut self,
        handle: RequestId,
        items: VecDeque<(Rc<[u8]>, Rc<Item>)>,
        has_lost: bool,
    ) {
        for (channel, item) in items {
            let Some(session) = self.clients.sessions.get_mut(&handle) else {
                // An earlier item has ended the stream.
                return;
            };
            let without_ids = session.subscription(&channel);
            if without_ids.is_some_and(|it| it.prev_id.is_none())
                && self.on_item(Left::Held(handle), &channel, &item)
            {
                return;
            }
        }
        if has_lost {
            if self.clients.has_link(handle) {
                self.update(handle)
            } else {
                self.end_stream_of(handle)
            }
        }
    }
}

impl Clients {
    /// Queues an item for a client to which a link's response is being forwarded. Returns false if no response is being forwarded.
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
