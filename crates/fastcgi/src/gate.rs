//! The part beside a worker: requests in, connections to PHP-FPM, answers out.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;

use fermata_config::LogLevel;
use fermata_engine::missed;
use fermata_engine::stats::Counter;
use fermata_engine::{ARRIVING, Event, Read, ReadError, RequestId, WireEvent, WireId};
use fermata_io::Deadline;

use crate::HANDLERS;
use crate::answer::{Engine, Step, answer, give, refuse};
use crate::codec::{Event as ResponseEvent, Request};
use crate::request;
use crate::site::{Place, Site};
use crate::talk::{Answer, Body, Collected, Link, PIECE_BYTES, Talk, begin, write_stored};

/// How long a full queue of a Unix socket is left alone.
const RETRY_MS: u64 = 10;

/// PHP-FPM behind routes of one worker.
pub struct FastCgi {
    pools: Vec<Pool>,
    /// By the handle of the request.
    talks: HashMap<RequestId, Talk>,
    /// The owner of a connection, by the handle of its request; 0 = it is idle and kept.
    wires: HashMap<WireId, Option<RequestId>>,
    /// When something may be due; not later than that.
    due: Deadline,
    buffer: Box<[u8]>,
    events: Vec<ResponseEvent>,
}

/// A site and what this worker has of it.
struct Pool {
    site: Site,
    place: Option<Place>,
    /// Requests, whatever they wait for.
    talks_len: usize,
    /// Those that have a connection.
    active: usize,
    /// Those that wait for one.
    waiting: VecDeque<RequestId>,
    /// Connections that are kept, and until when; the oldest first.
    idle: VecDeque<(WireId, Deadline)>,
    /// When to try again to connect, after it was refused.
    retry: Deadline,
}

impl FastCgi {
    /// `None`: there are no sites.
    pub fn begin(sites: Vec<Site>) -> Option<Box<FastCgi>> {
        if sites.is_empty() {
            return None;
        }
        let pools = sites.into_iter().map(|site| Pool {
            // The name was looked up before; it may be another now, and is looked up once per worker.
            place: site.place().ok(),
            site,
            talks_len: 0,
            active: 0,
            waiting: VecDeque::new(),
            idle: VecDeque::new(),
            retry: Deadline::NEVER,
        });
        Some(Box::new(FastCgi {
            pools: pools.collect(),
            talks: HashMap::new(),
            wires: HashMap::new(),
            due: Deadline::NEVER,
            buffer: vec![0; PIECE_BYTES].into_boxed_slice(),
            events: Vec::new(),
        }))
    }

    /// When it wants to have an `Event::Wake`. To be asked before each event.
    pub fn due(&self) -> Deadline {
        self.due
    }

