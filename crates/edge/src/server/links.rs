//! `next` links, with which the edge continues a stream after the client missed items, or after a time without items.

use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::RequestId;
use fermata_engine::stats::Counter;
use fermata_grip::reliable::{LINK_RETRIES_MAX, retry_delay_ms};
use fermata_grip::spelling::Folded;

use crate::client::clients::Clients;
use crate::client::links::resolve;
use crate::client::request::{Body, ClientRequest};
use crate::client::session::{Kind, Stream};
use crate::client::source::{Engine, ExchangeKey, Owner, Source, Table};
use crate::routes::Routes;
use crate::server::holds::Holds;
use crate::server::routing::Routing;
use crate::server::tasks::{Ask, Task};
use crate::timers::{Timer, Timers};

impl Holds<'_> {
    pub(super) fn on_link_due(&mut self, handle: RequestId) {
        if self.clients.is_link_due(self.timers, self.worker, handle) {
            self.ask_link(handle);
        }
    }

    /// Requests the `next` link of a stream, unless the stream has no link or a request is in progress.
    pub(super) fn ask_link(&mut self, handle: RequestId) {
        let Some(link) = self.clients.begin_link(handle) else {
            return;
        };
        // Drop queued items of channels with ids, because the response of the link contains them. A client without a session has no
        // queued items.
        if let Some(session) = self.clients.sessions.get(&handle) {
            let asked = self.clients.filtering.leave_reliable(handle, session);
            self.abandon_filter(asked);
            self.tasks.add(Task::Filter(handle));
        }
        match self.routing.link_source(&link.source, &link.uri) {
            Some(source) => {
                if let Some(session) = self.clients.sessions.get_mut(&handle) {
                    session.source = source.clone();
                }
                self.tasks
                    .ask(Ask::new(Owner::Link(handle), source).behind(link.last_ids));
            }
            None => self.on_link_failed(handle, "the next link has no route"),
        }
    }

    /// Handles a failed request of a link.
    pub(super) fn on_link_failed(&mut self, handle: RequestId, reason: &str) {
        let random = fermata_io::random::u64() as u32;
        let now_ms = self.worker.net.now_ms();
        match self.clients.after_link_failure(handle, now_ms, random) {
            AfterFailure::Stays => {}
            AfterFailure::Again(due_ms) => {
                self.timers.at(due_ms, Timer::Link(handle));
                self.worker.net.count(Counter::EdgeLinkTriedAgain, 1);
            }
            AfterFailure::Cut => {
                self.worker.net.count(Counter::EdgeLinkEnded, 1);
                self.cut_stream_of(handle);
            }
            AfterFailure::End => {
                self.worker.net.count(Counter::EdgeLinkEnded, 1);
                let line = format!("a stream ends, since its next link is no use: {reason}");
                self.worker.net.log_for_client(LogLevel::Warning, &line);
                self.end_stream_of(handle);
            }
        }
    }

    /// Ends a held client's response cleanly.
    pub(super) fn end_stream_of(&mut self, handle: RequestId) {
        self.forget_stream(handle);
        self.clients.forget_gone(handle);
        let _ = self.worker.end_held(handle);
    }

    /// Closes a held client's connection without the regular end of the response, so that the client detects that the response is
    /// incomplete.
    pub(super) fn cut_stream_of(&mut self, handle: RequestId) {
        self.forget_stream(handle);
        self.worker.cut_held(handle);
    }

    fn forget_stream(&mut self, handle: RequestId) {
        self.clients.sessions.remove(&handle);
        self.tasks.add(Task::Abandon(ExchangeKey::Client(handle)));
        self.on_no_longer_held(handle);
    }
}

