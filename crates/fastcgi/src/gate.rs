//! FastCGI in a worker: routes requests to connections of PHP-FPM, and responses to clients.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::rc::Rc;

use fermata_config::{LogLevel, Settings};
use fermata_engine::missed;
use fermata_engine::stats::Counter;
use fermata_engine::{
    ARRIVING, Event, Read, ReadError, RequestId, WireEvent, WireId, reserved_name, unread_bytes,
};
use fermata_io::Deadline;

use crate::HANDLERS;
use crate::answer::{Engine, Step, answer, give, refuse};
use crate::codec::{Event as ResponseEvent, Request};
use crate::fastcgi_request::{
    Answer, Body, Collected, FastCgiRequest, Link, PIECE_BYTES, begin, write_stored,
};
use crate::request;
use crate::site::{Place, Site};
use crate::spool::{Ledger, SILENT_MS, Spool, unstored};

/// Pause after a connection attempt to a Unix socket with a full queue.
const RETRY_MS: u64 = 10;

/// PHP-FPM behind routes of one worker.
pub struct FastCgi {
    pools: Vec<Pool>,
    /// By the handle of the request.
    requests: HashMap<RequestId, FastCgiRequest>,
    /// The request that uses a connection; `None` = the connection is idle.
    wires: HashMap<WireId, Option<RequestId>>,
    /// Earliest time at which a timer may be due.
    due: Deadline,
    buffer: Box<[u8]>,
    events: Vec<ResponseEvent>,
    /// Responses that clients have not read.
    ledger: Rc<Ledger>,
    /// Responses that are read further in the next turn, so that no response fills its spool in one turn while others wait.
    eager: Vec<RequestId>,
    /// Responses of addresses that hold too many connections, whose clients have read a moment ago.
    crowding: HashSet<RequestId>,
    /// Time of the next check of the responses in `crowding`.
    crowding_due: Deadline,
}

/// A site and its state in this worker.
struct Pool {
    site: Site,
    place: Option<Place>,
    /// Number of requests in any state.
    requests_len: usize,
    /// Number of requests with a connection.
    active: usize,
    /// Requests that wait for a connection.
    waiting: VecDeque<RequestId>,
    /// Idle connections, each with the time at which it is closed; the oldest is first.
    idle: VecDeque<(WireId, Deadline)>,
    /// Time of the next attempt after a refused connection.
    retry: Deadline,
}

impl FastCgi {
    /// Creates the state. Returns `None` if there are no sites.
    pub fn begin(sites: Vec<Site>, settings: &Settings) -> Option<Box<FastCgi>> {
        if sites.is_empty() {
            return None;
        }
        let pools = sites.into_iter().map(|site| Pool {
            // Resolve the host name in each worker: its address may have changed since the settings
            // were checked.
            place: site.place().ok(),
            site,
            requests_len: 0,
            active: 0,
            waiting: VecDeque::new(),
            idle: VecDeque::new(),
            retry: Deadline::NEVER,
        });
        Some(Box::new(FastCgi {
            pools: pools.collect(),
            requests: HashMap::new(),
            wires: HashMap::new(),
            due: Deadline::NEVER,
            buffer: vec![0; PIECE_BYTES].into_boxed_slice(),
            events: Vec::new(),
            ledger: Ledger::new(settings),
            eager: Vec::new(),
            crowding: HashSet::new(),
            crowding_due: Deadline::NEVER,
        }))
    }

    /// Returns the time of the next `Event::Wake`. The caller queries it before each event.
    pub fn due(&self) -> Deadline {
        if self.eager.is_empty() {
            self.due
        } else {
            Deadline::NOW
        }
    }

    /// Handles an event of the worker. Returns false if the event belongs to another component, or also concerns other components.
    pub fn handle(&mut self, worker: &mut Engine, event: Event) -> bool {
        let is_taken = self.take(worker, event);
        if is_taken || event == Event::Wake {
            let running = self.pools.iter().map(|pool| pool.active).sum();
            let queued = self.pools.iter().map(|pool| pool.waiting.len()).sum();
            worker.reporter.set_fastcgi_open(running, queued);
        }
        is_taken
    }

