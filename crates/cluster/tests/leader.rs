//! A replicated NATS stream: descriptions by a new leader or by a former one, wrong copies, and batches of older messages.

#![allow(clippy::unwrap_used)]

mod options;

use fermata_cluster::{Bridge, Content, Event, Options, Outgoing, PastEntry, PastRequest, Place};
use options::options;

const INFO: &str = "INFO {\"version\":\"2.11.0\",\"headers\":true,\"jetstream\":true,\"max_payload\":4096,\"cluster\":\"c\"}\r\n";
const ALONE: &str =
    "INFO {\"version\":\"2.11.0\",\"headers\":true,\"jetstream\":true,\"max_payload\":4096}\r\n";
/// Nanoseconds since the leader of a healthy stream last received messages from its copies.
const HEALTHY: [u64; 2] = [30_000_000, 900_000_000];

/// A bridge, and a fake server whose responses the test writes line by line.
struct Fixture {
    /// INFO of the server.
    info: &'static str,
    bridge: Bridge,
    now_ms: u64,
    sent: String,
    events: Vec<Event>,
    /// True if the leader reports when it stored its last message.
    has_times: bool,
    /// True if copies return stored messages (`allow_direct`).
    allows_direct: bool,
}

impl Fixture {
    fn new(reached: Option<Place>) -> Fixture {
        Fixture::behind(reached, None)
    }

    /// Creates a bridge that has read up to a position, with the stored time of the message at that position.
    fn behind(reached: Option<Place>, reached_ms: Option<u64>) -> Fixture {
        Fixture::with(reached, reached_ms, None, INFO)
    }

    /// Starts a bridge with a standalone server.
    fn alone() -> Fixture {
        Fixture::with(None, None, None, ALONE)
    }

    /// Starts a bridge with the fingerprints of an application.
    fn of_application(application: &str) -> Fixture {
        Fixture::with(None, None, Some(application.to_owned()), INFO)
    }

    fn with(
        reached: Option<Place>,
        reached_ms: Option<u64>,
        application: Option<String>,
        info: &'static str,
    ) -> Fixture {
        let options = Options {
            age_ms_max: 600_000,
            replicas: 3,
            application,
            ..options("nats://a,nats://b")
        };
        let mut fixture = Fixture {
            info,
            bridge: Bridge::new(options, reached, reached_ms, 0),
            now_ms: 0,
            sent: String::new(),
            events: Vec::new(),
            has_times: false,
            allows_direct: false,
        };
        fixture.pass(0);
        fixture.connect();
        fixture
    }

    fn connect(&mut self) {
        self.bridge.handle_connected(self.now_ms);
        self.receive(self.info);
    }

    fn pass(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        loop {
            self.now_ms = end.min(self.bridge.due_ms().max(self.now_ms));
            if self.bridge.due_ms() > end {
                break;
            }
            self.bridge.handle_time(self.now_ms);
            self.take();
        }
        self.now_ms = end;
    }

    fn receive(&mut self, text: &str) {
        self.bridge.handle_input(text.as_bytes(), self.now_ms);
        self.take();
    }

    fn take(&mut self) {
        while let Some(event) = self.bridge.poll_event() {
            self.events.push(event);
        }
        let sent = std::mem::take(self.bridge.transmit());
        self.sent += &String::from_utf8(sent).unwrap();
    }

    /// Returns the reply subject of the last request that contains these words. The request must not have been used before.
    fn asked(&mut self, words: &str) -> Option<String> {
        let (_, rest) = self.sent.rsplit_once(words)?;
        let reply = rest.split(' ').nth(1).unwrap().to_owned();
        self.sent.clear();
        Some(reply)
    }

    fn answer(&mut self, to: &str, text: &str) {
        self.receive(&format!("MSG {to} 1 {}\r\n{text}\r\n", text.len()));
    }

