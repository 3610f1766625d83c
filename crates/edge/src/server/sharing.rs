//! Equal requests that share one exchange (`share_all`).
//!
//! A request that equals a request in progress waits for the response to that request. Equal requests have the same route, method,
//! host, target and header fields, including fields that identify users. A response is not shared if it may be meant for one
//! client, or is too large to be buffered. The requests of the other clients are then sent separately.

use fermata_engine::RequestId;
use fermata_grip::instruct::{Instruct, is_instruct};

use crate::client::source::{ExchangeKey, Owner, Source};
use crate::server::edge::Edge;
use crate::server::tasks::{Ask, Tasks};
use crate::upstream::exchange::{Purpose, ShareKey, Sharer, UpstreamExchange};
use crate::upstream::exchanges::UpstreamExchanges;
use crate::upstream::id::UpstreamExchangeId;
use crate::upstream::parts::Upstream;
use crate::upstream::reply::{INSTRUCT_BYTES_MAX, borrowed, read_instruct};
use crate::upstream::response::Head;

/// Maximum number of clients that wait for another client's response. The requests of further clients are sent separately.
const SHARERS_MAX: usize = 1_000;

/// Fields that describe the path of a request through proxies. They do not distinguish requests.
const OF_THE_WAY: [&[u8]; 4] = [
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"x-forwarded-for",
];

impl Edge {
    /// Starts an exchange for a request, or waits for the response to an equal request.
    pub(super) fn ask_or_share(&mut self, handle: RequestId, source: Source) {
        let since_ms = self.worker.net.now_ms();
        let key = if self.upstream.sharing.is_on && !self.clients.is_script(handle) {
            key(&source)
        } else {
            None
        };
        let Some(key) = key else {
            return self.ask(Ask::new(Owner::Client(handle), source));
        };
        if let Some(&id) = self.upstream.sharing.asked.get(&key)
            && let Some(exchange) = self.exchanges.get_mut(id)
            && !exchange.has_response
        {
            if exchange.shared.others.len() < SHARERS_MAX {
                exchange.shared.others.push(Sharer {
                    handle,
                    source,
                    since_ms,
                });
                self.upstream.sharing.waiting.insert(handle, id);
                return;
            }
            return self.ask(Ask::new(Owner::Client(handle), source));
        }
        let id = self.upstream.exchange_keys.next_id();
        self.ask(Ask::new(Owner::Client(handle), source));
        if let Some(exchange) = self.exchanges.get_mut(id) {
            exchange.shared.key = Some(key.clone());
            self.upstream.sharing.asked.insert(key, id);
        }
    }
}

impl UpstreamExchange {
    /// Returns true if a response has to be collected because other clients wait for it. A response without a length is not
    /// collected, because it may be endless.
    pub(super) fn is_shared(&self, head: &Head) -> bool {
        let bytes_max = INSTRUCT_BYTES_MAX as u64;
        !self.shared.others.is_empty() && head.length.is_some_and(|it| it <= bytes_max)
    }
}

impl Upstream {
    /// Removes a client that has left from the waiting clients.
    pub(super) fn leave_shared(&mut self, exchanges: &mut UpstreamExchanges, handle: RequestId) {
        if let Some(id) = self.sharing.waiting.remove(&handle)
            && let Some(exchange) = exchanges.get_mut(id)
        {
            exchange
                .shared
                .others
                .retain(|other| other.handle != handle);
        }
    }

    /// Passes the exchange of a client that has left to the first waiting client. Returns false if no client waits.
    pub(super) fn hand_over(
        &mut self,
        exchanges: &mut UpstreamExchanges,
        id: UpstreamExchangeId,
    ) -> bool {
        let Some(exchange) = exchanges.get_mut(id) else {
            // The exchange has ended.
            return false;
        };
        if exchange.shared.others.is_empty() {
            return false;
        }
        let Sharer { handle, source, .. } = exchange.shared.others.remove(0);
        let target = exchange.source.target;
        exchange.owner = Owner::Client(handle);
        exchange.source = Source { target, ..source };
        self.sharing.waiting.remove(&handle);
        self.exchange_keys.set(ExchangeKey::Client(handle), id);
        true
    }

    /// Starts separate exchanges for the waiting clients, because they cannot share the response.
    pub(super) fn release_sharers(&mut self, exchange: &mut UpstreamExchange, tasks: &mut Tasks) {
        for Sharer { handle, source, .. } in self.take_sharers(exchange) {
            tasks.ask(Ask::new(Owner::Client(handle), source));
        }
    }

    /// Removes and returns the clients that wait for a response. No further client can join.
    pub(super) fn take_sharers(&mut self, exchange: &mut UpstreamExchange) -> Vec<Sharer> {
        if let Some(key) = exchange.shared.key.take()
            && self.sharing.asked.get(&key) == Some(&exchange.id())
        {
            self.sharing.asked.remove(&key);
        }
        let others = std::mem::take(&mut exchange.shared.others);
        for other in &others {
            self.sharing.waiting.remove(&other.handle);
        }
        others
    }

    /// Creates an exchange with the complete response for one of the waiting clients.
    pub(super) fn exchange_of_sharer(
        &mut self,
        exchange: &UpstreamExchange,
        handle: RequestId,
        source: Source,
    ) -> Box<UpstreamExchange> {
        let target = exchange.source.target;
        let source = Source { target, ..source };
        let mut own =
            self.exchange_keys
                .begin(Owner::Client(handle), source, Vec::new(), Purpose::Plain);
        own.noted = exchange.noted;
        own
    }
}

