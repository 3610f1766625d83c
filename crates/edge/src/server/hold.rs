//! Holds clients: long polls and streams.
//!
//! A shared stream (no filters, no reliable delivery, no `next` link) exists only in the engine: the edge has no state for
//! it, and published content goes to it directly from the channel's log. Every other hold has a [`Session`].

use std::rc::Rc;

use fermata_edge_pushpin::stats::mode::Mode;
use fermata_engine::stats::Counter;
use fermata_engine::{Left, Relayed, RequestId};
use fermata_grip::filter::Filters;
use fermata_grip::instruct;
use fermata_grip::instruct::Instruct;
use fermata_grip::prefix::Prefix;

use crate::client::clients::Clients;
use crate::client::journal::Outcome;
use crate::client::missed::ReplayState;
use crate::client::poll::Poll;
use crate::client::session::{Kind, Session, Stream, Subscription, keep_alive, takes_items};
use crate::client::source::{Engine, Source};
use crate::server::catch_up::replay_state;
use crate::server::holds::Holds;
use crate::server::policy::EdgePolicy;
use crate::timers::Timer;
use crate::upstream::exchange::UpstreamExchange;
use crate::upstream::reply::passed;
use crate::upstream::response::Head;

impl Holds<'_> {
    /// Holds a client whose response from the origin is complete: sends the response as the start of a stream.
    pub(super) fn begin_hold(
        &mut self,
        exchange: &mut UpstreamExchange,
        handle: RequestId,
        instruct: Instruct,
        body: &[u8],
    ) {
        let mut instruct = instruct;
        let subscriptions =
            self.clients
                .subscriptions(self.policy, self.worker, &exchange.source, &instruct);
        let head = Head::from(std::mem::take(&mut instruct.answer));
        let headers = passed(&head.headers);
        let response = head.passed_on(&headers);
        let channels: Vec<&[u8]> = subscriptions.iter().map(|it| &it.channel[..]).collect();
        let takes_items = self.clients.pacer.is_some() || takes_items(&subscriptions, &instruct);
        let hold = Relayed {
            channels: &channels,
            takes_items,
            keep_alive: keep_alive(&instruct),
        };
        let is_head = exchange.source.request.is_head();
        let held = self.worker.hold_relayed(handle, &response, body, &hold);
        self.clients.forget_request(self.worker, handle);
        if held.is_ok() {
            self.route_figures
                .count_head_sent(self.worker, &exchange.source, &head);
        }
        if held.is_ok() && !is_head {
            self.enter(exchange, handle, subscriptions, instruct, takes_items);
        }
    }

    /// Holds a client to which the response body was already forwarded.
    pub(super) fn hold_passed(
        &mut self,
        exchange: &mut UpstreamExchange,
        handle: RequestId,
        instruct: Instruct,
    ) {
        let subscriptions =
            self.clients
                .subscriptions(self.policy, self.worker, &exchange.source, &instruct);
        let channels: Vec<&[u8]> = subscriptions.iter().map(|it| &it.channel[..]).collect();
        let takes_items = self.clients.pacer.is_some() || takes_items(&subscriptions, &instruct);
        let hold = Relayed {
            channels: &channels,
            takes_items,
            keep_alive: keep_alive(&instruct),
        };
        let held = self.worker.hold_stream(handle, &hold);
        self.clients.forget_request(self.worker, handle);
        if held.is_ok() {
            self.enter(exchange, handle, subscriptions, instruct, takes_items);
        }
    }

    fn enter(
        &mut self,
        exchange: &mut UpstreamExchange,
        handle: RequestId,
        subscriptions: Vec<Subscription>,
        instruct: Instruct,
        takes_items: bool,
    ) {
        self.clients
            .watch_for_gone(handle, &exchange.source, instruct.gone.clone());
        exchange.noted.outcome = Outcome::Held;
        self.reports()
            .on_entered(handle, &exchange.source, Mode::Stream, None);
        for subscription in &subscriptions {
            self.reports().on_subscribed(
                handle,
                &exchange.source,
                &subscription.channel,
                Mode::Stream,
            );
        }
        if !takes_items {
            return;
        }
        let replay_state = replay_state(self.worker, &subscriptions);
        let serial = self.clients.next_serial();
        let mut source = exchange.source.clone();
        if instruct.next.is_none() {
            source.request = if subscriptions.iter().any(|it| it.filters.asks()) {
                // The client's links need only the target of the request.
                Rc::new(exchange.source.request.place())
            } else {
                // No further request will be sent to the client's origin.
                Rc::clone(&self.clients.forgotten)
            };
        }
        let session = Session {
            source,
            subscriptions,
            meta: instruct.meta,
            kind: Kind::Stream(Box::new(Stream {
                next: instruct.next,
                link_due_ms: u64::MAX,
                ..Stream::default()
            })),
            serial,
        };
        self.clients.sessions.insert(handle, Box::new(session));
        if let Some(mut keeper) = self.keeper() {
            keeper.watch();
        }
        if replay_state == ReplayState::Behind && !self.catch_up(Left::Held(handle), false) {
            self.on_missed(handle);
            return;
        }
        self.clients.watch_link(self.timers, self.worker, handle);
        if replay_state == ReplayState::Unknown {
            self.clients
                .on_first_subscription(self.timers, self.worker, handle);
        }
    }

    /// Holds a long poll.
    pub(super) fn begin_poll(
        &mut self,
        exchange: &mut UpstreamExchange,
        handle: RequestId,
        instruct: Instruct,
        body: Vec<u8>,
    ) {
        let subscriptions =
            self.clients
                .subscriptions(self.policy, self.worker, &exchange.source, &instruct);
        let replay_state = replay_state(self.worker, &subscriptions);
        let channels: Vec<&[u8]> = subscriptions.iter().map(|it| &it.channel[..]).collect();
        if self.worker.poll_items(handle, &channels).is_err() {
            self.clients.forget_request(self.worker, handle);
            return;
        }
        exchange.noted.outcome = Outcome::Held;
        self.reports()
            .on_entered(handle, &exchange.source, Mode::Response, None);
        for channel in &channels {
            self.reports()
                .on_subscribed(handle, &exchange.source, channel, Mode::Response);
        }
        let due_ms = self.worker.net.now_ms() + u64::from(instruct.timeout_s) * 1_000;
        self.timers.at(due_ms, Timer::Poll(handle));
        self.clients
            .watch_for_gone(handle, &exchange.source, instruct.gone);
        let serial = self.clients.next_serial();
        let session = Session {
            source: exchange.source.clone(),
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
        // Request the response again only once. If the origin's ids never match those of the published items, the edge would
        // otherwise send requests in an endless loop.
        let may_ask = exchange.last_ids.is_empty();
        match replay_state {
            ReplayState::Behind if self.catch_up(Left::Request(handle), false) => {}
            ReplayState::Behind if may_ask => {
                self.worker.net.count(Counter::EdgeCaughtUpRequest, 1);
                self.ask_again(handle);
            }
            ReplayState::Unknown if may_ask => {
                self.clients
                    .on_first_subscription(self.timers, self.worker, handle)
            }
            ReplayState::Behind | ReplayState::Unknown | ReplayState::UpToDate => {}
        }
    }
}