    /// Describes the stream.
    fn describe(&mut self, last: u64, active: [u64; 2]) {
        let to = self.asked("STREAM.INFO.").expect("it asks for the stream");
        let [first, second] = active;
        let time = if self.has_times {
            format!(",\"last_ts\":\"1970-01-01T00:00:{last}.5Z\"")
        } else {
            String::new()
        };
        let text = format!(
            "{{\"created\":\"2026-11-22T14:00:00Z\",\"config\":{{\"allow_direct\":{}}},\"state\":{{\"first_seq\":1,\"last_seq\":{last}{time}}},\
             \"cluster\":{{\"leader\":\"l\",\"replicas\":[{{\"active\":{first}}},{{\"active\":{second}}}]}}}}",
            self.allows_direct,
        );
        self.answer(&to, &text);
    }

    /// Sends all responses until the log is live.
    fn begin(&mut self, last: u64) {
        self.describe(last, HEALTHY);
        self.make_consumer();
        self.describe(last, HEALTHY);
    }

    /// Delivers message number `count` of the consumer. Its stored time is `late_ms` later than the leader's.
    fn deliver(&mut self, count: u64, seq: u64, late_ms: u64) {
        let unix_ns = (seq * 1_000 + 500 + late_ms) * 1_000_000;
        let to = format!("$JS.ACK.S.C.1.{seq}.{count}.{unix_ns}.0");
        self.receive(&format!("MSG app.c 1 {to} 1\r\nx\r\n"));
    }

    /// Opens the next connection when it is due.
    fn connect_again(&mut self) {
        assert!(self.has(|it| matches!(it, Event::Disconnect)));
        self.events.clear();
        self.pass(3_000);
        assert!(self.has(|it| matches!(it, Event::Connect(_))));
        self.connect();
    }

    fn records(&self) -> Vec<u64> {
        let records = self.events.iter().filter_map(|it| match it {
            Event::Record(record) => Some(record.place.seq),
            _ => None,
        });
        records.collect()
    }

    fn make_consumer(&mut self) {
        let to = self.asked("CONSUMER.CREATE.").expect("it makes a consumer");
        self.answer(&to, "{\"num_pending\":0}");
    }

    /// Acknowledges a record or a probe.
    fn acknowledge(&mut self, seq: u64) {
        let to = self.asked("HPUB app.").expect("it publishes");
        self.answer(&to, &format!("{{\"seq\":{seq}}}"));
    }

    fn send(&mut self, outbox: u64) {
        let record = Outgoing {
            outbox,
            content: Content::Event,
            channel: b"c",
            name: None,
            data: b"x",
            except: None,
        };
        self.bridge.send(&record, self.now_ms);
        self.take();
    }

    fn has(&self, is_it: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(is_it)
    }

    fn is_away(&self) -> bool {
        let told = self.events.iter().rev();
        let mut told = told.filter(|it| matches!(it, Event::Ready | Event::Away(_)));
        !matches!(told.next(), Some(Event::Ready))
    }
}

/// Returns a position in the log that `begin` describes.
fn place(seq: u64) -> Place {
    let mut fixture = Fixture::new(None);
    fixture.begin(seq);
    let begin = fixture.events.iter().find_map(|it| match it {
        Event::Begin(place) => Some(*place),
        _ => None,
    });
    Place {
        seq,
        ..begin.unwrap()
    }
}

/// Regression test: the shorter description counted as a loss, and all clients received a gap.
#[test]
fn probes_a_new_leader_for_the_end() {
    let mut fixture = Fixture::new(Some(place(70)));
    fixture.describe(60, HEALTHY);
    assert!(!fixture.sent.contains("STREAM.UPDATE"));
    // NATS drops requests while the stream has no leader.
    let asked = |fixture: &mut Fixture| fixture.asked("HPUB app.-").expect("it asks for the end");
    asked(&mut fixture);
    fixture.pass(600);
    let to = asked(&mut fixture);
    let refused = "{\"error\":{\"code\":503,\"description\":\"no quorum\"}}";
    fixture.answer(&to, refused);
    fixture.pass(600);
    fixture.acknowledge(71);
    fixture.begin(71);
    assert!(!fixture.has(|it| matches!(it, Event::Begin(_) | Event::Notice(_))));
    assert!(!fixture.sent.contains("STREAM.UPDATE"));
}