    fn take(&mut self, worker: &mut Engine, event: Event) -> bool {
        let handle = match event {
            Event::Request => {
                let site = worker.request().handler().wrapping_sub(HANDLERS) as usize;
                if site >= self.pools.len() {
                    return false;
                }
                self.on_request(worker, site);
                return true;
            }
            Event::Wire => {
                if let Some(event) = worker.waiting.wire() {
                    self.on_wire(worker, event);
                }
                // No other component opens connections.
                return true;
            }
            Event::Wake => {
                for handle in std::mem::take(&mut self.eager) {
                    self.go_on(worker, handle);
                }
                self.on_time(worker);
                return false;
            }
            Event::Gone(handle)
            | Event::HeldGone(handle)
            | Event::Body(handle)
            | Event::Stream(handle)
            | Event::StreamEnd(handle) => handle,
            _ => return false,
        };
        let Some(request) = self.requests.get_mut(&handle) else {
            // The request does not belong to these sites.
            return false;
        };
        match event {
            Event::Gone(_) | Event::HeldGone(_) => {
                worker.drop_request(handle);
                self.end(worker, handle);
            }
            Event::StreamEnd(_) => self.end(worker, handle),
            Event::Stream(_) => {
                request.answer = Answer::Asking;
                request.spool.release();
                self.touch(worker, handle);
                self.go_on(worker, handle);
            }
            _ => self.go_on(worker, handle),
        }
        true
    }

    fn on_request(&mut self, worker: &mut Engine, site: usize) {
        let pool = &self.pools[site];
        let view = worker.request();
        let handle = view.handle();
        let room = (pool.site.connections_max + pool.site.queue_max) as usize;
        if pool.requests_len >= room {
            let message = format!(
                "FastCGI: {}: {} requests wait already (queue); raise it, connections, or pm.max_children of PHP-FPM",
                pool.site.socket, pool.site.queue_max
            );
            worker.net.log_for_client(LogLevel::Warning, &message);
            worker.net.count(Counter::FastCgiQueueFull, 1);
            return answer(worker, handle, 503, "The application is busy; try again.\n");
        }
        let length = view.header(b"content-length", 0);
        let length = length.and_then(|it| std::str::from_utf8(it).ok()?.parse::<u64>().ok());
        let upload = view.upload();
        let known = match upload {
            0 if length.is_none() && view.body().is_empty() => None,
            0 => Some(view.body().len() as u64),
            ARRIVING => length.filter(|_| pool.site.streams_body),
            _ => worker
                .http
                .upload(upload)
                .and_then(|it| it.body.as_ref())
                .map(|(_, len)| *len),
        };
        let variables = match request::of_current(worker, &pool.site, known) {
            Ok(variables) => variables,
            Err(error) => return refuse(worker, handle, error),
        };
        let keeps = pool.site.keep_ms > 0;
        let mut out = Vec::new();
        let body = match upload {
            ARRIVING if known.is_none() => Body::Collecting(Box::new(Collected::new(variables))),
            ARRIVING => {
                begin(&mut out, &variables, keeps);
                Body::Arriving
            }
            0 => {
                begin(&mut out, &variables, keeps);
                Request::body(&mut out, worker.request().body());
                Request::body_end(&mut out);
                Body::Done
            }
            _ => {
                begin(&mut out, &variables, keeps);
                let file = worker
                    .http
                    .upload(upload)
                    .and_then(|it| File::open(it.body.as_ref()?.0.path()).ok());
                worker.http.release_upload(upload);
                match file {
                    Some(file) => Body::Stored(file, known.unwrap_or_default()),
                    None => return answer(worker, handle, 400, "This request can have no form.\n"),
                }
            }
        };
        let client = worker.client_network(handle);
        if worker.defer(handle).is_err() {
            return;
        }
        self.pools[site].requests_len += 1;
        let is_collected = !matches!(body, Body::Collecting(_));
        let spool = Spool::new(&self.ledger, client);
        let request = FastCgiRequest::new(handle, site, (body, out), spool);
        self.requests.insert(handle, request);
        self.touch(worker, handle);
        if is_collected {
            self.queue(worker, handle);
        } else {
            self.go_on(worker, handle);
        }
    }

    /// Queues a request that is complete enough to be sent.
    fn queue(&mut self, worker: &mut Engine, handle: RequestId) {
        let Some(request) = self.requests.get_mut(&handle) else {
            return missed(());
        };
        request.since_ms = worker.net.now_ms();
        let site = request.site;
        self.pools[site].waiting.push_back(handle);
        self.open_next(worker, site);
    }

