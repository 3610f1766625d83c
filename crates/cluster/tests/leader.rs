//! A stream of NATS that several servers have: what a leader says that has just been elected, or that is one no more.

#![allow(clippy::unwrap_used)]

mod options;

use fermata_cluster::{Bridge, Content, Event, Options, Outgoing, PastEntry, PastRequest, Place};
use options::options;

const INFO: &str =
    "INFO {\"version\":\"2.11.0\",\"headers\":true,\"jetstream\":true,\"max_payload\":4096}\r\n";
/// How long the leader of a healthy stream has not heard of its copies, in nanoseconds.
const HEALTHY: [u64; 2] = [30_000_000, 900_000_000];

/// A bridge that is spoken to word by word.
struct Talk {
    bridge: Bridge,
    now_ms: u64,
    sent: String,
    events: Vec<Event>,
    /// Whether the leader says when it has stored its last message.
    has_times: bool,
    /// Whether copies give messages, too.
    allows_direct: bool,
}

impl Talk {
    fn new(reached: Option<Place>) -> Talk {
        Talk::behind(reached, None)
    }

    /// One that has read everything up to a place, and knows when the message there was stored.
    fn behind(reached: Option<Place>, reached_ms: Option<u64>) -> Talk {
        let options = Options {
            age_ms_max: 600_000,
            replicas: 3,
            ..options("nats://a,nats://b")
        };
        let mut talk = Talk {
            bridge: Bridge::new(options, reached, reached_ms, 0),
            now_ms: 0,
            sent: String::new(),
            events: Vec::new(),
            has_times: false,
            allows_direct: false,
        };
        talk.pass(0);
        talk.connect();
        talk
    }