#[test]
fn confirmed_loss_is_a_gap() {
    let mut fixture = Fixture::new(Some(place(70)));
    fixture.describe(60, HEALTHY);
    fixture.acknowledge(61);
    fixture.describe(61, HEALTHY);
    assert!(fixture.asked("STREAM.UPDATE.").is_some());
    assert!(fixture.has(|it| matches!(it, Event::Notice(_))));
}

/// A stream that is full refuses the probe.
#[test]
fn unconfirmed_loss_is_a_gap_after_a_timeout() {
    let mut fixture = Fixture::new(Some(place(70)));
    let refused = "{\"error\":{\"code\":503,\"description\":\"maximum messages exceeded\"}}";
    while !fixture.sent.contains("STREAM.UPDATE.") {
        assert!(fixture.now_ms < 60_000, "it is never decided");
        if fixture.sent.contains("STREAM.INFO.") {
            fixture.describe(60, HEALTHY);
        } else if let Some(to) = fixture.asked("HPUB app.-") {
            fixture.answer(&to, refused);
        }
        let connects = fixture.events.len();
        fixture.pass(100);
        if fixture.events[connects..]
            .iter()
            .any(|it| matches!(it, Event::Connect(_)))
        {
            fixture.connect();
        }
    }
    assert!(fixture.now_ms >= 30_000, "after {} ms", fixture.now_ms);
}

#[test]
fn leaves_a_leader_without_majority() {
    let cut_off = [8_000_000_000, 9_000_000_000];
    let mut fixture = Fixture::new(None);
    fixture.describe(60, cut_off);
    assert!(fixture.has(|it| matches!(it, Event::Disconnect)));
    // One of three copies may be offline.
    let mut fixture = Fixture::new(None);
    fixture.describe(60, [30_000_000, 9_000_000_000]);
    fixture.make_consumer();
    fixture.describe(60, HEALTHY);
    assert!(fixture.has(|it| matches!(it, Event::Begin(_))));
    // The leader loses its majority during reading, but the consumer still delivers.
    let beat = "NATS/1.0 100 Idle Heartbeat\r\n\r\n";
    let beat = format!("HMSG _INBOX.a.c1 11 {0} {0}\r\n{beat}\r\n", beat.len());
    for second in 0..10 {
        fixture.pass(1_000);
        if fixture.has(|it| matches!(it, Event::Disconnect)) {
            assert!((6..=8).contains(&second), "in second {second}");
            return;
        }
        fixture.receive(&beat);
        fixture.receive("PONG\r\n");
        fixture.describe(60, if second < 5 { HEALTHY } else { cut_off });
    }
    panic!("it counts as ready");
}

/// Records sent to a disconnected leader are lost. Its successor stored later records first.
#[test]
fn sends_nothing_after_an_unacknowledged_record() {
    let mut fixture = Fixture::new(Some(place(60)));
    fixture.begin(60);
    assert!(!fixture.is_away());
    fixture.send(1);
    fixture.pass(1_100);
    fixture.describe(60, HEALTHY);
    fixture.pass(800);
    assert!(fixture.bridge.can_send());
    fixture.pass(200);
    assert!(fixture.is_away() && !fixture.bridge.can_send());
    // The log was only slow. It now acknowledges the record.
    let to = "_INBOX.a.r.p.1";
    fixture.answer(to, "{\"seq\":61}");
    assert!(!fixture.is_away() && fixture.bridge.can_send());
}

/// A bridge that has read message 50, and a log that ends at 52.
fn fixture_behind_50() -> Fixture {
    let mut fixture = Fixture::behind(Some(place(50)), Some(50_500));
    fixture.has_times = true;
    fixture.describe(52, HEALTHY);
    fixture.make_consumer();
    fixture.describe(52, HEALTHY);
    fixture
}