    /// Assigns connections to waiting requests, within the limit.
    fn open_next(&mut self, worker: &mut Engine, site: usize) {
        loop {
            let pool = &mut self.pools[site];
            if pool.active >= pool.site.connections_max as usize || !pool.retry.is_never() {
                return;
            }
            let Some(handle) = pool.waiting.pop_front() else {
                return;
            };
            let Some(request) = self.requests.get_mut(&handle) else {
                missed(());
                continue;
            };
            let (wire, is_reused) = match (pool.idle.pop_back(), &pool.place) {
                (Some((wire, _)), _) => (Ok(wire), true),
                (None, Some(Place::Unix(path))) => (worker.net.connect_unix(path), false),
                (None, Some(Place::Tcp(address))) => (worker.net.connect(*address), false),
                (None, None) => (Err(io::ErrorKind::HostUnreachable.into()), false),
            };
            match wire {
                Ok(wire) => {
                    pool.active += 1;
                    account(worker, request, Counter::FastCgiQueuedMs);
                    request.is_reused = is_reused;
                    // A connection over a Unix socket succeeds or fails immediately.
                    request.link = if is_reused || matches!(pool.place, Some(Place::Unix(_))) {
                        Link::Open(wire)
                    } else {
                        Link::Opening(wire)
                    };
                    self.wires.insert(wire, Some(handle));
                    self.touch(worker, handle);
                    self.go_on(worker, handle);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    pool.waiting.push_front(handle);
                    pool.retry = Deadline::after(worker.net.now_ms(), RETRY_MS);
                    self.due = self.due.min(pool.retry);
                    return;
                }
                Err(error) => self.fail(worker, handle, 502, &unreachable(&error)),
            }
        }
    }

    /// Restarts the timeout after progress.
    fn touch(&mut self, worker: &mut Engine, handle: RequestId) {
        let Some(request) = self.requests.get_mut(&handle) else {
            return missed(());
        };
        let timeout_ms = self.pools[request.site].site.timeout_ms;
        request.deadline = Deadline::after(worker.net.now_ms(), timeout_ms);
        self.due = self.due.min(request.deadline);
    }

    fn on_wire(&mut self, worker: &mut Engine, event: WireEvent) {
        match self.wires.get(&event.wire).copied() {
            None => {}
            // PHP-FPM sends nothing on an idle connection, so the event means that it has closed the connection.
            Some(None) if event.readable || event.hangup => {
                for pool in &mut self.pools {
                    pool.idle.retain(|(wire, _)| *wire != event.wire);
                }
                self.wires.remove(&event.wire);
                worker.net.close_wire(event.wire);
            }
            Some(None) => {}
            Some(Some(handle)) => {
                let Some(request) = self.requests.get_mut(&handle) else {
                    return missed(());
                };
                request.link = Link::Open(event.wire);
                self.go_on(worker, handle);
            }
        }
    }

    /// Fails requests that took too long, and retries postponed connections.
    fn on_time(&mut self, worker: &mut Engine) {
        let now_ms = worker.net.now_ms();
        if !self.due.is_due(now_ms) {
            return;
        }
        let late = self
            .requests
            .values()
            .filter(|request| request.deadline.is_due(now_ms));
        for handle in late.map(|request| request.handle).collect::<Vec<_>>() {
            let Some(request) = self.requests.get(&handle) else {
                // The request ended when an earlier one made room.
                continue;
            };
            let seconds = self.pools[request.site].site.timeout_ms as f64 / 1000.0;
            let cause = match request.link {
                // The engine's own timeouts apply while PHP-FPM waits for the client.
                _ if request.waits_for_client() => {
                    self.touch(worker, handle);
                    continue;
                }
                Link::None => format!(
                    "no connection was free for {seconds} seconds (timeout); raise connections, or pm.max_children of PHP-FPM"
                ),
                Link::Opening(_) => {
                    format!("it has not accepted a connection for {seconds} seconds (timeout)")
                }
                Link::Open(_) => format!("silent for {seconds} seconds (timeout)"),
            };
            self.fail(worker, handle, 504, &cause);
        }
        self.bound_crowding(worker, now_ms);
        for site in 0..self.pools.len() {
            let pool = &mut self.pools[site];
            while let Some(&(wire, until)) = pool.idle.front()
                && until.is_due(now_ms)
            {
                pool.idle.pop_front();
                self.wires.remove(&wire);
                worker.net.close_wire(wire);
            }
            if pool.retry.is_never() || pool.retry.is_due(now_ms) {
                pool.retry = Deadline::NEVER;
                self.open_next(worker, site);
            }
        }
        let requests = self.requests.values().map(|request| request.deadline);
        let retries = self.pools.iter().map(|pool| pool.retry);
        let idle = self
            .pools
            .iter()
            .filter_map(|pool| Some(pool.idle.front()?.1));
        let all = requests
            .chain(retries)
            .chain(idle)
            .chain([self.crowding_due]);
        self.due = all.min().unwrap_or(Deadline::NEVER);
    }

