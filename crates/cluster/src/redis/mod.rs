//! The log in Redis. One stream stores the messages of all channels of an application. Lua scripts write and read it, so that
//! each step is atomic.
//!
//! Keys are `{PREFIX}:log` (the stream), `{PREFIX}:meta` (epoch and last sequence) and `{PREFIX}:sent:OUTBOX` (numbers of the
//! records of one outbox that the log has, by which it recognizes a record that is sent again). Each append publishes its last
//! sequence on the channel `{PREFIX}:new`.
//!
//! Redis may drop messages of that channel, so a bridge also reads every two seconds ([`PING_MS`]). A fail-over may lose
//! acknowledged records. A new connection therefore compares the log with the newest record that the bridge has read or that
//! was acknowledged to it. If the log lacks this record, or has a different one at its position, the log gets a new epoch. Each
//! read makes the same comparison.
//!
//! A server may refuse writes and still answer reads: its memory is full, it cannot save, or it has too few replicas. The log
//! counts as reachable once it has accepted an append. The first append of a connection has no records and only tests this.
//! After a refusal the connection stays open, reading continues, and an append without records is repeated until it is
//! accepted.
//!
//! On each new connection, a Sentinel names the master, and a server of a Redis Cluster without the log names the server that
//! has it. The bridge connects to that server instead.

mod entry;
mod past;
mod pending;
mod reading;
mod refusal;
mod scripts;
mod servers;
mod writing;

use std::collections::VecDeque;

use self::pending::{End, Pending};
use self::refusal::{TLS_ALERT, TLS_MAJOR, refusal, tls_scheme, words_of_refusal};
use self::scripts::SCRIPTS;
use self::servers::{check_greeting, master, moved};
use crate::exchange::{
    ANSWER_MS_MAX, Event, Login, Options, PING_MS, Place, SILENCE_MS_MAX, answer_due_ms,
};
use crate::in_flight::InFlightQueue;
use crate::link::{Link, ReportedCauses};
use crate::resp::{self, RespError, Value};

/// Maximum length of an incomplete reply in bytes. It covers the bytes after which a script stops, the event that exceeds them,
/// and the framing. A longer reply closes the connection.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// A client of Redis.
pub(crate) struct Redis {
    options: Options,
    keys: Keys,
    link: Link,
    reached: Option<Place>,
    reached_ms: Option<u64>,
    /// Last position that the log has acknowledged, and the time when the log stored the record, if known.
    acknowledged: Option<(Place, Option<u64>)>,
    epoch: u64,
    /// Number of connections so far. It is part of new epochs, so that no two connections create the same epoch.
    connections: u64,
    /// Last known sequence of the log: now (`last`), and at the start of the connection (`past_until`).
    last: u64,
    past_until: u64,
    /// True if the log was opened on this connection.
    is_live: bool,
    /// True if a read has no reply yet.
    is_reading: bool,
    write: Write,
    /// Refusals since the last accepted record.
    refusals: u32,
    /// Cause of the last refusal.
    refusal: String,
    reported: ReportedCauses,
    login: Login,
    scripts: [Vec<u8>; 4],
    /// Commands without a reply, in order, with the time when each was sent.
    pending: VecDeque<(Pending, u64)>,
    in_flight: InFlightQueue,
    /// Records for the next append: their encoded arguments (`batch`), and their positions in the outbox (`batched`).
    batch: Vec<u8>,
    batched: Vec<u64>,
    input: Vec<u8>,
    output: Vec<u8>,
    events: VecDeque<Event>,
    /// Time when the last bytes arrived.
    received_ms: u64,
    /// Time when the last reply was complete, and time when bytes of an incomplete reply arrived.
    answered_ms: u64,
    arrived_ms: u64,
    /// Time when the last read was sent.
    read_ms: u64,
    now_ms: u64,
}

/// Whether the server accepts records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    /// The first append has no result yet.
    Unknown,
    /// The server has accepted the last append.
    Taken,
    /// The server has refused records since `since_ms`. The next attempt is due at `retry_ms`, or in progress (`u64::MAX`).
    Refused { since_ms: u64, retry_ms: u64 },
}