/// NATS 2.9.10 creates such wrong copies on a server that was cut off.
#[test]
fn leaves_a_different_copy_before_passing_it_on() {
    let mut fixture = fixture_behind_50();
    fixture.deliver(1, 50, 0);
    fixture.deliver(2, 51, 0);
    assert!(fixture.is_away() && fixture.records().is_empty());
    fixture.deliver(3, 52, 700);
    fixture.connect_again();
    fixture.describe(52, HEALTHY);
    assert!(!fixture.sent.contains("STREAM.UPDATE"), "nothing was told");
    fixture.make_consumer();
    fixture.describe(52, HEALTHY);
    (50..=52).for_each(|seq| fixture.deliver(seq - 49, seq, 0));
    assert_eq!(fixture.records(), [51, 52]);
    assert!(!fixture.is_away() && !fixture.has(|it| matches!(it, Event::Begin(_))));
}

#[test]
fn leaves_a_copy_without_the_leaders_last_message() {
    let mut fixture = fixture_behind_50();
    fixture.deliver(1, 50, 0);
    fixture.deliver(2, 51, 0);
    fixture.pass(4_999);
    assert!(!fixture.has(|it| matches!(it, Event::Disconnect)));
    fixture.pass(1);
    fixture.connect_again();
    assert!(fixture.sent.contains("STREAM.INFO"));
}

/// The messages of the copy have other positions in the log. Their ids must not be mistaken for ids of other messages.
#[test]
fn different_copy_after_passing_it_on_starts_an_epoch() {
    for comes_first in [true, false] {
        let mut fixture = fixture_behind_50();
        (50..=52).for_each(|seq| fixture.deliver(seq - 49, seq, 0));
        assert!(!fixture.is_away());
        fixture.deliver(4, 53, if comes_first { 9 } else { 0 });
        fixture.pass(1_100);
        assert!(!fixture.has(|it| matches!(it, Event::Disconnect)));
        fixture.describe(if comes_first { 53 } else { 54 }, HEALTHY);
        if !comes_first {
            fixture.deliver(5, 54, 9);
        }
        fixture.connect_again();
        fixture.describe(60, HEALTHY);
        assert!(fixture.asked("STREAM.UPDATE.").is_some());
    }
}

#[test]
fn leaves_a_copy_that_stops_behind_the_leader() {
    let mut fixture = fixture_behind_50();
    (50..=52).for_each(|seq| fixture.deliver(seq - 49, seq, 0));
    let beat = "NATS/1.0 100 Idle Heartbeat\r\n\r\n";
    let beat = format!("HMSG _INBOX.a.c1 11 {0} {0}\r\n{beat}\r\n", beat.len());
    for second in 0..10 {
        fixture.pass(1_000);
        if fixture.has(|it| matches!(it, Event::Disconnect)) {
            assert!((5..=7).contains(&second), "in second {second}");
            fixture.connect_again();
            fixture.describe(60, HEALTHY);
            assert!(!fixture.sent.contains("STREAM.UPDATE"), "nothing is wrong");
            return;
        }
        fixture.receive(&beat);
        fixture.receive("PONG\r\n");
        fixture.describe(54 + second, HEALTHY);
    }
    panic!("it counts as ready");
}

#[test]
fn different_message_is_a_loss_only_if_the_leader_has_it() {
    for is_lost in [true, false] {
        let mut fixture = fixture_behind_50();
        fixture.deliver(1, 50, 3);
        fixture.deliver(2, 51, 3);
        assert!(!fixture.has(|it| matches!(it, Event::Disconnect)));
        fixture.deliver(3, 52, if is_lost { 0 } else { 3 });
        fixture.connect_again();
        fixture.describe(52, HEALTHY);
        assert_eq!(fixture.sent.contains("STREAM.UPDATE"), is_lost);
    }
}

/// Regression test: this hole was reported as a gap, although other copies have the messages.
#[test]
fn reads_a_hole_from_another_copy() {
    let mut fixture = fixture_behind_50();
    (50..=52).for_each(|seq| fixture.deliver(seq - 49, seq, 0));
    fixture.deliver(4, 57, 0);
    fixture.connect_again();
    fixture.describe(57, HEALTHY);
    assert!(
        fixture.sent.contains("\"opt_start_seq\":52"),
        "{}",
        fixture.sent
    );
    assert!(!fixture.has(|it| matches!(it, Event::Begin(_))));
}