    /// Advances a request as far as possible.
    fn go_on(&mut self, worker: &mut Engine, handle: RequestId) {
        let Some(mut request) = self.requests.remove(&handle) else {
            // The request has ended.
            return;
        };
        let site = request.site;
        let was_collecting = matches!(request.body, Body::Collecting(_));
        let step = self.step(worker, &mut request);
        let is_collected = was_collecting && !matches!(request.body, Body::Collecting(_));
        self.requests.insert(handle, request);
        match step {
            Step::Waits if is_collected => {
                self.touch(worker, handle);
                self.queue(worker, handle);
            }
            Step::Waits => self.bound_holding(worker, handle),
            Step::Over => self.end(worker, handle),
            Step::Failed(status, cause) => self.fail(worker, handle, status, &cause),
            Step::Again => {
                let Some(request) = self.requests.get_mut(&handle) else {
                    return missed(());
                };
                let (pool, wires) = (&mut self.pools[site], &mut self.wires);
                let_go(worker, request, pool, wires, &mut self.due);
                request.sent = 0;
                request.is_refused = false;
                self.pools[site].waiting.push_front(handle);
                self.open_next(worker, site);
            }
        }
    }

    /// Disconnects clients whose responses occupy connections, if the responses of one address occupy too many. Only clients that
    /// have read nothing for [`SILENT_MS`] are disconnected, the longest silent one first.
    fn bound_holding(&mut self, worker: &mut Engine, handle: RequestId) {
        while let Some(request) = self.requests.get(&handle)
            && request.spool.holds_too_many()
        {
            let now_ms = worker.net.now_ms();
            let (address, site) = (request.spool.address(), request.site);
            let beside = self
                .requests
                .values_mut()
                .filter(|it| it.spool.address() == address);
            let longest = beside
                .filter_map(|it| {
                    it.spool.holding_since_ms()?;
                    let unread_bytes = unread_bytes(&worker.net, it.handle);
                    it.spool.note_unread(now_ms, unread_bytes);
                    Some((it.spool.holding_since_ms()?, it.handle))
                })
                .min_by_key(|&(since_ms, _)| since_ms);
            let Some((since_ms, longest)) = longest else {
                return missed(());
            };
            let due = Deadline::after(since_ms, SILENT_MS);
            if !due.is_due(now_ms) {
                self.crowding.insert(handle);
                self.crowding_due = self.crowding_due.min(due);
                self.due = self.due.min(due);
                return;
            }
            let message = format!(
                "FastCGI: {}: client cut off: {} reads more than {} responses too slowly (response_waits_per_address_max), \
                and response_spool_bytes_max or response_spool_address_bytes_max has no room for them",
                self.pools[site].site.socket,
                address.map_or_else(String::new, |it| it.to_string()),
                worker.settings().response_waits_per_address_max,
            );
            worker.net.log_for_client(LogLevel::Warning, &message);
            worker.drop_stream(longest);
            self.end(worker, longest);
        }
    }

    /// Looks again at responses that hold connections.
    fn bound_crowding(&mut self, worker: &mut Engine, now_ms: u64) {
        if !self.crowding_due.is_due(now_ms) {
            return;
        }
        self.crowding_due = Deadline::NEVER;
        for handle in std::mem::take(&mut self.crowding) {
            self.bound_holding(worker, handle);
        }
    }

