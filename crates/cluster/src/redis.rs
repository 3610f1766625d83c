//! Redis as the log: one stream for all channels of an application, written and read by scripts, so that each step is whole.
//!
//! Keys are `{PREFIX}:log` (the stream), `{PREFIX}:meta` (epoch and last place) and `{PREFIX}:sent:OUTBOX` (which records of an
//! outbox the log has, as long as they may be sent again). Each append publishes its last place on the channel `{PREFIX}:new`.
//!
//! That channel may drop messages, so a bridge that has heard nothing reads all the same every two seconds ([`PING_MS`]). A
//! fail-over may lose what was acknowledged: the epoch changes as soon as a bridge connects that has read more than the log has,
//! or another message at its place, or had more acknowledged than it has read. A bridge that stays connected looks for the same
//! with each read.
//!
//! A server may refuse to write and answer reads all the same: its memory is full, it cannot save, too few replicas. Therefore
//! the log counts as there when it has taken something, at first an append of no records. After a refusal the connection stays
//! and is read from; the append of no records is tried again until it is taken.

use std::collections::VecDeque;

use crate::epoch::epoch_of;
use crate::exchange::{
    ANSWER_MS_MAX, Content, Event, IN_FLIGHT_MAX, Login, Options, Outgoing, PAST_REQUESTS_MAX,
    PING_MS, PastEntry, PastRequest, Place, Received, SILENCE_MS_MAX, UNSENT_BYTES_MAX,
    answer_due_ms, read_except, retry_ms,
};
use crate::flight::Flight;
use crate::link::{Link, ReportedCauses};
use crate::past::Collector;
use crate::resp::{self, RespError, Value};

/// Most records that one script appends.
const APPEND_MAX: usize = 64;
/// Most events that one script gives, and after how many bytes of data it gives no more: Redis closes a connection that has
/// subscribed when too much waits for it (`client-output-buffer-limit`).
const READ_MAX: &[u8] = b"512";
const READ_BYTES_MAX: &[u8] = b"2097152";
/// Longest reply: what one script gives, the event with which it passed its bound, and what is around them.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// How many records of an outbox the log knows that it has, all that may be sent again among them ([`IN_FLIGHT_MAX`]), and how
/// long.
const SENT_RANK: &[u8] = b"-4097";
const SENT_SECONDS: &[u8] = b"600";
/// Arguments per appended record.
const RECORD_ARGUMENTS: usize = 5;

/// Says where the log stands, and gives it an epoch when it has none, or has lost what a node knows that it had. Keys: meta, log.
/// Arguments: an epoch that nobody has, the node's epoch, the last place that it knows of, when the message there was stored.
const OPEN: &[u8] = br"
local epoch = redis.call('HGET', KEYS[1], 'epoch')
local last = redis.call('HGET', KEYS[1], 'last') or '0'
local newest = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
if newest then
  local id = string.match(newest[1], '^%d+')
  if tonumber(id) > tonumber(last) then
    last = id
    redis.call('HSET', KEYS[1], 'last', id)
  end
end
local lost = 0
if epoch and epoch == ARGV[2] then
  if tonumber(ARGV[3]) > tonumber(last) then
    lost = 1
  elseif ARGV[4] ~= '' then
    local entry = redis.call('XRANGE', KEYS[2], ARGV[3] .. '-0', ARGV[3] .. '-0')[1]
    for i = 1, entry and #entry[2] or 0, 2 do
      if entry[2][i] == 't' and entry[2][i + 1] ~= ARGV[4] then lost = 1 end
    end
  end
end
if not epoch or lost == 1 then
  epoch = ARGV[1]
  redis.call('HSET', KEYS[1], 'epoch', epoch)
end
local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
return {epoch, last, oldest and string.match(oldest[1], '^%d+') or '0', lost}
";

/// Appends records, each once; none to see whether it would. Keys: meta, log, sent. Arguments: epoch, most events of the log,
/// channel for news, rank of the newest record to forget, seconds to remember the others, the record that the log must have
/// because it was sent just before (none of it when that one was refused); per record its
/// number, channel, '+' and its name or '-' or '=' and what it is instead of an event, data, who does not get it. Gives when the
/// last one was stored, empty where it was there before (so were all the others then), and their places.
const APPEND: &[u8] = br"
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return redis.error_reply('EPOCH the log was made anew')
end
if ARGV[6] ~= '' and not redis.call('ZRANGEBYSCORE', KEYS[3], ARGV[6], ARGV[6])[1] then
  return redis.error_reply('ORDER what comes before was refused')