impl Fixture {
    /// Returns a live bridge with a request for the events 1 to 40 of a channel.
    fn asked_for_the_past() -> Fixture {
        let mut fixture = Fixture::new(None);
        fixture.allows_direct = true;
        fixture.begin(0);
        let request = PastRequest {
            id: 7,
            epoch: place(1).epoch,
            after: 0,
            up_to: 40,
            oldest_ms: 0,
            events_max: 100,
            bytes_max: 1 << 20,
            channels: vec![b"c".to_vec()],
            events_only: true,
        };
        fixture.events.clear();
        fixture.bridge.ask_past(request, fixture.now_ms);
        fixture.take();
        fixture
    }

    /// Responds to a batch request with the messages at these positions, and the number of messages that follow.
    fn give_many(&mut self, places: &[u64], left: usize) {
        let to = self.asked("DIRECT.GET.").expect("it asks for many");
        for (at, seq) in places.iter().enumerate() {
            let pending = left + places.len() - at - 1;
            let head = format!(
                "NATS/1.0\r\nNats-Sequence: {seq}\r\nNats-Time-Stamp: 1970-01-01T00:00:{:02}Z\r\nNats-Num-Pending: {pending}\r\n\r\n",
                seq % 60
            );
            self.give(&to, &head, "x");
        }
        self.give(
            &to,
            &format!("NATS/1.0 204 EOB\r\nNats-Num-Pending: {left}\r\n\r\n"),
            "",
        );
    }

    fn give(&mut self, to: &str, head: &str, data: &str) {
        let (head_len, len) = (head.len(), head.len() + data.len());
        self.receive(&format!("HMSG {to} 1 {head_len} {len}\r\n{head}{data}\r\n"));
    }

    /// Returns a message from the leader, or reports that the leader has no such message.
    fn lead(&mut self, seq: Option<u64>) {
        let to = self.asked("STREAM.MSG.GET.").expect("it asks the leader");
        let text = match seq {
            Some(seq) => format!(
                "{{\"message\":{{\"seq\":{seq},\"data\":\"eA==\",\"time\":\"1970-01-01T00:00:59Z\"}}}}"
            ),
            None => "{\"error\":{\"code\":404,\"description\":\"none\"}}".to_owned(),
        };
        self.answer(&to, &text);
    }

    /// Returns the positions of the result, with `true` for gaps.
    fn found(&mut self) -> Vec<(u64, bool)> {
        let to = self
            .asked("STREAM.INFO.")
            .expect("it asks what the stream has");
        let text = "{\"created\":\"2026-11-22T14:00:00Z\",\"config\":{},\"state\":{\"first_seq\":1,\"last_seq\":50}}";
        self.answer(&to, text);
        let entries = self.events.iter().find_map(|it| match it {
            Event::Past { id: 7, entries } => Some(entries),
            _ => None,
        });
        let entries = entries.expect("it is answered").iter();
        let found = entries.map(|it| match it {
            PastEntry::Event(received) => (received.place.seq, false),
            PastEntry::Gap(up_to) => (*up_to, true),
        });
        found.collect()
    }
}

/// Regression test: the bridge sent a separate request for each message.
#[test]
fn requests_older_messages_in_batches() {
    let mut fixture = Fixture::asked_for_the_past();
    assert!(fixture.sent.contains("{\"batch\":16,"), "{}", fixture.sent);
    let first: Vec<u64> = (1..=16).collect();
    fixture.give_many(&first, 30);
    assert!(fixture.sent.contains("{\"batch\":32,"), "{}", fixture.sent);
    assert!(fixture.sent.contains("\"seq\":17"), "{}", fixture.sent);
    let second: Vec<u64> = (17..=45).collect();
    // Messages after the 40th are discarded.
    fixture.give_many(&second, 1);
    let expected: Vec<(u64, bool)> = (1..=40).map(|seq| (seq, false)).collect();
    assert_eq!(fixture.found(), expected);
}