    fn step(&mut self, worker: &mut Engine, request: &mut FastCgiRequest) -> Step {
        if request.is_detached {
            let socket = &self.pools[request.site].site.socket;
            return give(worker, request, socket).unwrap_or(Step::Waits);
        }
        if let Body::Collecting(_) = request.body {
            return self.collect(worker, request);
        }
        let Link::Open(wire) = request.link else {
            return Step::Waits;
        };
        match self.send(worker, request, wire) {
            Step::Waits => self.receive(worker, request, wire),
            step => step,
        }
    }

    /// Reads more of a body that is collected before the request is sent.
    fn collect(&mut self, worker: &mut Engine, request: &mut FastCgiRequest) -> Step {
        loop {
            let read = match worker.read_body(request.handle, PIECE_BYTES) {
                Ok(read) => read,
                Err(error) => return unread(worker, request, error),
            };
            let Body::Collecting(collected) = &mut request.body else {
                return Step::Waits;
            };
            let taken = match read {
                Read::Pending => return Step::Waits,
                Read::Piece | Read::Last => {
                    let open = || worker.http.new_temporary();
                    collected.take(worker.http.body_piece(), open)
                }
                Read::End => Ok(()),
            };
            let stored = taken.and_then(|()| match read {
                Read::Last | Read::End => {
                    let body = std::mem::replace(&mut request.body, Body::Done);
                    let Body::Collecting(collected) = body else {
                        return Ok(());
                    };
                    let keeps = self.pools[request.site].site.keep_ms > 0;
                    request.body = collected.finish(&mut request.out, keeps)?;
                    request.is_repeatable = matches!(request.body, Body::Done);
                    Ok(())
                }
                Read::Piece | Read::Pending => Ok(()),
            });
            if let Err(error) = stored {
                let cause = format!(
                    "a body cannot be stored: {error}; free space, or set upload_directory"
                );
                let status = match error.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => 507,
                    _ => 500,
                };
                return Step::Failed(status, cause);
            }
            if !matches!(request.body, Body::Collecting(_)) {
                return Step::Waits;
            }
        }
    }

    /// Sends as much of the request as PHP-FPM accepts.
    fn send(&mut self, worker: &mut Engine, request: &mut FastCgiRequest, wire: WireId) -> Step {
        loop {
            if request.out.len() - request.sent < PIECE_BYTES
                && !request.is_refused
                && let Some(step) = fill(worker, request)
            {
                return step;
            }
            if request.sent == request.out.len() {
                if !request.is_repeatable {
                    request.out.clear();
                    request.sent = 0;
                }
                return Step::Waits;
            }
            match worker.net.send_wire(wire, &request.out[request.sent..]) {
                Ok(Some(sent)) => {
                    request.sent += sent;
                    self.touch_request(worker, request);
                }
                Ok(None) => return Step::Waits,
                Err(error) if request.sent == 0 && !request.is_reused => {
                    return Step::Failed(502, unreachable(&error));
                }
                // PHP-FPM may have responded before it has read the complete request.
                Err(_) => {
                    request.is_refused = true;
                    request.body = Body::Done;
                    request.sent = request.out.len();
                    return Step::Waits;
                }
            }
        }
    }

    /// Like `touch`, for a request that is not in the map.
    fn touch_request(&mut self, worker: &mut Engine, request: &mut FastCgiRequest) {
        let timeout_ms = self.pools[request.site].site.timeout_ms;
        request.deadline = Deadline::after(worker.net.now_ms(), timeout_ms);
        self.due = self.due.min(request.deadline);
    }

    /// Reads the response, also ahead of its client if the spool has room.
    fn receive(&mut self, worker: &mut Engine, request: &mut FastCgiRequest, wire: WireId) -> Step {
        loop {
            let step = give(worker, request, &self.pools[request.site].site.socket);
            let is_ahead = matches!(step, Some(Step::Waits));
            match step {
                Some(Step::Waits) if request.exchange.is_complete() => {
                    self.detach(worker, request);
                    return Step::Waits;
                }
                Some(Step::Waits) if !request.spool.has_room(PIECE_BYTES) => {
                    let unread_bytes = unread_bytes(&worker.net, request.handle);
                    request.spool.hold(worker.net.now_ms(), unread_bytes);
                    return Step::Waits;
                }
                Some(Step::Waits) | None => {}
                Some(step) => return step,
            }
            let read = worker.net.recv_wire(wire, &mut self.buffer);
            let read = match read {
                Ok(None) => {
                    if request.answer == Answer::Asking
                        && worker.defer_stream(request.handle).is_err()
                    {
                        return Step::Over;
                    }
                    return Step::Waits;
                }
                Ok(Some(read)) => read,
                Err(error) if !request.has_received && !request.is_reused => {
                    return Step::Failed(502, format!("the connection has failed: {error}"));
                }
                Err(_) => 0,
            };
            if read == 0 {
                if request.is_reused && !request.has_received && request.is_repeatable {
                    return Step::Again;
                }
                let cause = match request.head {
                    None => "the connection has ended before the response",
                    Some(_) => "the connection has ended within the response",
                };
                return Step::Failed(502, cause.to_owned());
            }
            request.has_received = true;
            self.touch_request(worker, request);
            if let Some(step) = self.on_received(worker, request, read) {
                return step;
            }
            if is_ahead && !request.exchange.is_complete() {
                self.eager.push(request.handle);
                return Step::Waits;
            }
        }
    }

    /// Handles bytes of PHP-FPM in the buffer.
    fn on_received(
        &mut self,
        worker: &mut Engine,
        request: &mut FastCgiRequest,
        read: usize,
    ) -> Option<Step> {
        let outcome = request
            .exchange
            .handle(&self.buffer[..read], &mut self.events);
        let mut stored = Ok(());
        for event in self.events.drain(..) {
            match event {
                ResponseEvent::Head(head) => request.head = Some(head),
                ResponseEvent::Interim(head) => {
                    let headers = head.headers.iter();
                    let headers = headers.map(|(name, value)| (&name[..], &value[..]));
                    let headers = headers.filter(|(name, _)| !reserved_name(name));
                    // Ignore an error: a client that has left is detected elsewhere.
                    let _ = worker.send_interim(request.handle, head.status, headers);
                }
                ResponseEvent::Body(piece) if request.answer == Answer::Busy => {
                    let open = || worker.http.new_unnamed();
                    stored = stored.and(request.spool.write(&piece, open));
                }
                ResponseEvent::Body(piece) => request.pending.extend_from_slice(&piece),
                ResponseEvent::Stderr(text) => {
                    let text = String::from_utf8_lossy(&text);
                    let line = format!("FastCGI: {}", text.trim_end().escape_debug());
                    worker.net.log_for_client(LogLevel::Warning, &line);
                }
                ResponseEvent::End { .. } => {}
            }
        }
        if let Err(error) = stored {
            worker
                .net
                .log_for_client(LogLevel::Error, &unstored(&error));
        }
        let error = outcome.err()?;
        Some(Step::Failed(502, error.to_string()))
    }

    /// Releases the connection after PHP-FPM has sent the complete response or failed, so that other requests are served while the
    /// client reads.
    fn detach(&mut self, worker: &mut Engine, request: &mut FastCgiRequest) {
        let site = request.site;
        let (pool, wires) = (&mut self.pools[site], &mut self.wires);
        let_go(worker, request, pool, wires, &mut self.due);
        pool.requests_len -= 1;
        request.is_detached = true;
        request.body = Body::Done;
        request.out = Vec::new();
        request.sent = 0;
        self.open_next(worker, site);
    }

    /// Fails a request for which PHP-FPM has no valid response.
    fn fail(&mut self, worker: &mut Engine, handle: RequestId, status: u16, cause: &str) {
        let Some(request) = self.requests.get_mut(&handle) else {
            // The request has ended.
            return;
        };
        let message = format!("FastCGI: {}: {cause}", self.pools[request.site].site.socket);
        worker.net.log_for_client(LogLevel::Error, &message);
        request.failure = Some(match status {
            504 => Counter::FastCgiTimedOut,
            _ => Counter::FastCgiFailed,
        });
        match request.answer {
            Answer::None => answer(worker, handle, status, "The application does not answer.\n"),
            // The client still receives the bytes that PHP-FPM has sent. Then the response is cut.
            Answer::Busy if !request.is_detached => {
                self.detach_failed(worker, handle);
                return;
            }
            Answer::Asking if !request.is_detached && !request.pending.is_empty() => {
                self.detach_failed(worker, handle);
                self.go_on(worker, handle);
                return;
            }
            // Cut the stream, so that the client detects that the rest is missing.
            Answer::Busy | Answer::Asking => worker.drop_stream(handle),
            Answer::Whole => {}
        }
        self.end(worker, handle);
    }

    fn detach_failed(&mut self, worker: &mut Engine, handle: RequestId) {
        let Some(mut request) = self.requests.remove(&handle) else {
            return missed(());
        };
        if !request.is_detached {
            self.detach(worker, &mut request);
        }
        self.requests.insert(handle, request);
    }

    /// Ends a request. If its client has left, the closed connection notifies PHP-FPM.
    fn end(&mut self, worker: &mut Engine, handle: RequestId) {
        let Some(mut request) = self.requests.remove(&handle) else {
            // The request has ended.
            return;
        };
        let site = request.site;
        let (pool, wires) = (&mut self.pools[site], &mut self.wires);
        let_go(worker, &mut request, pool, wires, &mut self.due);
        worker.http.settle_request(handle);
        if !request.is_detached {
            pool.requests_len -= 1;
        }
        if pool.waiting.contains(&handle) {
            account(worker, &mut request, Counter::FastCgiQueuedMs);
            pool.waiting.retain(|waiting| *waiting != handle);
        }
        worker.net.count(request.outcome(), 1);
        self.open_next(worker, site);
    }
}