/// A link to request.
pub(super) struct Link {
    source: Source,
    uri: Vec<u8>,
    last_ids: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Action for a stream whose link failed.
#[derive(Debug, PartialEq, Eq)]
enum AfterFailure {
    /// Request the link again at this time.
    Again(u64),
    /// Close the connection without a regular end. Only a part of the link's response was sent, and the client would read further
    /// items as the rest of it.
    Cut,
    End,
    /// The stream does not exist.
    Stays,
}

impl Clients {
    /// Returns true if a stream's link is due.
    fn is_link_due(&mut self, timers: &mut Timers, worker: &mut Engine, handle: RequestId) -> bool {
        let due_ms = self.stream(handle).map_or(u64::MAX, |it| it.link_due_ms);
        let is_due = due_ms <= worker.net.now_ms();
        if !is_due && due_ms != u64::MAX {
            timers.at(due_ms, Timer::Link(handle));
        }
        is_due
    }

    /// Starts a request of a stream's link. Returns `None` if the stream has no link or a request is in progress.
    fn begin_link(&mut self, handle: RequestId) -> Option<Link> {
        // The client may have left before the edge held it.
        let session = self.sessions.get_mut(&handle)?;
        let last_ids = session.last_ids();
        let Kind::Stream(stream) = &mut session.kind else {
            return None;
        };
        stream.is_queued = false;
        if std::mem::replace(&mut stream.is_asking, true) {
            return None;
        }
        stream.link_due_ms = u64::MAX;
        let uri = stream.next.as_ref()?.uri.clone();
        let source = session.source.clone();
        Some(Link {
            source,
            uri,
            last_ids,
        })
    }

    /// Handles a link's response that lacked items. Returns the time of the next request: immediately after the first such
    /// response, then after increasing delays, because the origin's ids may never match those of the published items. Returns
    /// `None` if the stream has no link any more.
    pub(super) fn after_lag(&mut self, handle: RequestId, now_ms: u64, random: u32) -> Option<u64> {
        let stream = self.stream(handle)?;
        stream.next.as_ref()?;
        let delay_ms = match stream.lags.checked_sub(1) {
            None => 0,
            Some(again) => retry_delay_ms(again.min(LINK_RETRIES_MAX - 1), random).unwrap_or(0),
        };
        stream.lags += 1;
        stream.link_due_ms = now_ms + delay_ms;
        Some(stream.link_due_ms)
    }

    /// Returns the time of a stream's next link request after a response with neither content nor a hold; `None` = now.
    ///
    /// Without this pause, the edge would request links that only refer to each other in a tight loop.
    pub(super) fn after_empty_link(
        &mut self,
        handle: RequestId,
        now_ms: u64,
        random: u32,
    ) -> Option<u64> {
        let stream = self.stream(handle)?;
        let again = stream.empty_links.checked_sub(2)?;
        let delay_ms = retry_delay_ms(again.min(LINK_RETRIES_MAX - 1), random)?;
        stream.link_due_ms = now_ms + delay_ms;
        Some(stream.link_due_ms)
    }

    /// Returns the action after a failed request of a link. The edge repeats the request after increasing delays, at most
    /// [`LINK_RETRIES_MAX`] times, and then ends the stream.
    fn after_link_failure(&mut self, handle: RequestId, now_ms: u64, random: u32) -> AfterFailure {
        let Some(stream) = self.stream(handle) else {
            return AfterFailure::Stays;
        };
        if stream.is_passing {
            return AfterFailure::Cut;
        }
        stream.is_asking = false;
        match retry_delay_ms(stream.retries, random) {
            Some(delay_ms) => {
                stream.retries += 1;
                stream.link_due_ms = now_ms + delay_ms;
                AfterFailure::Again(stream.link_due_ms)
            }
            None => AfterFailure::End,
        }
    }

    pub(super) fn stream(&mut self, handle: RequestId) -> Option<&mut Stream> {
        match &mut self.sessions.get_mut(&handle)?.kind {
            Kind::Stream(stream) => Some(stream),
            Kind::Poll(_) | Kind::Socket(_) => None,
        }
    }

