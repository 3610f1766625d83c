//! Tests of sockets that missed more messages than their queue holds. They receive all messages in
//! order, with bounded memory, while other sockets are served.

use fermata_proto::ws::frame::Opcode;
use proptest::prelude::*;

use super::sockets::{Client, text};
use super::websocket_deflate::{OFFER, Party};
use super::*;
use crate::Since;
use crate::websocket::{Format, Join};

/// Publishes numbers of 500 digits to `channel`; returns the ids.
fn publish(rig: &mut Rig, channel: &str, numbers: std::ops::Range<usize>) -> Vec<String> {
    let ids = numbers
        .map(|n| rig.publish(channel, &format!("{n:0500}")))
        .collect();
    rig.run();
    ids
}

fn join(rig: &mut Rig, channel: &str, since: &str, format: Format) {
    let socket = *rig.open.last().expect("an open socket");
    let join = Join {
        channel: channel.as_bytes(),
        user: None,
        info: None,
        announces: true,
        since: Since::After(since.as_bytes()),
        formerly: None,
        format,
    };
    rig.worker.join_channel(socket, &join).expect("it is open");
    rig.run();
}

fn queued(rig: &Rig) -> usize {
    let connections = &rig.worker.net.connections;
    let indexes = connections.indexes().into_iter();
    indexes
        .map(|index| connections.at(index).map_or(0, |it| it.out.len()))
        .sum()
}

fn numbers(texts: &[String]) -> Vec<usize> {
    texts.iter().map(|n| n.parse().expect("digits")).collect()
}

/// A client of any kind.
enum Reader {
    Plain(Client),
    Compressed(Box<Party>),
}

impl Reader {
    fn open(rig: &mut Rig, path: &str) -> Reader {
        match path {
            "/small" => Reader::Compressed(Box::new(Party::open(rig, path, OFFER, false))),
            "/smaller" => Reader::Compressed(Box::new(Party::open(rig, path, OFFER, true))),
            _ => Reader::Plain(rig.socket(path)),
        }
    }

    fn peer(&self) -> &FakePeer {
        match self {
            Reader::Plain(client) => &client.peer,
            Reader::Compressed(party) => &party.peer,
        }
    }

    fn texts(&mut self) -> Vec<String> {
        match self {
            Reader::Plain(client) => client.texts(),
            Reader::Compressed(party) => party.texts(),
        }
    }

    /// Reads until no messages arrive.
    fn drain(&mut self, rig: &mut Rig, got: &mut Vec<String>) {
        let mut silent = 0;
        while silent < 3 {
            rig.run();
            let waits = self.peer().arrived_bytes() > 0;
            got.extend(self.texts());
            silent = if waits { 0 } else { silent + 1 };
        }
    }
}

#[test]
fn replays_more_than_a_queue_without_a_gap() {
    for path in ["/ws", "/refuse", "/small", "/smaller"] {
        let mut settings = settings();
        settings.queue_bytes_max = 4096;
        settings.channel_log_bytes_max = 4096;
        let mut rig = Rig::with(1, settings);
        let first = publish(&mut rig, "room", 0..600).swap_remove(0);
        let mut reader = Reader::open(&mut rig, path);
        reader.peer().set_window(700);
        join(&mut rig, "room", &first, Format::Data);
        let mut got = Vec::new();
        for n in 600..900 {
            // The channel's log is too small for the messages published during the replay, so the
            // worker reads them from the ring, too.
            publish(&mut rig, "room", n..n + 1);
            got.extend(reader.texts());
            let queued = queued(&rig);
            assert!(queued < 40 * 1024, "{queued} bytes queued for one client");
        }
        reader.drain(&mut rig, &mut got);
        assert_eq!(numbers(&got), (1..900).collect::<Vec<_>>(), "{path}");
        // It is live.
        assert_eq!(rig.worker.channels.local.subscriptions(), 1);
        publish(&mut rig, "room", 900..901);
        reader.drain(&mut rig, &mut got);
        assert_eq!(numbers(&got).last(), Some(&900), "{path}");
        if let Reader::Compressed(party) = &reader {
            assert_eq!(party.compressed, 900, "pieces are compressed, too");
        }
    }
}

#[test]
fn sends_other_messages_while_a_channel_resumes() {
    let mut rig = Rig::new(2);
    let first = publish(&mut rig, "a", 0..300).swap_remove(0);
    let second = publish(&mut rig, "b", 1000..1300).swap_remove(0);
    let mut client = rig.socket("/ws");
    client.peer.write(&text("/join live"));
    rig.run();
    client.peer.set_window(5000);
    join(&mut rig, "a", &first, Format::Json);
    join(&mut rig, "b", &second, Format::Json);
    rig.publish("live", "from the third channel");
    client.peer.write(&text("to the program"));
    let mut texts = Vec::new();
    while texts.len() < 2 + 2 * 299 + 2 {
        rig.run();
        texts.extend(client.texts());
    }
    let at = |wanted: &str| texts.iter().position(|text| text == wanted);
    for wanted in ["from the third channel", "to the program"] {
        assert!(
            at(wanted).is_some_and(|at| at < 200),
            "{wanted}: {:?}",
            at(wanted)
        );
    }
    for channel in ["a", "b"] {
        let name = format!("{{\"channel\":\"{channel}\"");
        let events: Vec<serde_json::Value> = texts
            .iter()
            .filter(|text| text.starts_with(&name))
            .map(|text| serde_json::from_str(text).expect("JSON"))
            .collect();
        let (position, messages) = events.split_last().expect("events");
        assert_eq!(position["event"], "position");
        let base = if channel == "a" { 0 } else { 1000 };
        let expected: Vec<String> = (base + 1..base + 300)
            .map(|n| format!("{n:0500}"))
            .collect();
        let got: Vec<&str> = messages
            .iter()
            .map(|event| event["data"].as_str().expect("text"))
            .collect();
        assert_eq!(got, expected);
    }
}