/// Releases the connection of a request.
fn let_go(
    worker: &mut Engine,
    request: &mut FastCgiRequest,
    pool: &mut Pool,
    wires: &mut HashMap<WireId, Option<RequestId>>,
    due: &mut Deadline,
) {
    request.spool.release();
    let link = std::mem::replace(&mut request.link, Link::None);
    let (Link::Opening(wire) | Link::Open(wire)) = link else {
        return;
    };
    account(worker, request, Counter::FastCgiRunningMs);
    pool.active -= 1;
    if request.is_clean() && pool.site.keep_ms > 0 {
        let until = Deadline::after(worker.net.now_ms(), pool.site.keep_ms);
        pool.idle.push_back((wire, until));
        wires.insert(wire, None);
        *due = (*due).min(until);
    } else {
        wires.remove(&wire);
        worker.net.close_wire(wire);
    }
}

/// Writes more of the body. Returns a step if no more was written, with the reason.
fn fill(worker: &mut Engine, request: &mut FastCgiRequest) -> Option<Step> {
    if request.sent > 0 && !request.is_repeatable {
        request.out.drain(..request.sent);
        request.sent = 0;
    }
    while request.out.len() - request.sent < PIECE_BYTES {
        match &mut request.body {
            Body::Done | Body::Collecting(_) => break,
            Body::Stored(file, left) => {
                if let Err(error) = write_stored(&mut request.out, file, left) {
                    return Some(Step::Failed(
                        500,
                        format!("a stored body cannot be read: {error}"),
                    ));
                }
                if *left == 0 {
                    request.body = Body::Done;
                }
            }
            Body::Arriving => match worker.read_body(request.handle, PIECE_BYTES) {
                Ok(Read::Pending) => break,
                Ok(read) => {
                    if read != Read::End {
                        Request::body(&mut request.out, worker.http.body_piece());
                    }
                    if read != Read::Piece {
                        Request::body_end(&mut request.out);
                        request.body = Body::Done;
                    }
                }
                Err(error) => return Some(unread(worker, request, error)),
            },
        }
    }
    None
}

/// Handles a body whose rest cannot be read.
fn unread(worker: &mut Engine, request: &mut FastCgiRequest, error: ReadError) -> Step {
    match error {
        ReadError::Refused(status, message) if request.answer == Answer::None => {
            answer(worker, request.handle, status, &format!("{message}.\n"));
        }
        _ => worker.drop_request(request.handle),
    }
    Step::Over
}

/// Adds the time since the previous call for this request, or since it was queued, to `phase`.
fn account(worker: &mut Engine, request: &mut FastCgiRequest, phase: Counter) {
    let now_ms = worker.net.now_ms();
    worker
        .net
        .count(phase, now_ms.saturating_sub(request.since_ms));
    request.since_ms = now_ms;
}

fn unreachable(error: &io::Error) -> String {
    format!(
        "no connection: {error}; check that PHP-FPM runs, listens there and permits connections"
    )
}