struct Keys {
    meta: Vec<u8>,
    log: Vec<u8>,
    sent: Vec<u8>,
    notify_channel: Vec<u8>,
    events_max: Vec<u8>,
}

impl Redis {
    pub fn new(
        options: Options,
        reached: Option<Place>,
        reached_ms: Option<u64>,
        now_ms: u64,
    ) -> Redis {
        let key = |name: &str| format!("{{{}}}:{name}", options.prefix).into_bytes();
        Redis {
            keys: Keys {
                meta: key("meta"),
                log: key("log"),
                sent: key(&format!("sent:{}", options.outbox)),
                notify_channel: key("new"),
                events_max: options.events_max.to_string().into_bytes(),
            },
            link: Link::new(options.servers.clone(), now_ms),
            options,
            reached,
            reached_ms,
            acknowledged: None,
            epoch: 0,
            connections: 0,
            last: 0,
            past_until: 0,
            is_live: false,
            is_reading: false,
            write: Write::Unknown,
            refusals: 0,
            refusal: String::new(),
            reported: ReportedCauses::default(),
            login: Login::default(),
            scripts: Default::default(),
            pending: VecDeque::new(),
            in_flight: InFlightQueue::default(),
            batch: Vec::new(),
            batched: Vec::new(),
            input: Vec::new(),
            output: Vec::new(),
            events: VecDeque::new(),
            received_ms: now_ms,
            answered_ms: now_ms,
            arrived_ms: now_ms,
            read_ms: now_ms,
            now_ms,
        }
    }

    pub fn set_login(&mut self, login: Login) {
        self.login = login;
    }