/// Returns the key of a request; `None` if the request is never shared. Only GET and HEAD requests without a body are shared.
fn key(source: &Source) -> Option<ShareKey> {
    let request = &source.request;
    let is_read = matches!(&request.method[..], b"GET" | b"HEAD");
    if !is_read || request.body.bytes() > 0 || source.is_trusted || request.has_events() {
        return None;
    }
    let of_way = |name: &[u8]| OF_THE_WAY.iter().any(|it| name.eq_ignore_ascii_case(it));
    let mut key = Vec::new();
    let mut push = |part: &[u8]| {
        key.extend_from_slice(&(part.len() as u64).to_le_bytes());
        key.extend_from_slice(part);
    };
    push(&source.table.generation.to_le_bytes());
    push(&source.rule.to_le_bytes());
    push(&[u8::from(request.is_tls)]);
    push(&request.method);
    push(&request.host);
    push(&request.target);
    let mut headers: Vec<(Vec<u8>, &[u8])> = request
        .headers
        .iter()
        .filter(|(name, _)| !of_way(name))
        .map(|(name, value)| (name.to_ascii_lowercase(), &value[..]))
        .collect();
    // The sort is stable, because the order of fields with the same name matters.
    headers.sort_by(|one, other| one.0.cmp(&other.0));
    for (name, value) in headers {
        push(&name);
        push(value);
    }
    Some(key)
}

/// Returns true if a complete response may be meant for one client.
pub(super) fn is_answer_for_one(head: &Head, body: &[u8]) -> bool {
    let is_own = || matches!(read_instruct(head, Some(body)), Some(Ok(it)) if is_own(&it));
    is_for_one(&head.headers) || (is_instruct(&borrowed(&head.headers)) && is_own())
}

/// Returns true if an instruction contains data of one client.
fn is_own(instruct: &Instruct) -> bool {
    let is_known = instruct.session_id.is_some() || !instruct.meta.is_empty();
    is_known || is_for_one(&instruct.answer.headers)
}

/// Returns true if fields show that the response is for one client.
fn is_for_one(headers: &[(Vec<u8>, Vec<u8>)]) -> bool {
    headers.iter().any(|(name, value)| {
        let has_value = |words: &[&[u8]]| {
            value
                .split(|&byte| byte == b',')
                .filter_map(|part| part.split(|&byte| byte == b'=').next())
                .map(<[u8]>::trim_ascii)
                .any(|part| words.iter().any(|word| part.eq_ignore_ascii_case(word)))
        };
        name.eq_ignore_ascii_case(b"set-cookie")
            || name.eq_ignore_ascii_case(b"grip-session-id")
            || name.eq_ignore_ascii_case(b"grip-set-meta")
            || (name.eq_ignore_ascii_case(b"cache-control")
                && has_value(&[b"private", b"no-store"]))
            || (name.eq_ignore_ascii_case(b"vary") && has_value(&[b"*", b"x-forwarded-for"]))
    })
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::client::request::{Body, ClientRequest};
    use crate::client::source::Table;
    use crate::routes::Routes;

    fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> Source {
        let (routes, _) = Routes::read("* a:1", |_| Ok(()));
        let headers = headers.iter();
        Source {
            request: Rc::new(ClientRequest {
                method: method.into(),
                target: target.into(),
                headers: headers.map(|(n, v)| ((*n).into(), (*v).into())).collect(),
                ..ClientRequest::forgotten()
            }),
            table: Rc::new(Table {
                generation: 1,
                routes,
                home: None,
                watched: Vec::new(),
            }),
            ..Source::of_get(target)
        }
    }

    #[test]
    fn only_what_is_equal_is_shared() {
        let base = key(&request("GET", "/a", &[("A", "1"), ("B", "2")]));
        assert!(base.is_some());
        let same: [&[(&str, &str)]; 2] = [
            &[("b", "2"), ("a", "1")],
            &[("A", "1"), ("B", "2"), ("X-Forwarded-For", "192.0.2.1")],
        ];
        for headers in same {
            assert_eq!(key(&request("GET", "/a", headers)), base, "{headers:?}");
        }
        for (target, headers) in [
            ("/b", &[("A", "1"), ("B", "2")][..]),
            ("/a", &[("A", "1")]),
            ("/a", &[("A", "1"), ("B", "2"), ("Cookie", "user=1")]),
            ("/a", &[("A", "1"), ("B", "2"), ("Authorization", "x")]),
            ("/a", &[("A", "1B"), ("", "2")]),
        ] {
            assert_ne!(key(&request("GET", target, headers)), base, "{headers:?}");
        }
        let one = key(&request("GET", "/a", &[("A", "1"), ("A", "2")]));
        assert_ne!(one, key(&request("GET", "/a", &[("A", "2"), ("A", "1")])));
        assert_eq!(key(&request("POST", "/a", &[])), None);
        let mut with_body = request("GET", "/a", &[]);
        if let Some(request) = Rc::get_mut(&mut with_body.request) {
            request.body = Body::Memory(b"x".to_vec());
        }
        assert_eq!(key(&with_body), None);
    }

    #[test]
    fn answers_for_one_are_known() {
        let head = |name: &str, value: &str| [(name.into(), value.into())];
        for (name, value) in [
            ("Set-Cookie", "a=b"),
            ("cache-control", "max-age=1, Private"),
            ("Cache-Control", "no-store"),
            ("Cache-Control", "private=\"x\""),
            ("Vary", "Accept, *"),
            ("Vary", "X-Forwarded-For"),
            ("Grip-Session-Id", "s"),
        ] {
            assert!(is_for_one(&head(name, value)), "{name}: {value}");
        }
        assert!(!is_for_one(&head("Cache-Control", "public, max-age=5")));
        assert!(!is_for_one(&head("Vary", "Accept")));
    }
}