impl Clients {
    /// Returns the subscriptions of an instruction and of its target. Drops subscriptions above the limit, and logs this.
    pub(super) fn subscriptions(
        &mut self,
        policy: &EdgePolicy,
        worker: &mut Engine,
        source: &Source,
        instruct: &Instruct,
    ) -> Vec<Subscription> {
        let source = source.home();
        let prefix = Prefix::new(
            source
                .rule()
                .map_or(&b""[..], |rule| rule.prefix.as_bytes()),
        );
        let mut found: Vec<Subscription> = Vec::new();
        let implicit = source.target().map_or(&[][..], |it| &it.subscriptions);
        for channel in implicit {
            found.push(Subscription {
                channel: channel.clone().into_bytes(),
                own: None,
                prev_id: None,
                ahead: Vec::new(),
                filters: Filters::default(),
            });
        }
        for instruct::Channel {
            name,
            prev_id,
            filters,
        } in &instruct.channels
        {
            let channel = prefix.public(name);
            if let Err(problem) = fermata_engine::check_channel(&channel) {
                worker.net.count(Counter::EdgeSubscriptionName, 1);
                let line = format!("a subscription is ignored: {problem}");
                worker
                    .net
                    .log_for_client(fermata_config::LogLevel::Warning, &line);
                continue;
            }
            if found.iter().any(|it| it.channel == channel) {
                continue;
            }
            found.push(Subscription {
                channel,
                own: Some(name.clone()),
                prev_id: prev_id.clone(),
                ahead: Vec::new(),
                filters: Filters::from_names(filters.iter().map(Vec::as_slice)),
            });
        }
        if found.len() > policy.subscriptions_max {
            let surplus = found.len() - policy.subscriptions_max;
            worker
                .net
                .count(Counter::EdgeSubscriptionsMax, surplus as u64);
            let line = format!(
                "a client is to be subscribed to {} channels; only the first {} count (subscriptions_max)",
                found.len(),
                policy.subscriptions_max
            );
            worker
                .net
                .log_for_client(fermata_config::LogLevel::Warning, &line);
            found.truncate(policy.subscriptions_max);
        }
        // Free unused capacity, because the list is stored while the client is connected.
        found.shrink_to_fit();
        for subscription in &found {
            self.filtering.watch(subscription);
        }
        found
    }

    /// Returns an unused serial number.
    pub(super) fn next_serial(&mut self) -> u64 {
        self.serials += 1;
        self.serials
    }
}