    pub fn handle_connected(&mut self, now_ms: u64) {
        (self.now_ms, self.received_ms, self.read_ms) = (now_ms, now_ms, now_ms);
        (self.answered_ms, self.arrived_ms) = (now_ms, now_ms);
        self.link.handle_connected();
        self.connections += 1;
        let server = self.link.server();
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        let login = self.login.of(server);
        if !login.user.is_empty() || !login.password.is_empty() {
            let user = if login.user.is_empty() {
                "default"
            } else {
                &login.user
            };
            hello.extend([b"AUTH", user.as_bytes(), login.password.as_bytes()]);
        }
        resp::command(&mut self.output, &hello);
        self.pending.push_back((Pending::Hello, now_ms));
        if let Some(sentinel) = &server.sentinel {
            let master = sentinel.master.as_bytes();
            let command: [&[u8]; 3] = [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", master];
            resp::command(&mut self.output, &command);
            return self.pending.push_back((Pending::Master, now_ms));
        }
        if server.database > 0 {
            let database = server.database.to_string();
            resp::command(&mut self.output, &[b"SELECT", database.as_bytes()]);
            self.pending.push_back((Pending::Select, now_ms));
        }
        // The reply has the hash by which EVALSHA runs the script.
        for (at, script) in SCRIPTS.into_iter().enumerate() {
            resp::command(&mut self.output, &[b"SCRIPT", b"LOAD", script]);
            self.pending.push_back((Pending::Load(at), now_ms));
        }
        // SUBSCRIBE has no entry in `pending`, because its reply is a pushed message.
        resp::command(&mut self.output, &[b"SUBSCRIBE", &self.keys.notify_channel]);
    }

    pub fn handle_closed(&mut self, cause: &str, now_ms: u64) {
        self.now_ms = now_ms;
        match self.pending.front() {
            // A TLS server may close the connection on the plain-text greeting.
            Some((Pending::Hello, _)) if self.link.is_up() && !self.link.server().is_tls => {
                let scheme = tls_scheme(self.link.server());
                self.end(&format!(
                    "{cause} at once; if it speaks TLS at this port, write {scheme} in cluster"
                ));
            }
            _ => self.end(cause),
        }
    }

    pub fn handle_input(&mut self, bytes: &[u8], now_ms: u64) {
        (self.now_ms, self.received_ms) = (now_ms, now_ms);
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let mut taken = 0;
        if let (Some((Pending::Hello, _)), [TLS_ALERT, TLS_MAJOR, ..]) =
            (self.pending.front(), &input[..])
        {
            let scheme = tls_scheme(self.link.server());
            return self.fail(&format!(
                "the server speaks TLS at this port; write {scheme} in cluster"
            ));
        }
        while self.link.is_up() {
            let outcome = match resp::parse(&input[taken..]) {
                Ok(None) if input.len() - taken > REPLY_BYTES_MAX => {
                    Err(RespError::TooLong.to_string().into())
                }
                Ok(None) => break,
                Ok(Some((value, len))) => {
                    taken += len;
                    self.on_value(value)
                }
                Err(error) => Err(error.to_string().into()),
            };
            match outcome {
                Ok(()) => {}
                Err(End::Failure(cause)) => return self.fail(&cause),
                Err(End::Referral { host, port }) => return self.refer(&host, port),
            }
        }
        if self.link.is_up() {
            input.drain(..taken);
            // Bytes of an incomplete reply extend its timeout. A pushed message (`>`) is no reply.
            if input.first().is_some_and(|kind| *kind != b'>') {
                self.arrived_ms = now_ms;
            }
            self.input = input;
            self.read_on();
        }
    }

    pub fn handle_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        if let Some(server) = self.link.begin(now_ms) {
            let server = Box::new(server.clone());
            return self.events.push_back(Event::Connect(server));
        }
        if self.link.is_late(now_ms) {
            return self.fail("the connection was not opened in time");
        }
        if !self.link.is_up() {
            return;
        }
        if self.answer_due_ms() <= now_ms {
            self.fail("no answer in time");
        } else if now_ms >= self.received_ms + SILENCE_MS_MAX {
            self.fail("the connection is silent");
        } else if let Write::Refused { since_ms, retry_ms } = self.write
            && retry_ms <= now_ms
        {
            // This server has refused records for a whole timeout. Another one may accept them.
            if self.link.has_others() && since_ms + ANSWER_MS_MAX <= now_ms {
                return self.fail(&self.refusal.clone());
            }
            self.write = Write::Refused {
                since_ms,
                retry_ms: u64::MAX,
            };
            self.ask_to_write();
        } else if self.is_live && !self.is_reading && now_ms >= self.read_ms + PING_MS {
            // The message that announces new records may have been dropped. The reply also shows that the server is alive.
            self.read();
        }
    }

    pub fn due_ms(&self) -> u64 {
        if !self.link.is_up() {
            return self.link.due_ms();
        }
        let next_write = match self.write {
            Write::Refused { retry_ms, .. } => retry_ms,
            _ => u64::MAX,
        };
        let next_read = if self.is_live && !self.is_reading {
            self.read_ms + PING_MS
        } else {
            u64::MAX
        };
        self.answer_due_ms()
            .min(next_write)
            .min(self.received_ms + SILENCE_MS_MAX)
            .min(next_read)
    }

    /// Returns the time at which the next reply is overdue.
    fn answer_due_ms(&self) -> u64 {
        self.pending.front().map_or(u64::MAX, |(_, sent_ms)| {
            let since_ms = self.answered_ms.max(*sent_ms);
            answer_due_ms(since_ms, ANSWER_MS_MAX, self.arrived_ms)
        })
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        event.or_else(|| self.in_flight.released().map(Event::Released))
    }

    pub fn transmit(&mut self) -> &mut Vec<u8> {
        // Append when the caller fetches bytes, so that records that were sent together share one append.
        self.append();
        &mut self.output
    }

