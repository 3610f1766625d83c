//! Counters of single routes.

use crate::client::journal::Outcome;
use crate::client::request::Body;
use crate::client::source::{Engine, Owner, Source};
use crate::routes::figures::{Count, RouteFigures};
use crate::upstream::exchange::{Purpose, UpstreamExchange};
use crate::upstream::response::Head;

impl RouteFigures {
    /// Adds to counters of a request's route.
    pub(super) fn count_route(&self, worker: &Engine, source: &Source, counted: &[(Count, u64)]) {
        let id = source.home().rule().and_then(|rule| rule.id.as_deref());
        self.add(worker.index(), id, counted);
    }

    /// Counts the size of a head sent to a client.
    pub(super) fn count_head_sent(&self, worker: &Engine, source: &Source, head: &Head) {
        let counted = [(Count::ClientHeadSent, head.words_bytes())];
        self.count_route(worker, source, &counted);
    }

    /// Adds to counters of an exchange's route, except for checks.
    pub(super) fn count_of_exchange(
        &self,
        worker: &Engine,
        exchange: &UpstreamExchange,
        counted: &[(Count, u64)],
    ) {
        if !matches!(exchange.owner, Owner::Check(..)) {
            self.count_route(worker, &exchange.source, counted);
        }
    }

    /// Counts an exchange that ended.
    pub(super) fn count_exchange(&self, worker: &Engine, exchange: &UpstreamExchange) {
        let source = &exchange.source;
        let sent = match &source.request.body {
            Body::Arriving { first, .. } => first.len() as u64 + exchange.noted.body_bytes,
            body => body.bytes(),
        };
        let received = exchange.noted.bytes;
        let is_failed = exchange.noted.outcome == Outcome::Failed;
        let of_server = [(Count::ServerSent, sent), (Count::ServerReceived, received)];
        self.count_of_exchange(worker, exchange, &of_server);
        if let Owner::Client(_) = exchange.owner {
            // With WebSocket-over-HTTP, the bodies are events, which the client did not send or receive as bodies.
            let is_body = !matches!(exchange.purpose, Purpose::Events(_));
            let bytes = |bytes| if is_body { bytes } else { 0 };
            let of_client = [
                (Count::ClientReceived, bytes(sent)),
                (Count::ClientSent, bytes(received)),
                (Count::Failed, u64::from(is_failed)),
            ];
            self.count_route(worker, source, &of_client);
        }
    }
}