/// A lagging copy reports its own end, which is not the end of the log.
#[test]
fn asks_the_leader_for_messages_a_copy_lacks() {
    for tail in [&[3, 4][..], &[3, 4, 5, 6]] {
        let mut fixture = Fixture::asked_for_the_past();
        fixture.give_many(tail, 0);
        fixture.lead(Some(20));
        fixture.lead(Some(30));
        fixture.lead(None);
        let expected = tail.iter().chain(&[20, 30]).map(|seq| (*seq, false));
        assert_eq!(fixture.found(), expected.collect::<Vec<_>>());
    }
    let mut fixture = Fixture::asked_for_the_past();
    let to = fixture.asked("DIRECT.GET.").expect("it asks for many");
    fixture.give(&to, "NATS/1.0 404 Message Not Found\r\n\r\n", "");
    fixture.lead(Some(20));
    fixture.lead(Some(41));
    assert_eq!(fixture.found(), [(20, false)]);
}

#[test]
fn requests_single_messages_without_batches() {
    // Three cases: no server responds, an older server responds, and the user has no permission.
    let mut fixture = Fixture::asked_for_the_past();
    let to = fixture.asked("DIRECT.GET.").expect("it asks for many");
    fixture.give(&to, "NATS/1.0 503\r\n\r\n", "");
    fixture.lead(Some(20));
    fixture.lead(None);
    assert_eq!(fixture.found(), [(20, false)]);

    let mut fixture = Fixture::asked_for_the_past();
    for seq in [10, 20] {
        let to = fixture.asked("DIRECT.GET.").expect("it asks for many");
        let head = format!(
            "NATS/1.0\r\nNats-Sequence: {seq}\r\nNats-Time-Stamp: 1970-01-01T00:00:01Z\r\n\r\n"
        );
        fixture.give(&to, &head, "x");
    }
    let to = fixture.asked("DIRECT.GET.").expect("it asks for many");
    fixture.give(&to, "NATS/1.0 404 Message Not Found\r\n\r\n", "");
    fixture.lead(None);
    assert_eq!(fixture.found(), [(10, false), (20, false)]);

    let mut fixture = Fixture::asked_for_the_past();
    fixture.asked("DIRECT.GET.").expect("it asks for many");
    fixture.receive(
        "-ERR 'Permissions Violation for Publish to \"$JS.API.DIRECT.GET.FERMATA_app\"'\r\n",
    );
    fixture.pass(1);
    fixture.lead(Some(20));
    fixture.lead(None);
    assert_eq!(fixture.found(), [(20, false)]);
    assert!(!fixture.has(|it| matches!(it, Event::Notice(_))));
}

/// The responses arrive before the PONG of a later PING, even if the connection is slow.
#[test]
fn repeats_a_request_when_a_later_ping_is_answered() {
    let mut fixture = Fixture::asked_for_the_past();
    let to = fixture.asked("DIRECT.GET.").expect("it asks for many");
    fixture.pass(2_500);
    assert!(!fixture.sent.contains("DIRECT.GET."), "{}", fixture.sent);
    let pings = fixture.sent.matches("PING\r\n").count();
    assert!(pings > 0);
    fixture.receive(&"PONG\r\n".repeat(pings));
    assert_eq!(fixture.asked("DIRECT.GET.").as_deref(), Some(&to[..]));
    // The server was slow, and responds to both requests.
    let given = |seq: u64| {
        let head = "NATS/1.0\r\nNats-Time-Stamp: 1970-01-01T00:00:01Z\r\nNats-Num-Pending: 1\r\n";
        format!("{head}Nats-Sequence: {seq}\r\n\r\n")
    };
    for seq in [10, 20, 10, 20, 30] {
        fixture.give(&to, &given(seq), "x");
    }
    for _ in 0..2 {
        let end = "NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n\r\n";
        fixture.give(&to, end, "");
    }
    fixture.lead(None);
    assert_eq!(fixture.found(), [(10, false), (20, false), (30, false)]);
}