    fn connect(&mut self) {
        self.bridge.handle_connected(self.now_ms);
        self.hear(INFO);
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

    fn hear(&mut self, text: &str) {
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

    /// Where the answer goes to the last request with these words, which was not asked for before.
    fn asked(&mut self, words: &str) -> Option<String> {
        let (_, rest) = self.sent.rsplit_once(words)?;
        let reply = rest.split(' ').nth(1).unwrap().to_owned();
        self.sent.clear();
        Some(reply)
    }

    fn answer(&mut self, to: &str, text: &str) {
        self.hear(&format!("MSG {to} 1 {}\r\n{text}\r\n", text.len()));
    }

    /// Answers the question about the stream.
    fn describe(&mut self, last: u64, active: [u64; 2]) {
        let to = self.asked("STREAM.INFO.").expect("it asks for the stream");
        let [first, second] = active;
        let time = match self.has_times {
            true => format!(",\"last_ts\":\"1970-01-01T00:00:{last}.5Z\""),
            false => String::new(),
        };
        let text = format!(
            "{{\"created\":\"x\",\"config\":{{\"allow_direct\":{}}},\"state\":{{\"first_seq\":1,\"last_seq\":{last}{time}}},\
             \"cluster\":{{\"leader\":\"l\",\"replicas\":[{{\"active\":{first}}},{{\"active\":{second}}}]}}}}",
            self.allows_direct,
        );
        self.answer(&to, &text);
    }

    /// Everything until the log is live.
    fn begin(&mut self, last: u64) {
        self.describe(last, HEALTHY);
        self.make_consumer();
        self.describe(last, HEALTHY);
    }

    /// The consumer gives a message, its `count`th, that was stored so many milliseconds after when the leader has stored it.
    fn deliver(&mut self, count: u64, seq: u64, late_ms: u64) {
        let unix_ns = (seq * 1_000 + 500 + late_ms) * 1_000_000;
        let to = format!("$JS.ACK.S.C.1.{seq}.{count}.{unix_ns}.0");
        self.hear(&format!("MSG app.c 1 {to} 1\r\nx\r\n"));
    }

    /// The next connection, when it is time.
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

    /// Of a record or of a message without content.
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

/// What `begin` makes known: which log it is.
fn place(seq: u64) -> Place {
    let mut talk = Talk::new(None);
    talk.begin(seq);
    let begin = talk.events.iter().find_map(|it| match it {
        Event::Begin(place) => Some(*place),
        _ => None,
    });
    Place {
        seq,
        ..begin.unwrap()
    }
}

/// It was taken for a loss: all clients were told of a gap.
#[test]
fn a_leader_that_does_not_know_the_end_yet_is_asked_for_it() {
    let mut talk = Talk::new(Some(place(70)));
    talk.describe(60, HEALTHY);
    assert!(!talk.sent.contains("STREAM.UPDATE"));
    // NATS forgets what comes while nobody leads.
    let asked = |talk: &mut Talk| talk.asked("HPUB app.-").expect("it asks for the end");
    asked(&mut talk);
    talk.pass(600);
    let to = asked(&mut talk);
    let refused = "{\"error\":{\"code\":503,\"description\":\"no quorum\"}}";
    talk.answer(&to, refused);
    talk.pass(600);
    talk.acknowledge(71);
    talk.begin(71);
    assert!(!talk.has(|it| matches!(it, Event::Begin(_) | Event::Notice(_))));
    assert!(!talk.sent.contains("STREAM.UPDATE"));
}

#[test]
fn an_end_that_is_lost_is_a_gap_when_the_leader_has_said_so() {
    let mut talk = Talk::new(Some(place(70)));
    talk.describe(60, HEALTHY);
    talk.acknowledge(61);
    talk.describe(61, HEALTHY);
    assert!(talk.asked("STREAM.UPDATE.").is_some());
    assert!(talk.has(|it| matches!(it, Event::Notice(_))));
}

/// A stream that is full and refuses messages cannot say.
#[test]
fn an_end_that_is_not_told_for_long_is_lost() {
    let mut talk = Talk::new(Some(place(70)));
    let refused = "{\"error\":{\"code\":503,\"description\":\"maximum messages exceeded\"}}";
    while !talk.sent.contains("STREAM.UPDATE.") {
        assert!(talk.now_ms < 60_000, "it is never decided");
        if talk.sent.contains("STREAM.INFO.") {
            talk.describe(60, HEALTHY);
        } else if let Some(to) = talk.asked("HPUB app.-") {
            talk.answer(&to, refused);
        }
        let connects = talk.events.len();
        talk.pass(100);
        if talk.events[connects..]
            .iter()
            .any(|it| matches!(it, Event::Connect(_)))
        {
            talk.connect();
        }
    }
    assert!(talk.now_ms >= 30_000, "after {} ms", talk.now_ms);
}

#[test]
fn a_leader_without_most_of_its_servers_is_left() {
    let cut_off = [8_000_000_000, 9_000_000_000];
    let mut talk = Talk::new(None);
    talk.describe(60, cut_off);
    assert!(talk.has(|it| matches!(it, Event::Disconnect)));
    // One copy of three may be away.
    let mut talk = Talk::new(None);
    talk.describe(60, [30_000_000, 9_000_000_000]);
    talk.make_consumer();
    talk.describe(60, HEALTHY);
    assert!(talk.has(|it| matches!(it, Event::Begin(_))));
    // It loses them while it is read from: the consumer lives on.
    let beat = "NATS/1.0 100 Idle Heartbeat\r\n\r\n";
    let beat = format!("HMSG _INBOX.a.c1 11 {0} {0}\r\n{beat}\r\n", beat.len());
    for second in 0..10 {
        talk.pass(1_000);
        if talk.has(|it| matches!(it, Event::Disconnect)) {
            assert!((6..=8).contains(&second), "in second {second}");
            return;
        }
        talk.hear(&beat);
        talk.hear("PONG\r\n");
        talk.describe(60, if second < 5 { HEALTHY } else { cut_off });
    }
    panic!("it counts as ready");
}

/// Records that were sent to a leader that has gone are lost, and the next one took those that were sent later before them.
#[test]
fn nothing_is_sent_after_what_is_not_acknowledged() {
    let mut talk = Talk::new(Some(place(60)));
    talk.begin(60);
    assert!(!talk.is_away());
    talk.send(1);
    talk.pass(1_100);
    talk.describe(60, HEALTHY);
    talk.pass(800);
    assert!(talk.bridge.can_send());
    talk.pass(200);
    assert!(talk.is_away() && !talk.bridge.can_send());
    // The log was slow.
    let to = "_INBOX.a.r.p.1";
    talk.answer(to, "{\"seq\":61}");
    assert!(!talk.is_away() && talk.bridge.can_send());
}

/// One that has read message 50 and is described the log up to 52.
fn talk_behind_50() -> Talk {
    let mut talk = Talk::behind(Some(place(50)), Some(50_500));
    talk.has_times = true;
    talk.describe(52, HEALTHY);
    talk.make_consumer();
    talk.describe(52, HEALTHY);
    talk
}

/// NATS 2.9.10 leaves such copies behind where a server was cut off.
#[test]
fn a_copy_that_has_other_messages_than_its_leader_is_left_before_it_is_told() {
    let mut talk = talk_behind_50();
    talk.deliver(1, 50, 0);
    talk.deliver(2, 51, 0);
    assert!(talk.is_away() && talk.records().is_empty());
    talk.deliver(3, 52, 700);
    talk.connect_again();
    talk.describe(52, HEALTHY);
    assert!(!talk.sent.contains("STREAM.UPDATE"), "nothing was told");
    talk.make_consumer();
    talk.describe(52, HEALTHY);
    (50..=52).for_each(|seq| talk.deliver(seq - 49, seq, 0));
    assert_eq!(talk.records(), [51, 52]);
    assert!(!talk.is_away() && !talk.has(|it| matches!(it, Event::Begin(_))));
}

#[test]
fn a_copy_without_the_leaders_last_message_is_left() {
    let mut talk = talk_behind_50();
    talk.deliver(1, 50, 0);
    talk.deliver(2, 51, 0);
    talk.pass(4_999);
    assert!(!talk.has(|it| matches!(it, Event::Disconnect)));
    talk.pass(1);
    talk.connect_again();
    assert!(talk.sent.contains("STREAM.INFO"));
}

/// What it has given has other places in the log: ids of it must not be taken for those.
#[test]
fn a_copy_that_differs_when_it_was_told_is_a_new_epoch() {
    for comes_first in [true, false] {
        let mut talk = talk_behind_50();
        (50..=52).for_each(|seq| talk.deliver(seq - 49, seq, 0));
        assert!(!talk.is_away());
        talk.deliver(4, 53, if comes_first { 9 } else { 0 });
        talk.pass(1_100);
        assert!(!talk.has(|it| matches!(it, Event::Disconnect)));
        talk.describe(if comes_first { 53 } else { 54 }, HEALTHY);
        if !comes_first {
            talk.deliver(5, 54, 9);
        }
        talk.connect_again();
        talk.describe(60, HEALTHY);
        assert!(talk.asked("STREAM.UPDATE.").is_some());
    }
}

#[test]
fn a_copy_that_stops_behind_its_leader_is_left() {
    let mut talk = talk_behind_50();
    (50..=52).for_each(|seq| talk.deliver(seq - 49, seq, 0));
    let beat = "NATS/1.0 100 Idle Heartbeat\r\n\r\n";
    let beat = format!("HMSG _INBOX.a.c1 11 {0} {0}\r\n{beat}\r\n", beat.len());
    for second in 0..10 {
        talk.pass(1_000);
        if talk.has(|it| matches!(it, Event::Disconnect)) {
            assert!((5..=7).contains(&second), "in second {second}");
            talk.connect_again();
            talk.describe(60, HEALTHY);
            assert!(!talk.sent.contains("STREAM.UPDATE"), "nothing is wrong");
            return;
        }
        talk.hear(&beat);
        talk.hear("PONG\r\n");
        talk.describe(54 + second, HEALTHY);
    }
    panic!("it counts as ready");
}

#[test]
fn another_message_at_its_place_is_a_loss_only_where_the_copy_is_the_leaders() {
    for is_lost in [true, false] {
        let mut talk = talk_behind_50();
        talk.deliver(1, 50, 3);
        talk.deliver(2, 51, 3);
        assert!(!talk.has(|it| matches!(it, Event::Disconnect)));
        talk.deliver(3, 52, if is_lost { 0 } else { 3 });
        talk.connect_again();
        talk.describe(52, HEALTHY);
        assert_eq!(talk.sent.contains("STREAM.UPDATE"), is_lost);
    }
}

/// It was a gap, though the others have it.
#[test]
fn a_hole_in_a_copy_is_read_elsewhere() {
    let mut talk = talk_behind_50();
    (50..=52).for_each(|seq| talk.deliver(seq - 49, seq, 0));
    talk.deliver(4, 57, 0);
    talk.connect_again();
    talk.describe(57, HEALTHY);
    assert!(talk.sent.contains("\"opt_start_seq\":52"), "{}", talk.sent);
    assert!(!talk.has(|it| matches!(it, Event::Begin(_))));
}

impl Talk {
    /// A live bridge that was asked for the events of a channel from 1 to 40.
    fn asked_for_the_past() -> Talk {
        let mut talk = Talk::new(None);
        talk.allows_direct = true;
        talk.begin(0);
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
        talk.events.clear();
        talk.bridge.ask_past(request, talk.now_ms);
        talk.take();
        talk
    }

    /// Answers a question for many messages, with those at these places and how many are left behind them.
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
        self.hear(&format!("HMSG {to} 1 {head_len} {len}\r\n{head}{data}\r\n"));
    }

    /// The leader gives a message, or has none.
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

    /// The places of what was found, and `true` for what is missing.
    fn found(&mut self) -> Vec<(u64, bool)> {
        let to = self
            .asked("STREAM.INFO.")
            .expect("it asks what the stream has");
        let text = "{\"created\":\"x\",\"config\":{},\"state\":{\"first_seq\":1,\"last_seq\":50}}";
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

/// It was one question for each.
#[test]
fn many_older_messages_are_asked_for_at_once() {
    let mut talk = Talk::asked_for_the_past();
    assert!(talk.sent.contains("{\"batch\":16,"), "{}", talk.sent);
    let first: Vec<u64> = (1..=16).collect();
    talk.give_many(&first, 30);
    assert!(talk.sent.contains("{\"batch\":32,"), "{}", talk.sent);
    assert!(talk.sent.contains("\"seq\":17"), "{}", talk.sent);
    let second: Vec<u64> = (17..=45).collect();
    // Those behind the 40th were not asked for.
    talk.give_many(&second, 1);
    let expected: Vec<(u64, bool)> = (1..=40).map(|seq| (seq, false)).collect();
    assert_eq!(talk.found(), expected);
}

/// A copy may lag behind: what it says of its end is not taken for that of the log.
#[test]
fn a_leader_is_asked_for_older_messages_that_a_copy_lacks() {
    for tail in [&[3, 4][..], &[3, 4, 5, 6]] {
        let mut talk = Talk::asked_for_the_past();
        talk.give_many(tail, 0);
        talk.lead(Some(20));
        talk.lead(Some(30));
        talk.lead(None);
        let expected = tail.iter().chain(&[20, 30]).map(|seq| (*seq, false));
        assert_eq!(talk.found(), expected.collect::<Vec<_>>());
    }
    let mut talk = Talk::asked_for_the_past();
    let to = talk.asked("DIRECT.GET.").expect("it asks for many");
    talk.give(&to, "NATS/1.0 404 Message Not Found\r\n\r\n", "");
    talk.lead(Some(20));
    talk.lead(Some(41));
    assert_eq!(talk.found(), [(20, false)]);
}

#[test]
fn older_messages_come_one_by_one_where_nobody_gives_many() {
    // Nobody answers, an older server does, and the user may not ask so.
    let mut talk = Talk::asked_for_the_past();
    let to = talk.asked("DIRECT.GET.").expect("it asks for many");
    talk.give(&to, "NATS/1.0 503\r\n\r\n", "");
    talk.lead(Some(20));
    talk.lead(None);
    assert_eq!(talk.found(), [(20, false)]);

    let mut talk = Talk::asked_for_the_past();
    for seq in [10, 20] {
        let to = talk.asked("DIRECT.GET.").expect("it asks for many");
        let head = format!(
            "NATS/1.0\r\nNats-Sequence: {seq}\r\nNats-Time-Stamp: 1970-01-01T00:00:01Z\r\n\r\n"
        );
        talk.give(&to, &head, "x");
    }
    let to = talk.asked("DIRECT.GET.").expect("it asks for many");
    talk.give(&to, "NATS/1.0 404 Message Not Found\r\n\r\n", "");
    talk.lead(None);
    assert_eq!(talk.found(), [(10, false), (20, false)]);

    let mut talk = Talk::asked_for_the_past();
    talk.asked("DIRECT.GET.").expect("it asks for many");
    talk.hear("-ERR 'Permissions Violation for Publish to \"$JS.API.DIRECT.GET.FERMATA_app\"'\r\n");
    talk.pass(1);
    talk.lead(Some(20));
    talk.lead(None);
    assert_eq!(talk.found(), [(20, false)]);
    assert!(!talk.has(|it| matches!(it, Event::Notice(_))));
}

/// What answers questions stands before what answers a later `PING`: on a slow connection behind much else.
#[test]
fn a_question_about_older_messages_counts_as_forgotten_when_a_later_ping_is_answered() {
    let mut talk = Talk::asked_for_the_past();
    let to = talk.asked("DIRECT.GET.").expect("it asks for many");
    talk.pass(2_500);
    assert!(!talk.sent.contains("DIRECT.GET."), "{}", talk.sent);
    let pings = talk.sent.matches("PING\r\n").count();
    assert!(pings > 0);
    talk.hear(&"PONG\r\n".repeat(pings));
    assert_eq!(talk.asked("DIRECT.GET.").as_deref(), Some(&to[..]));
    // The server has taken its time, and answers both.
    let given = |seq: u64| {
        let head = "NATS/1.0\r\nNats-Time-Stamp: 1970-01-01T00:00:01Z\r\nNats-Num-Pending: 1\r\n";
        format!("{head}Nats-Sequence: {seq}\r\n\r\n")
    };
    for seq in [10, 20, 10, 20, 30] {
        talk.give(&to, &given(seq), "x");
    }
    for _ in 0..2 {
        let end = "NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n\r\n";
        talk.give(&to, end, "");
    }
    talk.lead(None);
    assert_eq!(talk.found(), [(10, false), (20, false), (30, false)]);
}