    fn on_value(&mut self, value: Value<'_>) -> Result<(), End> {
        if let Value::Push(message) = value {
            if let [kind, _, last] = &message[..]
                && kind.as_text() == Some(b"message")
            {
                // Another append has moved the log's end. `read_on` requests the messages up to there.
                self.last = self.last.max(last.as_number().unwrap_or(0));
            }
            return Ok(());
        }
        let Some((pending, _)) = self.pending.pop_front() else {
            return Err("unexpected response".into());
        };
        self.answered_ms = self.now_ms;
        if let Value::Error(text) = value {
            return self.on_error(&pending, &String::from_utf8_lossy(text));
        }
        match pending {
            Pending::Hello => check_greeting(&value, self.link.server())?,
            Pending::Master => return Err(master(&value, self.link.server())),
            Pending::Select => {}
            Pending::Load(at) => {
                let sha = value.as_text().ok_or("SCRIPT LOAD: malformed response")?;
                self.scripts[at] = sha.to_vec();
                if at == SCRIPTS.len() - 1 {
                    self.open();
                }
            }
            Pending::Open => self
                .on_open(&value)
                .ok_or("malformed response to the request for the log's state")?,
            Pending::Append(records) => self
                .on_appended(&records, &value)
                .ok_or("malformed response to an append")?,
            Pending::Past(collector) => self
                .on_past(collector, &value)
                .ok_or("malformed older event")?,
            Pending::Read => {
                self.is_reading = false;
                self.on_read(&value).ok_or("malformed event")?;
            }
        }
        Ok(())
    }

    fn on_error(&mut self, pending: &Pending, text: &str) -> Result<(), End> {
        match (pending, words_of_refusal(text)) {
            (Pending::Append(_), Some(words)) => {
                self.on_refused(words);
                Ok(())
            }
            (Pending::Hello, _) if !text.starts_with("ERR ") => {
                // Report only the code, because the text may quote the command with the password.
                let code = text.split(' ').next().unwrap_or_default();
                let hint = match code {
                    "WRONGPASS" | "NOAUTH" | "NOPERM" => self.login.hint(self.link.server()),
                    _ => "see its log",
                };
                Err(format!("the server refused the connection: {code}; {hint}").into())
            }
            _ => match moved(text, self.link.server()) {
                Some(referral) => Err(referral),
                None => Err(refusal(pending, text).into()),
            },
        }
    }

    fn tell_away(&mut self, cause: String) {
        if self.reported.add(&cause) {
            self.events.push_back(Event::Away(cause));
        }
    }

    fn note_ready(&mut self) {
        let is_past_given = self.reached.is_some_and(|it| it.seq >= self.past_until);
        let is_there = self.is_live && self.write == Write::Taken;
        if is_there && is_past_given && self.link.note_ready() {
            self.reported.clear();
            self.events.push_back(Event::Ready);
        }
    }

    fn notice(&mut self, text: &str) {
        self.events.push_back(Event::Notice(text.to_owned()));
    }

    fn fail(&mut self, cause: &str) {
        self.events.push_back(Event::Disconnect);
        self.end(cause);
    }

    fn end(&mut self, cause: &str) {
        let name = self.link.name();
        if self.link.end(self.now_ms) {
            self.forget_connection();
            self.tell_away(format!("{name}: {cause}"));
        }
    }

    /// Connects to the server that the present server has named.
    fn refer(&mut self, host: &str, port: u16) {
        // Two servers may name each other, for example during a fail-over.
        if !self.link.can_be_referred() {
            return self.fail("servers name one another, and none has the log");
        }
        self.events.push_back(Event::Disconnect);
        let name = self.link.name();
        let was_there = self.link.refer(host, port, self.now_ms);
        self.forget_connection();
        if was_there {
            let server = self.link.server();
            self.tell_away(format!("{name}: {server} has the log now"));
        }
    }

    /// Drops the state of the connection. Requests for older messages and unacknowledged records must be sent again.
    fn forget_connection(&mut self) {
        (self.is_live, self.is_reading) = (false, false);
        self.write = Write::Unknown;
        for (pending, _) in self.pending.drain(..) {
            if let Pending::Past(collector) = pending {
                self.events.push_back(Event::PastLost(collector.request.id));
            }
        }
        self.batch.clear();
        self.batched.clear();
        self.input = Vec::new();
        self.output.clear();
        self.events
            .extend(self.in_flight.clear().map(Event::Released));
        self.events.push_back(Event::Rewind);
    }
}