#[test]
fn leaves_a_server_in_lame_duck_mode() {
    let mut fixture = Fixture::new(None);
    fixture.begin(0);
    assert!(fixture.has(|it| matches!(it, Event::Ready)));
    fixture.receive("INFO {\"cluster\":\"c\"}\r\n");
    assert!(!fixture.has(|it| matches!(it, Event::Disconnect)));
    fixture.receive("INFO {\"cluster\":\"c\",\"ldm\":true}\r\n");
    let server = fixture.events.iter().find_map(|it| match it {
        Event::Away(cause) => Some(cause.clone()),
        _ => None,
    });
    assert_eq!(
        server.as_deref(),
        Some("a:4222: the server is about to stop (lame-duck mode)")
    );
    fixture.connect_again();
}

/// A stream that was deleted and recreated assigns positions from the first one on.
#[test]
fn rejects_a_position_assigned_twice() {
    for is_duplicate in [false, true] {
        let mut fixture = Fixture::new(None);
        fixture.begin(0);
        let record = Outgoing {
            outbox: 1,
            content: Content::Event,
            channel: b"c",
            name: None,
            data: b"x",
            except: None,
        };
        fixture.bridge.send(&record, fixture.now_ms);
        fixture.take();
        fixture.receive("MSG _INBOX.a.r.p.1 1 24\r\n{\"stream\":\"S\", \"seq\":9 }\r\n");
        let accepted = |it: &Event| matches!(it, Event::Accepted { .. });
        assert!(fixture.has(accepted));
        fixture.events.clear();
        fixture.bridge.send(
            &Outgoing {
                outbox: 2,
                ..record
            },
            fixture.now_ms,
        );
        fixture.take();
        let text = if is_duplicate {
            "{\"stream\":\"S\", \"seq\":2,\"duplicate\":true}"
        } else {
            "{\"stream\":\"S\", \"seq\":2}"
        };
        fixture.receive(&format!(
            "MSG _INBOX.a.r.p.2 1 {}\r\n{text}\r\n",
            text.len()
        ));
        // A duplicate has the position of the first copy.
        assert_eq!(fixture.has(accepted), is_duplicate);
        assert_eq!(
            fixture.has(|it| matches!(it, Event::Disconnect)),
            !is_duplicate
        );
        assert_eq!(fixture.has(|it| matches!(it, Event::Rewind)), !is_duplicate);
    }
}

#[test]
fn deleted_stream_is_requested_immediately() {
    let mut fixture = Fixture::new(None);
    fixture.begin(0);
    fixture.receive("MSG $JS.EVENT.ADVISORY.STREAM.DELETED.FERMATA_app 4 2\r\n{}\r\n");
    fixture.connect_again();
}

#[test]
fn reports_standalone_servers_once() {
    let mut fixture = Fixture::alone();
    fixture.begin(0);
    let told =
        |it: &Event| matches!(it, Event::Notice(text) if text.contains("in no NATS cluster"));
    assert!(fixture.has(told));
}

#[test]
fn skips_records_of_another_application() {
    let mut fixture = Fixture::of_application("ours,both");
    fixture.begin(0);
    for (count, application, is_own) in [
        (1, "other,both", true),
        (2, "other", false),
        (3, "ours", true),
    ] {
        fixture.events.clear();
        let head = format!("NATS/1.0\r\nFermata-App: {application}\r\n\r\n");
        let to = format!("$JS.ACK.S.C.1.{count}.{count}.1000.0");
        let (head_len, len) = (head.len(), head.len() + 1);
        fixture.receive(&format!(
            "HMSG app.c 1 {to} {head_len} {len}\r\n{head}x\r\n"
        ));
        assert_eq!(fixture.has(|it| matches!(it, Event::Record(_))), is_own);
        assert_eq!(fixture.has(|it| matches!(it, Event::Intruder(_))), !is_own);
        assert_eq!(fixture.has(|it| matches!(it, Event::Passed(_))), !is_own);
    }
}