end
if #ARGV == 6 then redis.call('HINCRBY', KEYS[1], 'last', 0) end
local time = redis.call('TIME')
local ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local places, seq = {}, nil
for i = 7, #ARGV, 5 do
  local number = ARGV[i]
  local known = redis.call('ZRANGEBYSCORE', KEYS[3], number, number)[1]
  if known then
    places[#places + 1] = string.match(known, '%d+$')
  else
    seq = string.format('%.0f', redis.call('HINCRBY', KEYS[1], 'last', 1))
    local add = {'XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], seq .. '-0', 't', ms, 'c', ARGV[i + 1], 'd', ARGV[i + 3]}
    if string.sub(ARGV[i + 2], 1, 1) == '+' then
      add[#add + 1] = 'n'
      add[#add + 1] = string.sub(ARGV[i + 2], 2)
    elseif string.sub(ARGV[i + 2], 1, 1) == '=' then
      add[#add + 1] = 'k'
      add[#add + 1] = string.sub(ARGV[i + 2], 2)
    end
    if ARGV[i + 4] ~= '' then
      add[#add + 1] = 'x'
      add[#add + 1] = ARGV[i + 4]
    end
    redis.call(unpack(add))
    redis.call('ZADD', KEYS[3], number, number .. ' ' .. seq)
    places[#places + 1] = seq
  end
end
redis.call('ZREMRANGEBYRANK', KEYS[3], 0, ARGV[4])
redis.call('EXPIRE', KEYS[3], ARGV[5])
if seq then redis.call('PUBLISH', ARGV[3], seq) end
return {seq and ms or '', places}
";

/// Reads what follows a place. Keys: meta, log. Arguments: epoch, first place, most events, most bytes, the place before, when
/// the message there was stored.
const READ: &[u8] = br"
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return redis.error_reply('EPOCH the log was made anew')
end
local last = redis.call('HGET', KEYS[1], 'last') or '0'
local lost = tonumber(last) < tonumber(ARGV[5])
if ARGV[6] ~= '' then
  local entry = redis.call('XRANGE', KEYS[2], ARGV[5] .. '-0', ARGV[5] .. '-0')[1]
  for i = 1, entry and #entry[2] or 0, 2 do
    if entry[2][i] == 't' and entry[2][i + 1] ~= ARGV[6] then lost = true end
  end
end
if lost then
  return redis.error_reply('LOST messages that were read')
end
local given, bytes, from = {}, 0, ARGV[2] .. '-0'
repeat
  local entries = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', 16)
  for _, entry in ipairs(entries) do
    given[#given + 1] = entry
    for _, text in ipairs(entry[2]) do bytes = bytes + #text end
    if #given >= tonumber(ARGV[3]) or bytes >= tonumber(ARGV[4]) then break end
    from = '(' .. entry[1]
  end
until #entries < 16 or #given >= tonumber(ARGV[3]) or bytes >= tonumber(ARGV[4])
return {last, given}
";

/// Looks for events of some channels between two places. Keys: meta, log. Arguments: epoch, first place, last place, most events
/// that are looked at, most bytes of them, then the channels. Gives where the log begins in this part, up to where it was looked
/// at, and what was found.
const PAST: &[u8] = br"
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return {'', ARGV[3], {}}
end
local wanted = {}
for i = 6, #ARGV do wanted[ARGV[i]] = true end
local first, looked, bytes, given, from = '', 0, 0, {}, ARGV[2] .. '-0'
local last = ARGV[3]
repeat
  local entries = redis.call('XRANGE', KEYS[2], from, ARGV[3] .. '-0', 'COUNT', 16)
  for _, entry in ipairs(entries) do
    looked = looked + 1
    if first == '' then first = string.match(entry[1], '^%d+') end
    local fields, is_wanted = entry[2], false
    for i = 1, #fields, 2 do
      if fields[i] == 'c' and wanted[fields[i + 1]] then is_wanted = true end
    end
    if is_wanted then
      given[#given + 1] = entry
      for _, text in ipairs(fields) do bytes = bytes + #text end
    end
    from = '(' .. entry[1]
    if looked >= tonumber(ARGV[4]) or bytes >= tonumber(ARGV[5]) then
      return {first, string.match(entry[1], '^%d+'), given}
    end
  end
until #entries < 16
return {first, last, given}
";

const SCRIPTS: [&[u8]; 4] = [OPEN, APPEND, READ, PAST];
const SCRIPT_OPEN: usize = 0;
const SCRIPT_APPEND: usize = 1;
const SCRIPT_READ: usize = 2;
const SCRIPT_PAST: usize = 3;
/// Most events that one script looks at for clients that have missed more than their node has: a millisecond or two, in which Redis
/// serves nobody else.
const PAST_LOOKS_MAX: &[u8] = b"1024";

/// A request that awaits its reply; the server replies in order.
enum Pending {
    Hello,
    Select,
    Load(usize),
    Open,
    /// These records, by their places in the outbox.
    Append(Vec<u64>),
    Read,
    Past(Box<Collector>),
}

/// See the module.
pub(crate) struct Redis {
    options: Options,
    keys: Keys,
    link: Link,
    reached: Option<Place>,
    reached_ms: Option<u64>,
    /// The last place that the log has acknowledged, and when it stored the record, where it has said so.
    acknowledged: Option<(Place, Option<u64>)>,
    epoch: u64,
    /// Connections so far: no two make the same epoch.
    connections: u64,
    /// The log's end as far as it is known, and when the connection began.
    last: u64,
    past_until: u64,
    is_live: bool,
    is_reading: bool,
    write: Write,
    /// Refusals since a record was taken.
    refusals: u32,
    /// The last one, for a server that is left because of it.
    refusal: String,
    reported: ReportedCauses,
    login: Login,
    scripts: [Vec<u8>; 4],
    pending: VecDeque<(Pending, u64)>,
    flight: Flight,
    /// Records for the next script: arguments as they are sent, and their places in the outbox.
    batch: Vec<u8>,
    batched: Vec<u64>,
    input: Vec<u8>,
    output: Vec<u8>,
    events: VecDeque<Event>,
    heard_ms: u64,
    /// When the last answer was complete, and when bytes of one came that is not.
    answered_ms: u64,
    arrived_ms: u64,
    read_ms: u64,
    now_ms: u64,
}

/// Whether the server takes records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    /// It was asked, or is to be asked.
    Unknown,
    Taken,
    /// It does not; it is asked again at this time.
    Refused {
        since_ms: u64,
        retry_ms: u64,
    },
}

struct Keys {
    meta: Vec<u8>,
    log: Vec<u8>,
    sent: Vec<u8>,
    news: Vec<u8>,
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
                news: key("new"),
                events_max: options.events_max.to_string().into_bytes(),
            },
            options,
            link: Link::new(now_ms),
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
            flight: Flight::default(),
            batch: Vec::new(),
            batched: Vec::new(),
            input: Vec::new(),
            output: Vec::new(),
            events: VecDeque::new(),
            heard_ms: now_ms,
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
        (self.now_ms, self.heard_ms, self.read_ms) = (now_ms, now_ms, now_ms);
        (self.answered_ms, self.arrived_ms) = (now_ms, now_ms);
        self.link.handle_connected();
        self.connections += 1;
        let server = &self.options.servers[self.link.server()];
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        let login = self.login.of(server);
        if !login.user.is_empty() || !login.password.is_empty() {
            let user = match login.user.is_empty() {
                true => "default",
                false => &login.user,
            };
            hello.extend([b"AUTH", user.as_bytes(), login.password.as_bytes()]);
        }
        resp::command(&mut self.output, &hello);
        self.pending.push_back((Pending::Hello, now_ms));
        if server.database > 0 {
            let database = server.database.to_string();
            resp::command(&mut self.output, &[b"SELECT", database.as_bytes()]);
            self.pending.push_back((Pending::Select, now_ms));
        }
        for (at, script) in SCRIPTS.into_iter().enumerate() {
            resp::command(&mut self.output, &[b"SCRIPT", b"LOAD", script]);
            self.pending.push_back((Pending::Load(at), now_ms));
        }
        // Its answer is a pushed message.
        resp::command(&mut self.output, &[b"SUBSCRIBE", &self.keys.news]);
    }

    pub fn handle_closed(&mut self, cause: &str, now_ms: u64) {
        self.now_ms = now_ms;
        let server = &self.options.servers[self.link.server()];
        match self.pending.front() {
            // A server with TLS does that to what is in the clear.
            Some((Pending::Hello, _)) if self.link.is_up() && !server.is_tls => {
                self.end(&format!(
                    "{cause} at once; if it speaks TLS at this port, write rediss:// in cluster"
                ));
            }
            _ => self.end(cause),
        }
    }

    pub fn handle_input(&mut self, bytes: &[u8], now_ms: u64) {
        (self.now_ms, self.heard_ms) = (now_ms, now_ms);
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let mut taken = 0;
        if let (Some((Pending::Hello, _)), [TLS_ALERT, TLS_MAJOR, ..]) =
            (self.pending.front(), &input[..])
        {
            return self.fail(WANTS_TLS);
        }
        while self.link.is_up() {
            let outcome = match resp::parse(&input[taken..]) {
                Ok(None) if input.len() - taken > REPLY_BYTES_MAX => {
                    Err(RespError::TooLong.to_string())
                }
                Ok(None) => break,
                Ok(Some((value, len))) => {
                    taken += len;
                    self.on_value(value)
                }
                Err(error) => Err(error.to_string()),
            };
            if let Err(cause) = outcome {
                return self.fail(&cause);
            }
        }
        if self.link.is_up() {
            input.drain(..taken);
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
        } else if now_ms >= self.heard_ms + SILENCE_MS_MAX {
            self.fail("the connection is silent");
        } else if let Write::Refused { since_ms, retry_ms } = self.write
            && retry_ms <= now_ms
        {
            // Another server may take records by now.
            if self.options.servers.len() > 1 && since_ms + ANSWER_MS_MAX <= now_ms {
                return self.fail(&self.refusal.clone());
            }
            self.write = Write::Refused {
                since_ms,
                retry_ms: u64::MAX,
            };
            self.ask_to_write();
        } else if self.is_live && !self.is_reading && now_ms >= self.read_ms + PING_MS {
            // What was told may have been missed, and the server must show that it lives.
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
        let next_read = match self.is_live && !self.is_reading {
            true => self.read_ms + PING_MS,
            false => u64::MAX,
        };
        self.answer_due_ms()
            .min(next_write)
            .min(self.heard_ms + SILENCE_MS_MAX)
            .min(next_read)
    }

    /// When the next answer must be there.
    fn answer_due_ms(&self) -> u64 {
        self.pending.front().map_or(u64::MAX, |(_, sent_ms)| {
            let since_ms = self.answered_ms.max(*sent_ms);
            answer_due_ms(since_ms, ANSWER_MS_MAX, self.arrived_ms)
        })
    }

    pub fn can_send(&self) -> bool {
        self.is_live
            && self.write == Write::Taken
            && self.flight.len() < IN_FLIGHT_MAX
            && self.output.len() + self.batch.len() < UNSENT_BYTES_MAX
    }

    pub fn send(&mut self, record: &Outgoing<'_>, now_ms: u64) {
        self.now_ms = now_ms;
        self.flight.push(record.outbox, now_ms, false);
        resp::argument(&mut self.batch, record.outbox.to_string().as_bytes());
        resp::argument(&mut self.batch, record.channel);
        let (mark, text) = match (record.content.text(), record.name) {
            (Some(content), _) => (b'=', content),
            (None, Some(name)) => (b'+', name),
            (None, None) => (b'-', &b""[..]),
        };
        let mut name = vec![mark];
        name.extend_from_slice(text);
        resp::argument(&mut self.batch, &name);
        resp::argument(&mut self.batch, record.data);
        let except = record
            .except
            .map(|(worker, key)| format!("{worker:016x}{key:016x}"));
        resp::argument(&mut self.batch, except.unwrap_or_default().as_bytes());
        self.batched.push(record.outbox);
        if self.batched.len() == APPEND_MAX {
            self.append();
        }
    }

    pub fn discard(&mut self, outbox: u64, now_ms: u64) {
        self.flight.push(outbox, now_ms, true);
        self.flight.settle(outbox);
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        event.or_else(|| self.flight.released().map(Event::Released))
    }

    pub fn transmit(&mut self) -> &mut Vec<u8> {
        self.append();
        &mut self.output
    }

    /// Sends the records that were handed over.
    fn append(&mut self) {
        if !self.batched.is_empty() {
            self.ask_to_write();
        }
    }

    /// The same, also when there are none.
    fn ask_to_write(&mut self) {
        let records = std::mem::take(&mut self.batched);
        let epoch = self.epoch.to_string();
        // What has an answer by now is in the log, or nothing is sent.
        let before = self
            .pending
            .iter()
            .rev()
            .find_map(|(pending, _)| match pending {
                Pending::Append(records) => records.last(),
                _ => None,
            });
        let before = match records.is_empty() {
            true => String::new(),
            false => before.map_or(String::new(), u64::to_string),
        };
        let head: [&[u8]; 12] = [
            b"EVALSHA",
            &self.scripts[SCRIPT_APPEND],
            b"3",
            &self.keys.meta,
            &self.keys.log,
            &self.keys.sent,
            epoch.as_bytes(),
            &self.keys.events_max,
            &self.keys.news,
            SENT_RANK,
            SENT_SECONDS,
            before.as_bytes(),
        ];
        let count = head.len() + records.len() * RECORD_ARGUMENTS;
        resp::begin(&mut self.output, count);
        for text in head {
            resp::argument(&mut self.output, text);
        }
        self.output.append(&mut self.batch);
        self.pending
            .push_back((Pending::Append(records), self.now_ms));
    }

    /// Asks for what follows.
    fn read(&mut self) {
        let Some(reached) = self.reached else { return };
        let (epoch, from) = (self.epoch.to_string(), (reached.seq + 1).to_string());
        let (before, stored) = (reached.seq.to_string(), stored(self.reached_ms));
        let command: [&[u8]; 11] = [
            b"EVALSHA",
            &self.scripts[SCRIPT_READ],
            b"2",
            &self.keys.meta,
            &self.keys.log,
            epoch.as_bytes(),
            from.as_bytes(),
            READ_MAX,
            READ_BYTES_MAX,
            before.as_bytes(),
            stored.as_bytes(),
        ];
        resp::command(&mut self.output, &command);
        self.pending.push_back((Pending::Read, self.now_ms));
        self.is_reading = true;
        self.read_ms = self.now_ms;
    }

    fn read_on(&mut self) {
        let is_behind = self.reached.is_some_and(|it| it.seq < self.last);
        if self.is_live && !self.is_reading && is_behind {
            self.read();
        }
    }

    fn on_value(&mut self, value: Value<'_>) -> Result<(), String> {
        if let Value::Push(message) = value {
            if let [kind, _, last] = &message[..]
                && kind.as_text() == Some(b"message")
            {
                self.last = self.last.max(last.as_number().unwrap_or(0));
            }
            return Ok(());
        }
        let Some((pending, _)) = self.pending.pop_front() else {
            return Err("an answer that was not asked for".to_owned());
        };
        self.answered_ms = self.now_ms;
        if let Value::Error(text) = value {
            let text = String::from_utf8_lossy(text);
            return match (&pending, words_of_refusal(&text)) {
                (Pending::Append(_), Some(words)) => {
                    self.on_refused(words);
                    Ok(())
                }
                (Pending::Hello, _) if !text.starts_with("ERR ") => {
                    let server = &self.options.servers[self.link.server()];
                    let code = text.split(' ').next().unwrap_or_default();
                    let hint = match code {
                        "WRONGPASS" | "NOAUTH" | "NOPERM" => self.login.hint(server),
                        _ => "see its log",
                    };
                    Err(format!("the server refuses us: {code}; {hint}"))
                }
                _ => Err(refusal(&pending, &text)),
            };
        }
        match pending {
            // A replica would do until the first publish.
            Pending::Hello if is_greeted_by(&value, "role", "replica") => {
                return Err(REPLICA.to_owned());
            }
            Pending::Hello if is_greeted_by(&value, "mode", "sentinel") => {
                return Err(SENTINEL.to_owned());
            }
            Pending::Hello | Pending::Select => {}
            Pending::Load(at) => {
                let sha = value.as_text().ok_or("a script has no name")?;
                self.scripts[at] = sha.to_vec();
                if at == SCRIPTS.len() - 1 {
                    self.open();
                }
            }
            Pending::Open => self
                .on_open(&value)
                .ok_or("where the log stands is not said")?,
            Pending::Append(records) => self
                .on_appended(&records, &value)
                .ok_or("what became of records is not said")?,
            Pending::Past(collector) => self
                .on_past(collector, &value)
                .ok_or("an older event is none")?,
            Pending::Read => {
                self.is_reading = false;
                self.on_read(&value).ok_or("what was read is no event")?;
            }
        }
        Ok(())
    }

    fn open(&mut self) {
        let candidate = epoch_of(&format!("{} {}", self.options.inbox, self.connections));
        let candidate = candidate.to_string();
        let (place, stored_ms) = self.newest_known();
        let stored = stored(stored_ms);
        let (epoch, seq) = match place {
            Some(place) => (place.epoch.to_string(), place.seq.to_string()),
            None => (String::new(), "0".to_owned()),
        };
        let command: [&[u8]; 9] = [
            b"EVALSHA",
            &self.scripts[SCRIPT_OPEN],
            b"2",
            &self.keys.meta,
            &self.keys.log,
            candidate.as_bytes(),
            epoch.as_bytes(),
            seq.as_bytes(),
            stored.as_bytes(),
        ];
        resp::command(&mut self.output, &command);
        self.pending.push_back((Pending::Open, self.now_ms));
    }

    /// The last place that the log is known to have had, and when it stored what is there. What it has acknowledged may not have
    /// been read before it was lost.
    fn newest_known(&self) -> (Option<Place>, Option<u64>) {
        let is_newer = |place: Place| {
            self.reached
                .is_none_or(|it| it.epoch == place.epoch && it.seq < place.seq)
        };
        match self.acknowledged {
            Some((place, stored_ms)) if is_newer(place) => (Some(place), stored_ms),
            _ => (self.reached, self.reached_ms),
        }
    }

    fn on_open(&mut self, value: &Value<'_>) -> Option<()> {
        let [epoch, last, oldest, lost] = value.as_array()? else {
            return None;
        };
        (self.epoch, self.last) = (epoch.as_number()?, last.as_number()?);
        let oldest = match oldest.as_number()? {
            0 => self.last,
            oldest => oldest - 1,
        };
        let newest = self.last.saturating_sub(self.options.past_max);
        match self.reached {
            Some(place) if place.epoch == self.epoch && place.seq >= oldest => {}
            Some(place) if place.epoch == self.epoch => {
                self.notice_removed(oldest - place.seq);
                self.begin(oldest);
            }
            reached => {
                if lost.as_number()? == 1 {
                    self.notice(
                        "the log has lost messages that it had acknowledged: it gets a new epoch",
                    );
                }
                if reached.is_some() {
                    self.notice(
                        "the log was made anew or has lost messages: clients are told that messages may be missing",
                    );
                }
                self.begin(newest.max(oldest));
            }
        }
        self.past_until = self.last;
        self.is_live = true;
        self.ask_to_write();
        Some(())
    }

    /// The server does not write. What was sent has its refusal as well, since it would come out of order, or has one to come:
    /// the caller begins again when the server writes.
    fn on_refused(&mut self, words: &str) {
        let since_ms = match self.write {
            // One that was sent before the first refusal was known.
            Write::Refused { retry_ms, .. } if retry_ms != u64::MAX => return,
            Write::Refused { since_ms, .. } => since_ms,
            _ => self.now_ms,
        };
        self.batch.clear();
        self.batched.clear();
        if self.flight.len() > 0 {
            self.events.extend(self.flight.clear().map(Event::Released));
            self.events.push_back(Event::Rewind);
        }
        self.write = Write::Refused {
            since_ms,
            retry_ms: self.now_ms + retry_ms(self.refusals),
        };
        self.refusals = self.refusals.saturating_add(1);
        self.refusal = format!("the server refuses to write: {words}");
        self.link.note_away();
        let server = &self.options.servers[self.link.server()];
        let cause = format!("{server}: {}", self.refusal);
        self.tell_away(cause);
    }

    fn tell_away(&mut self, cause: String) {
        if self.reported.add(&cause) {
            self.events.push_back(Event::Away(cause));
        }
    }

    fn on_appended(&mut self, records: &[u64], value: &Value<'_>) -> Option<()> {
        let [stored, places] = value.as_array()? else {
            return None;
        };
        let (stored_ms, places) = (stored.as_number(), places.as_array()?);
        if places.len() != records.len() {
            return None;
        }
        for (&outbox, seq) in records.iter().zip(places) {
            let place = Place {
                epoch: self.epoch,
                seq: seq.as_number()?,
            };
            self.last = self.last.max(place.seq);
            // Acknowledged in the order of the outbox, which is that of the log: the last one stays.
            self.acknowledged = Some((place, stored_ms));
            self.events.push_back(Event::Accepted { outbox, place });
            self.flight.settle(outbox);
            self.refusals = 0;
        }
        self.write = Write::Taken;
        self.link.handle_success();
        self.note_ready();
        Some(())
    }

    fn on_read(&mut self, value: &Value<'_>) -> Option<()> {
        let [last, entries] = value.as_array()? else {
            return None;
        };
        let last = last.as_number()?;
        self.last = self.last.max(last);
        let entries = entries.as_array()?;
        for entry in entries {
            self.on_entry(entry)?;
        }
        let reached = self.reached?;
        if entries.is_empty() && reached.seq < last {
            self.notice_removed(last - reached.seq);
            self.begin(last);
        }
        self.note_ready();
        Some(())
    }

    fn on_entry(&mut self, entry: &Value<'_>) -> Option<()> {
        let entry = Entry::read(entry)?;
        let (seq, stored) = (entry.seq, entry.stored);
        let reached = self.reached?;
        if seq <= reached.seq {
            return None;
        }
        if seq > reached.seq + 1 {
            self.notice_removed(seq - reached.seq - 1);
            self.begin(seq - 1);
        }
        let place = Place {
            epoch: self.epoch,
            seq,
        };
        self.reached = Some(place);
        self.reached_ms = stored;
        match (entry.channel, entry.data, entry.content) {
            (Some(_), Some(_), Some(_)) => {
                self.events.push_back(Event::Record(entry.received(place)));
            }
            _ => self.notice(
                "a message is left out: it has no channel or no data, or its content is not known",
            ),
        }
        Some(())
    }

    /// Whether a part of the past may be asked for.
    pub fn can_ask_past(&self) -> bool {
        let is_past = |pending: &&(Pending, u64)| matches!(pending.0, Pending::Past(_));
        self.is_live && self.pending.iter().filter(is_past).count() < PAST_REQUESTS_MAX
    }

    pub fn ask_past(&mut self, request: PastRequest, now_ms: u64) {
        self.now_ms = now_ms;
        let collector = Box::new(Collector::new(request));
        match collector.request.epoch == self.epoch {
            true => self.ask_past_on(collector),
            false => self.give_past(collector.fail()),
        }
    }

    fn ask_past_on(&mut self, collector: Box<Collector>) {
        let (epoch, from) = (self.epoch.to_string(), (collector.at + 1).to_string());
        let up_to = collector.request.up_to.to_string();
        let mut command: Vec<&[u8]> = vec![
            b"EVALSHA",
            &self.scripts[SCRIPT_PAST],
            b"2",
            &self.keys.meta,
            &self.keys.log,
            epoch.as_bytes(),
            from.as_bytes(),
            up_to.as_bytes(),
            PAST_LOOKS_MAX,
            READ_BYTES_MAX,
        ];
        command.extend(collector.request.channels.iter().map(|name| &name[..]));
        resp::command(&mut self.output, &command);
        self.pending
            .push_back((Pending::Past(collector), self.now_ms));
    }

    fn give_past(&mut self, (id, entries): (u64, Vec<PastEntry>)) {
        self.events.push_back(Event::Past { id, entries });
    }

    fn on_past(&mut self, mut collector: Box<Collector>, value: &Value<'_>) -> Option<()> {
        let [first, last, entries] = value.as_array()? else {
            return None;
        };
        let (from, up_to) = (collector.at + 1, collector.request.up_to);
        match first.as_number() {
            // Places are given out without holes.
            Some(first) if first > from => collector.miss(first - 1),
            Some(_) => {}
            None => collector.miss(up_to),
        }
        let mut goes_on = true;
        for entry in entries.as_array()? {
            let entry = Entry::read(entry)?;
            let content = entry.channel.and(entry.data).and(entry.content);
            let place = Place {
                epoch: self.epoch,
                seq: entry.seq,
            };
            goes_on &= collector.look(content, || entry.received(place));
        }
        collector.at = last.as_number()?.max(collector.at);
        match goes_on {
            true if collector.at < up_to => self.ask_past_on(collector),
            true => self.give_past(collector.finish()),
            false => self.give_past(collector.fail()),
        }
        Some(())
    }

    fn note_ready(&mut self) {
        let is_past_given = self.reached.is_some_and(|it| it.seq >= self.past_until);
        let is_there = self.is_live && self.write == Write::Taken;
        if is_there && is_past_given && self.link.note_ready() {
            self.reported.clear();
            self.events.push_back(Event::Ready);
        }
    }

    fn begin(&mut self, seq: u64) {
        let place = Place {
            epoch: self.epoch,
            seq,
        };
        self.reached = Some(place);
        self.reached_ms = None;
        self.events.push_back(Event::Begin(place));
    }

    fn notice(&mut self, text: &str) {
        self.events.push_back(Event::Notice(text.to_owned()));
    }

    fn notice_removed(&mut self, count: u64) {
        self.notice(&format!(
            "the log has removed messages that were not read, {count} of them: clients are told that messages may be missing"
        ));
    }

    fn fail(&mut self, cause: &str) {
        self.events.push_back(Event::Disconnect);
        self.end(cause);
    }

    fn end(&mut self, cause: &str) {
        let server = self.link.server();
        if !self.link.end(self.options.servers.len(), self.now_ms) {
            return;
        }
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
        self.events.extend(self.flight.clear().map(Event::Released));
        self.events.push_back(Event::Rewind);
        let server = &self.options.servers[server];
        self.tell_away(format!("{server}: {cause}"));
    }
}

/// An event as it stands in the stream.
struct Entry<'a> {
    seq: u64,
    stored: Option<u64>,
    channel: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    data: Option<&'a [u8]>,
    except: Option<(u64, u64)>,
    content: Option<Content>,
}

impl<'a> Entry<'a> {
    fn read(entry: &Value<'a>) -> Option<Entry<'a>> {
        let [id, fields] = entry.as_array()? else {
            return None;
        };
        let id = std::str::from_utf8(id.as_text()?).ok()?;
        let mut read = Entry {
            seq: id.split('-').next()?.parse::<u64>().ok()?,
            stored: None,
            channel: None,
            name: None,
            data: None,
            except: None,
            content: Some(Content::Event),
        };
        for pair in fields.as_array()?.chunks_exact(2) {
            let text = pair[1].as_text();
            match pair[0].as_text() {
                Some(b"t") => {
                    read.stored =
                        text.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
                }
                Some(b"c") => read.channel = text,
                Some(b"n") => read.name = text,
                Some(b"d") => read.data = text,
                Some(b"x") => read.except = text.and_then(read_except),
                Some(b"k") => read.content = Content::read(text),
                _ => {}
            }
        }
        Some(read)
    }

    fn received(&self, place: Place) -> Received {
        Received {
            place,
            content: self.content.unwrap_or_default(),
            channel: self.channel.unwrap_or_default().to_vec(),
            name: self.name.map(<[u8]>::to_vec),
            data: self.data.unwrap_or_default().to_vec(),
            except: self.except,
            unix_ms: self.stored.unwrap_or(0),
        }
    }
}

/// How a record of TLS begins that says what went wrong (RFC 8446, 5.1).
const TLS_ALERT: u8 = 21;
const TLS_MAJOR: u8 = 3;
const WANTS_TLS: &str = "the server speaks TLS at this port; write rediss:// in cluster";

const REPLICA: &str = "the server is a replica, which takes no events";

const SENTINEL: &str = "the server is a Sentinel, which has no events and is not asked who has them; write the master and its \
                        replicas in cluster, the one that is promoted is found";

/// Whether a server says so of itself when it is greeted.
fn is_greeted_by(greeting: &Value<'_>, name: &str, value: &str) -> bool {
    let pairs = greeting.as_array().unwrap_or_default().chunks_exact(2);
    let mut named = pairs.filter(|pair| pair[0].as_text() == Some(name.as_bytes()));
    named.any(|pair| pair[1].as_text() == Some(value.as_bytes()))
}

/// Errors of a server that answers reads and does not write, for a while. `ORDER` is of our script.
const REFUSALS: [&str; 4] = ["OOM", "MISCONF", "NOREPLICAS", "ORDER"];

/// The server's words, when it does not write for a while. Redis 6 has a script's error behind words about the script, and
/// Redis 7 before them.
fn words_of_refusal(text: &str) -> Option<&str> {
    let code = |code: &&str| {
        let at = text.find(&format!("{code} "))?;
        (at == 0 || text[..at].ends_with(": -")).then_some(at)
    };
    let at = REFUSALS.iter().find_map(code)?;
    let words = &text[at..];
    let end = words.find(" script: ").unwrap_or(words.len());
    Some(words[..end].trim_end_matches(['.', ',']))
}

/// What an error means, in which a command may be that has the password.
/// When the log has stored a record, as scripts have it.
fn stored(ms: Option<u64>) -> String {
    ms.map_or(String::new(), |ms| ms.to_string())
}

fn refusal(pending: &Pending, text: &str) -> String {
    if let Some(words) = words_of_refusal(text) {
        return format!("the server refuses to write: {words}");
    }
    let code = text.split(' ').next().unwrap_or_default();
    match (pending, code) {
        (Pending::Hello, "ERR") => {
            "the server does not speak RESP3, the protocol of Redis 6 and later".to_owned()
        }
        (_, "READONLY") => REPLICA.to_owned(),
        (_, "MOVED") => "another server of this Redis Cluster has the log".to_owned(),
        (_, "EPOCH") => "the log was made anew".to_owned(),
        (_, "LOST") => "the log has lost messages that were read".to_owned(),
        _ => format!("the server says {text}"),
    }
}