    /// Takes an event that the worker has handed out. False: it is somebody else's, or not this part's alone.
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
                // No other part opens connections.
                return true;
            }
            Event::Wake => {
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
        let Some(talk) = self.talks.get_mut(&handle) else {
            // It is about no request of these.
            return false;
        };
        match event {
            Event::Gone(_) | Event::HeldGone(_) => {
                worker.drop_request(handle);
                self.end(worker, handle);
            }
            Event::StreamEnd(_) => self.end(worker, handle),
            Event::Stream(_) => {
                talk.answer = Answer::Asking;
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
        if pool.talks_len >= room {
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
        if worker.defer(handle).is_err() {
            return;
        }
        self.pools[site].talks_len += 1;
        let is_collected = !matches!(body, Body::Collecting(_));
        self.talks
            .insert(handle, Talk::new(handle, site, body, out));
        self.touch(worker, handle);
        if is_collected {
            self.queue(worker, handle);
        } else {
            self.go_on(worker, handle);
        }
    }

    /// A request is complete as far as it has to be, and waits for a connection.
    fn queue(&mut self, worker: &mut Engine, handle: RequestId) {
        let Some(talk) = self.talks.get_mut(&handle) else {
            return missed(());
        };
        talk.since_ms = worker.net.now_ms();
        let site = talk.site;
        self.pools[site].waiting.push_back(handle);
        self.open_next(worker, site);
    }

    /// Gives connections to those that wait, as far as there may be more.
    fn open_next(&mut self, worker: &mut Engine, site: usize) {
        loop {
            let pool = &mut self.pools[site];
            if pool.active >= pool.site.connections_max as usize || !pool.retry.is_never() {
                return;
            }
            let Some(handle) = pool.waiting.pop_front() else {
                return;
            };
            let Some(talk) = self.talks.get_mut(&handle) else {
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
                    account(worker, talk, Counter::FastCgiQueuedMs);
                    talk.is_reused = is_reused;
                    // A connection over a Unix socket stands at once or not at all.
                    talk.link = match is_reused || matches!(pool.place, Some(Place::Unix(_))) {
                        true => Link::Open(wire),
                        false => Link::Opening(wire),
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

    /// Something has moved: the time-out begins anew.
    fn touch(&mut self, worker: &mut Engine, handle: RequestId) {
        let Some(talk) = self.talks.get_mut(&handle) else {
            return missed(());
        };
        let timeout_ms = self.pools[talk.site].site.timeout_ms;
        talk.deadline = Deadline::after(worker.net.now_ms(), timeout_ms);
        self.due = self.due.min(talk.deadline);
    }

    fn on_wire(&mut self, worker: &mut Engine, event: WireEvent) {
        match self.wires.get(&event.wire).copied() {
            None => {}
            // PHP-FPM has nothing to say on a connection without a request: it has ended it.
            Some(None) if event.readable || event.hangup => {
                for pool in &mut self.pools {
                    pool.idle.retain(|(wire, _)| *wire != event.wire);
                }
                self.wires.remove(&event.wire);
                worker.net.close_wire(event.wire);
            }
            Some(None) => {}
            Some(Some(handle)) => {
                let Some(talk) = self.talks.get_mut(&handle) else {
                    return missed(());
                };
                talk.link = Link::Open(event.wire);
                self.go_on(worker, handle);
            }
        }
    }

    /// Ends what has taken too long, and tries what was put off.
    fn on_time(&mut self, worker: &mut Engine) {
        let now_ms = worker.net.now_ms();
        if !self.due.is_due(now_ms) {
            return;
        }
        let late = self
            .talks
            .values()
            .filter(|talk| talk.deadline.is_due(now_ms));
        for handle in late.map(|talk| talk.handle).collect::<Vec<_>>() {
            let Some(talk) = self.talks.get(&handle) else {
                // It has ended when one before it made room.
                continue;
            };
            let seconds = self.pools[talk.site].site.timeout_ms as f64 / 1000.0;
            let cause = match talk.link {
                // The engine has its own time-outs for clients.
                _ if talk.waits_for_client() => {
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
        let talks = self.talks.values().map(|talk| talk.deadline);
        let retries = self.pools.iter().map(|pool| pool.retry);
        let idle = self
            .pools
            .iter()
            .filter_map(|pool| Some(pool.idle.front()?.1));
        let all = talks.chain(retries).chain(idle);
        self.due = all.min().unwrap_or(Deadline::NEVER);
    }

    /// Moves a request on as far as it goes.
    fn go_on(&mut self, worker: &mut Engine, handle: RequestId) {
        let Some(mut talk) = self.talks.remove(&handle) else {
            // It has ended.
            return;
        };
        let site = talk.site;
        let was_collecting = matches!(talk.body, Body::Collecting(_));
        let step = self.step(worker, &mut talk);
        let is_collected = was_collecting && !matches!(talk.body, Body::Collecting(_));
        self.talks.insert(handle, talk);
        match step {
            Step::Waits if is_collected => {
                self.touch(worker, handle);
                self.queue(worker, handle);
            }
            Step::Waits => {}
            Step::Over => self.end(worker, handle),
            Step::Failed(status, cause) => self.fail(worker, handle, status, &cause),
            Step::Again => {
                self.let_go(worker, handle);
                let Some(talk) = self.talks.get_mut(&handle) else {
                    return missed(());
                };
                talk.sent = 0;
                talk.is_refused = false;
                self.pools[site].waiting.push_front(handle);
                self.open_next(worker, site);
            }
        }
    }

    fn step(&mut self, worker: &mut Engine, talk: &mut Talk) -> Step {
        if let Body::Collecting(_) = talk.body {
            return self.collect(worker, talk);
        }
        let Link::Open(wire) = talk.link else {
            return Step::Waits;
        };
        match self.send(worker, talk, wire) {
            Step::Waits => self.receive(worker, talk, wire),
            step => step,
        }
    }

    /// Reads on in a body that is needed whole.
    fn collect(&mut self, worker: &mut Engine, talk: &mut Talk) -> Step {
        loop {
            let read = match worker.read_body(talk.handle, PIECE_BYTES) {
                Ok(read) => read,
                Err(error) => return unread(worker, talk, error),
            };
            let Body::Collecting(collected) = &mut talk.body else {
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
                    let body = std::mem::replace(&mut talk.body, Body::Done);
                    let Body::Collecting(collected) = body else {
                        return Ok(());
                    };
                    let keeps = self.pools[talk.site].site.keep_ms > 0;
                    talk.body = collected.finish(&mut talk.out, keeps)?;
                    talk.is_repeatable = matches!(talk.body, Body::Done);
                    Ok(())
                }
                Read::Piece | Read::Pending => Ok(()),
            });
            if let Err(error) = stored {
                let cause = format!(
                    "a body cannot be stored: {error}; free space, or set upload_directory"
                );
                return Step::Failed(500, cause);
            }
            if !matches!(talk.body, Body::Collecting(_)) {
                return Step::Waits;
            }
        }
    }

    /// Sends what PHP-FPM takes of the request.
    fn send(&mut self, worker: &mut Engine, talk: &mut Talk, wire: WireId) -> Step {
        loop {
            if talk.out.len() - talk.sent < PIECE_BYTES
                && !talk.is_refused
                && let Some(step) = fill(worker, talk)
            {
                return step;
            }
            if talk.sent == talk.out.len() {
                if !talk.is_repeatable {
                    talk.out.clear();
                    talk.sent = 0;
                }
                return Step::Waits;
            }
            match worker.net.send_wire(wire, &talk.out[talk.sent..]) {
                Ok(Some(sent)) => {
                    talk.sent += sent;
                    self.touch_talk(worker, talk);
                }
                Ok(None) => return Step::Waits,
                Err(error) if talk.sent == 0 && !talk.is_reused => {
                    return Step::Failed(502, unreachable(&error));
                }
                // It may have answered before it has read everything.
                Err(_) => {
                    talk.is_refused = true;
                    talk.body = Body::Done;
                    talk.sent = talk.out.len();
                    return Step::Waits;
                }
            }
        }
    }

    /// The same as `touch`, of a talk at hand.
    fn touch_talk(&mut self, worker: &mut Engine, talk: &mut Talk) {
        let timeout_ms = self.pools[talk.site].site.timeout_ms;
        talk.deadline = Deadline::after(worker.net.now_ms(), timeout_ms);
        self.due = self.due.min(talk.deadline);
    }

    /// Reads the answer as fast as its client takes it.
    fn receive(&mut self, worker: &mut Engine, talk: &mut Talk, wire: WireId) -> Step {
        loop {
            if let Some(step) = give(worker, talk, &self.pools[talk.site].site.socket) {
                return step;
            }
            let read = worker.net.recv_wire(wire, &mut self.buffer);
            let read = match read {
                Ok(None) => {
                    if talk.answer == Answer::Asking && worker.defer_stream(talk.handle).is_err() {
                        return Step::Over;
                    }
                    return Step::Waits;
                }
                Ok(Some(read)) => read,
                Err(error) if !talk.has_received && !talk.is_reused => {
                    return Step::Failed(502, format!("the connection has failed: {error}"));
                }
                Err(_) => 0,
            };
            if read == 0 {
                if talk.is_reused && !talk.has_received && talk.is_repeatable {
                    return Step::Again;
                }
                let cause = match talk.head {
                    None => "the connection has ended before the response",
                    Some(_) => "the connection has ended within the response",
                };
                return Step::Failed(502, cause.to_owned());
            }
            talk.has_received = true;
            self.touch_talk(worker, talk);
            let outcome = talk.exchange.handle(&self.buffer[..read], &mut self.events);
            for event in self.events.drain(..) {
                match event {
                    ResponseEvent::Head(head) => talk.head = Some(head),
                    ResponseEvent::Body(piece) => talk.pending.extend_from_slice(&piece),
                    ResponseEvent::Stderr(text) => {
                        let text = String::from_utf8_lossy(&text);
                        let line = format!("FastCGI: {}", text.trim_end().escape_debug());
                        worker.net.log_for_client(LogLevel::Warning, &line);
                    }
                    ResponseEvent::End { .. } => {}
                }
            }
            if let Err(error) = outcome {
                return Step::Failed(502, error.to_string());
            }
        }
    }

    /// A request gets no good answer from PHP-FPM.
    fn fail(&mut self, worker: &mut Engine, handle: RequestId, status: u16, cause: &str) {
        let Some(talk) = self.talks.get_mut(&handle) else {
            // It has ended.
            return;
        };
        let message = format!("FastCGI: {}: {cause}", self.pools[talk.site].site.socket);
        worker.net.log_for_client(LogLevel::Error, &message);
        talk.failure = Some(match status {
            504 => Counter::FastCgiTimedOut,
            _ => Counter::FastCgiFailed,
        });
        match talk.answer {
            Answer::None => answer(worker, handle, status, "The application does not answer.\n"),
            // The client has to see that the rest is missing.
            Answer::Busy | Answer::Asking => worker.drop_stream(handle),
            Answer::Whole => {}
        }
        self.end(worker, handle);
    }

    /// A request is over, or its client has left: PHP-FPM learns of that by the end of the connection.
    fn end(&mut self, worker: &mut Engine, handle: RequestId) {
        let Some(site) = self.let_go(worker, handle) else {
            return;
        };
        let talk = self.talks.remove(&handle);
        worker.http.settle_request(handle);
        let pool = &mut self.pools[site];
        pool.talks_len -= 1;
        if let Some(mut talk) = talk {
            if pool.waiting.contains(&handle) {
                account(worker, &mut talk, Counter::FastCgiQueuedMs);
            }
            worker.net.count(talk.outcome(), 1);
        }
        pool.waiting.retain(|waiting| *waiting != handle);
        self.open_next(worker, site);
    }

    /// A request needs its connection no more.
    fn let_go(&mut self, worker: &mut Engine, handle: RequestId) -> Option<usize> {
        let talk = self.talks.get_mut(&handle)?;
        if let Link::Opening(wire) | Link::Open(wire) =
            std::mem::replace(&mut talk.link, Link::None)
        {
            account(worker, talk, Counter::FastCgiRunningMs);
            let pool = &mut self.pools[talk.site];
            pool.active -= 1;
            if talk.is_clean() && pool.site.keep_ms > 0 {
                let until = Deadline::after(worker.net.now_ms(), pool.site.keep_ms);
                pool.idle.push_back((wire, until));
                self.wires.insert(wire, None);
                self.due = self.due.min(until);
            } else {
                self.wires.remove(&wire);
                worker.net.close_wire(wire);
            }
        }
        Some(talk.site)
    }
}

/// Writes more of the body, where there is more. The step says why there is not.
fn fill(worker: &mut Engine, talk: &mut Talk) -> Option<Step> {
    if talk.sent > 0 && !talk.is_repeatable {
        talk.out.drain(..talk.sent);
        talk.sent = 0;
    }
    while talk.out.len() - talk.sent < PIECE_BYTES {
        match &mut talk.body {
            Body::Done | Body::Collecting(_) => break,
            Body::Stored(file, left) => {
                if let Err(error) = write_stored(&mut talk.out, file, left) {
                    return Some(Step::Failed(
                        500,
                        format!("a stored body cannot be read: {error}"),
                    ));
                }
                if *left == 0 {
                    talk.body = Body::Done;
                }
            }
            Body::Arriving => match worker.read_body(talk.handle, PIECE_BYTES) {
                Ok(Read::Pending) => break,
                Ok(read) => {
                    if read != Read::End {
                        Request::body(&mut talk.out, worker.http.body_piece());
                    }
                    if read != Read::Piece {
                        Request::body_end(&mut talk.out);
                        talk.body = Body::Done;
                    }
                }
                Err(error) => return Some(unread(worker, talk, error)),
            },
        }
    }
    None
}

/// The rest of a body cannot be had.
fn unread(worker: &mut Engine, talk: &mut Talk, error: ReadError) -> Step {
    match error {
        ReadError::Refused(status, message) if talk.answer == Answer::None => {
            answer(worker, talk.handle, status, &format!("{message}.\n"));
        }
        _ => worker.drop_request(talk.handle),
    }
    Step::Over
}

/// Counts the time since the last time this was called for the request, or since it has begun to wait.
fn account(worker: &mut Engine, talk: &mut Talk, phase: Counter) {
    let now_ms = worker.net.now_ms();
    worker
        .net
        .count(phase, now_ms.saturating_sub(talk.since_ms));
    talk.since_ms = now_ms;
}

fn unreachable(error: &io::Error) -> String {
    format!("no connection: {error}; check that PHP-FPM runs, listens there and may be reached")
}