    /// Returns true if a stream has a `next` link.
    pub(super) fn has_link(&mut self, handle: RequestId) -> bool {
        self.stream(handle).is_some_and(|it| it.next.is_some())
    }

    /// Sets the time at which a stream's link is requested without items.
    pub(super) fn watch_link(
        &mut self,
        timers: &mut Timers,
        worker: &mut Engine,
        handle: RequestId,
    ) {
        let now_ms = worker.net.now_ms();
        let Some(stream) = self.stream(handle) else {
            return;
        };
        let Some(timeout_s) = stream.next.as_ref().map(|next| next.timeout_s) else {
            return;
        };
        stream.link_due_ms = now_ms + u64::from(timeout_s) * 1_000;
        let due_ms = stream.link_due_ms;
        timers.at(due_ms, Timer::Link(handle));
    }

    /// Restarts the time until the link is requested, after an item. The timer checks the time when it fires.
    pub(super) fn touch_link(&mut self, worker: &mut Engine, handle: RequestId) {
        let now_ms = worker.net.now_ms();
        if let Some(stream) = self.stream(handle)
            && let Some(next) = &stream.next
            && stream.link_due_ms != u64::MAX
        {
            stream.link_due_ms = now_ms + u64::from(next.timeout_s) * 1_000;
        }
    }
}

impl Routing {
    /// Returns the source of a link, resolved against a request.
    pub(super) fn link_source(&mut self, source: &Source, uri: &[u8]) -> Option<Source> {
        let place = resolve(&source.request, uri)?;
        // Refuse a space or a line break, which would change the request line sent to the server.
        if !place.target.iter().all(u8::is_ascii_graphic) {
            return None;
        }
        let home = source.home();
        let is_home = match &place.other_host {
            None => !source.is_foreign(),
            Some((host, is_tls)) => {
                host.eq_ignore_ascii_case(&home.request.host) && *is_tls == home.request.is_tls
            }
        };
        let from = if is_home { home } else { source };
        let headers = from.request.headers.iter();
        let mut request = ClientRequest {
            method: b"GET".to_vec(),
            target: place.target,
            headers: headers
                .filter(|(name, _)| {
                    let is_secret = !is_home && is_secret(name);
                    !name.eq_ignore_ascii_case(b"last-event-id") && !is_secret
                })
                .cloned()
                .collect(),
            body: Body::None,
            peer: from.request.peer,
            host: from.request.host.clone(),
            is_tls: from.request.is_tls,
        };
        let (mut table, mut rule) = (Rc::clone(&from.table), from.rule);
        if let Some((host, is_tls)) = place.other_host
            && !is_home
        {
            table = self.table_of_host(&host, is_tls, home)?;
            rule = 0;
            request.host = host;
            request.is_tls = is_tls;
        }
        Some(Source {
            request: Rc::new(request),
            table,
            rule,
            // `choose` selects the target.
            target: 0,
            is_trusted: is_home && home.is_trusted,
            is_sockjs: false,
            session_id: home.session_id.clone().filter(|_| is_home),
        })
    }

    /// Returns a table of routes for a link to another server. The target is marked as untrusted, so the edge refuses to connect to
    /// internal addresses. `None` if the host is invalid.
    fn table_of_host(&mut self, host: &[u8], is_tls: bool, home: &Source) -> Option<Rc<Table>> {
        let host = std::str::from_utf8(host).ok()?;
        // Accept no other bytes. A comma, for example, is legal in a host, but would begin an option of the route.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if !host.bytes().all(is_plain) {
            return None;
        }
        let has_port = host.rfind(':').is_some_and(|at| !host[at..].contains(']'));
        let port = match (has_port, is_tls) {
            (true, _) => "",
            (false, true) => ":443",
            (false, false) => ":80",
        };
        let ssl = if is_tls { ",ssl" } else { "" };
        let line = format!("* {host}{port}{ssl},untrusted");
        let (routes, problems) = Routes::read(&line, |_| Ok(()));
        if !problems.is_empty() || routes.rules().is_empty() {
            return None;
        }
        self.generation += 1;
        Some(Rc::new(Table {
            generation: self.generation,
            // One target, which only this stream uses.
            watched: Vec::new(),
            routes,
            home: Some(Box::new(home.clone())),
        }))
    }
}