#[test]
fn leaves_and_counts_a_channel_that_is_not_live_yet() {
    let mut rig = Rig::with(
        3,
        Settings {
            channels_per_hold_max: 2,
            ..settings()
        },
    );
    let first = publish(&mut rig, "a", 0..300).swap_remove(0);
    let mut client = rig.socket("/ws");
    let socket = rig.open[0];
    client.peer.set_window(600);
    join(&mut rig, "a", &first, Format::Data);
    join(&mut rig, "b", &first, Format::Data);
    client.texts();
    for command in ["/join a", "/join c"] {
        client.peer.write(&text(command));
        rig.run();
    }
    client.peer.set_window(100_000);
    for channel in ["a", "b"] {
        rig.worker
            .leave_channel(socket, channel.as_bytes())
            .expect("it is open");
    }
    let mut texts = Vec::new();
    for _ in 0..20 {
        rig.run();
        texts.extend(client.texts());
    }
    let errors: Vec<&String> = texts
        .iter()
        .filter(|text| text.starts_with("error"))
        .collect();
    assert!(errors[0].contains("already") && errors[1].contains("channels_per_hold_max"));
    assert!(
        texts.len() < 100,
        "the rest of the piece and no more: {}",
        texts.len()
    );
    assert_eq!(rig.worker.channels.local.subscriptions(), 0);
    rig.publish("a", "after");
    rig.run();
    assert_eq!(client.frames(), []);
    // The socket may rejoin, and disconnect during the replay.
    client.peer.set_window(600);
    join(&mut rig, "a", &first, Format::Data);
    client.peer.reset();
    rig.run();
    assert_eq!(rig.worker.net.sockets_len(), 0);
    assert_eq!(rig.worker.channels.local.subscriptions(), 0);
}

#[test]
fn does_not_replay_a_sockets_own_messages() {
    let mut rig = Rig::new(4);
    let first = publish(&mut rig, "room", 0..200).swap_remove(0);
    let client = rig.socket("/ws");
    client.peer.set_window(600);
    join(&mut rig, "room", &first, Format::Data);
    client.peer.write(&text("/say room mine"));
    rig.run();
    publish(&mut rig, "room", 200..201);
    let mut reader = Reader::Plain(client);
    let mut got = Vec::new();
    reader.drain(&mut rig, &mut got);
    assert_eq!(numbers(&got), (1..201).collect::<Vec<_>>());
}

#[test]
fn applies_the_policy_to_a_socket_slower_than_the_ring() {
    for (path, is_closed) in [("/refuse", false), ("/close", true)] {
        let mut rig = Rig::new(5);
        let first = publish(&mut rig, "room", 0..100).swap_remove(0);
        let mut client = rig.socket(path);
        client.peer.set_window(3000);
        join(&mut rig, "room", &first, Format::Json);
        // The ring of these tests holds 1 MiB.
        publish(&mut rig, "room", 100..3100);
        client.peer.set_window(1 << 20);
        let mut frames = Vec::new();
        for _ in 0..200 {
            rig.run();
            frames.extend(client.frames());
        }
        let (opcode, payload) = frames.last().expect("frames");
        let gaps = frames
            .iter()
            .filter(|(_, payload)| String::from_utf8_lossy(payload).contains("too slow"))
            .count();
        if is_closed {
            assert_eq!((gaps, *opcode), (0, Opcode::Close));
            assert_eq!(payload[..2], 1013u16.to_be_bytes());
        } else {
            assert_eq!(gaps, 1, "{path}");
            let last: serde_json::Value = serde_json::from_slice(payload).expect("JSON");
            assert_eq!(last["event"], "position");
            assert_eq!(rig.worker.channels.local.subscriptions(), 1);
        }
    }
}

proptest! {
    #![proptest_config(cases(40))]

    /// At any reading speed, each message of a channel arrives once and in order, from past to live
    /// messages.
    #[test]
    fn joins_past_and_live_messages_seamlessly(
        seed: u64,
        way in 0..3usize,
        past in 1..300usize,
        steps in proptest::collection::vec((0..6usize, 50..20_000usize), 1..30),
    ) {
        let path = ["/ws", "/small", "/smaller"][way];
        let mut rig = Rig::new(seed);
        let first = publish(&mut rig, "room", 0..past).swap_remove(0);
        let mut reader = Reader::open(&mut rig, path);
        reader.peer().set_window(300);
        join(&mut rig, "room", &first, Format::Data);
        let (mut got, mut next) = (Vec::new(), past);
        for (count, window) in steps {
            publish(&mut rig, "room", next..next + count);
            next += count;
            reader.peer().set_window(window);
            rig.run();
            got.extend(reader.texts());
        }
        reader.peer().set_window(1 << 20);
        reader.drain(&mut rig, &mut got);
        prop_assert_eq!(numbers(&got), (1..next).collect::<Vec<_>>());
    }
}
