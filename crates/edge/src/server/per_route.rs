//! What is counted of single routes, and when.

use crate::client::journal::Outcome;
use crate::client::request::Body;
use crate::client::source::{Owner, Source};
use crate::routes::figures::Count;
use crate::server::edge::Edge;
use crate::upstream::talk::Talk;

impl Edge {
    /// Counts something of a request's route.
    pub(super) fn count_route(&self, source: &Source, count: Count, by: u64) {
        let id = source.home().rule().and_then(|rule| rule.id.as_deref());
        self.route_figures.add(self.worker.index(), id, count, by);
    }

    /// A conversation is over.
    pub(super) fn count_talk(&self, talk: &Talk) {
        if matches!(talk.owner, Owner::Check(..)) {
            return;
        }
        let source = &talk.source;
        let sent = match &source.request.body {
            Body::Arriving { first, .. } => first.len() as u64 + talk.noted.body_bytes,
            body => body.bytes(),
        };
        let received = talk.noted.bytes;
        self.count_route(source, Count::ServerSent, sent);
        self.count_route(source, Count::ServerReceived, received);
        if let Owner::Client(_) = talk.owner {
            self.count_route(source, Count::ClientReceived, sent);
            self.count_route(source, Count::ClientSent, received);
            if talk.noted.outcome == Outcome::Failed {
                self.count_route(source, Count::Failed, 1);
            }
        }
    }

    /// A message has come from, or goes to, the client of a WebSocket.
    pub(super) fn count_message(&self, handle: u64, count: Count, bytes: usize) {
        if let Some(session) = self.sessions.get(&handle) {
            self.count_route(&session.source, count, bytes as u64);
        }
    }
}