/// Returns true for fields with credentials, which are not sent to other servers.
fn is_secret(name: &[u8]) -> bool {
    let name = Folded::new(name);
    ["cookie", "authorization", "proxy-authorization"]
        .iter()
        .any(|it| name.is(it))
}

#[cfg(test)]
mod tests {
    use fermata_grip::instruct::NextLink;

    use super::*;
    use crate::client::session::Session;
    use crate::ids::request;
    use crate::settings::Settings;

    const HANDLE: RequestId = request(7);

    fn clients(next: Option<NextLink>, prev_id: Option<&str>) -> Clients {
        let mut clients = Clients::new(&Settings::default());
        clients
            .sessions
            .insert(HANDLE, Session::of_stream(next, prev_id));
        clients
    }

    fn next() -> Option<NextLink> {
        Some(NextLink {
            uri: b"/next".to_vec(),
            timeout_s: 5,
        })
    }

    #[test]
    fn a_link_is_asked_once_at_a_time() {
        let mut clients = clients(next(), Some("1"));
        let link = clients.begin_link(HANDLE).expect("it has one");
        assert_eq!(link.uri, b"/next");
        assert_eq!(link.last_ids, [(b"a".to_vec(), b"1".to_vec())]);
        assert!(clients.begin_link(HANDLE).is_none());
        // After a failure, the link waits until its time.
        let again = clients.after_link_failure(HANDLE, 1_000, 0);
        assert!(matches!(again, AfterFailure::Again(due_ms) if due_ms > 1_000));
        assert!(clients.begin_link(HANDLE).is_some());
    }

    #[test]
    fn a_link_that_fails_is_given_up_and_cut_in_its_middle() {
        let mut streams = clients(next(), None);
        for _ in 0..LINK_RETRIES_MAX {
            let again = streams.after_link_failure(HANDLE, 0, 0);
            assert!(matches!(again, AfterFailure::Again(_)), "{again:?}");
        }
        assert_eq!(streams.after_link_failure(HANDLE, 0, 0), AfterFailure::End);
        let mut streams = clients(next(), None);
        streams.stream(HANDLE).expect("it is there").is_passing = true;
        assert_eq!(streams.after_link_failure(HANDLE, 0, 0), AfterFailure::Cut);
    }

    #[test]
    fn retries_failing_links_with_increasing_delay() {
        let mut clients = clients(next(), None);
        let mut due_after = |empty_links: u32| {
            clients.stream(HANDLE).expect("it is there").empty_links = empty_links;
            let due_ms = clients.after_empty_link(HANDLE, 1_000, 0);
            due_ms.map(|due_ms| due_ms - 1_000)
        };
        assert_eq!(due_after(0), None);
        assert_eq!(due_after(1), None);
        assert_eq!(due_after(2), Some(1_000));
        assert_eq!(due_after(3), Some(2_000));
        assert_eq!(due_after(u32::MAX), retry_delay_ms(LINK_RETRIES_MAX - 1, 0));
    }

    #[test]
    fn a_link_that_lags_is_asked_at_once_and_then_later() {
        let mut clients = clients(next(), None);
        assert_eq!(clients.after_lag(HANDLE, 1_000, 0), Some(1_000));
        assert!(clients.after_lag(HANDLE, 1_000, 0) > Some(1_000));
        clients.stream(HANDLE).expect("it is there").next = None;
        assert_eq!(clients.after_lag(HANDLE, 1_000, 0), None);
    }
}
