//! Cost of a record in the bridge: sent, acknowledged by NATS and read back. Sockets, outbox and ring are not part of it.
//!
//! `cargo bench -p fermata-cluster` prints nanoseconds. `python3 -m bench cluster --instructions` counts instructions with
//! callgrind; it passes the number of rounds as an argument.

use std::fmt::Write as _;
use std::time::Instant;

use fermata_cluster::{Address, Bridge, Content, Event, Options, Outgoing};

/// Records per batch, all in flight at the same time.
const BATCH: u64 = 256;
const BATCHES: u64 = 40;
const ROUNDS: u64 = 100;
/// Data of an event.
const DATA: [u8; 100] = [b'x'; 100];
const CHANNEL: &[u8] = b"news.42";
const INBOX: &str = "_INBOX.0123456789abcdef";
const OUTBOX: &str = "0123456789abcdef0123456789abcdef";

struct Fixture {
    bridge: Bridge,
    seq: u64,
    bytes: String,
}

impl Fixture {
    /// Connects a bridge until its log is live.
    fn new() -> Fixture {
        let options = Options {
            servers: Address::list("nats://a").expect("an address"),
            prefix: "fermata".to_owned(),
            inbox: INBOX.to_owned(),
            outbox: OUTBOX.to_owned(),
            zero_unix_ms: 1_795_000_000_000,
            age_ms_max: 600_000,
            bytes_max: 1 << 20,
            replicas: 1,
            events_max: 1_000,
            past_max: 1_000,
            application: None,
        };
        let mut fixture = Fixture {
            bridge: Bridge::new(options, None, None, 0),
            seq: 0,
            bytes: String::new(),
        };
        fixture.bridge.handle_time(0);
        fixture.take();
        fixture.bridge.handle_connected(0);
        fixture.receive("INFO {\"headers\":true,\"jetstream\":true,\"max_payload\":65536}\r\n");
        let stream = "{\"created\":\"2026-11-22T14:00:00Z\",\"config\":{},\"state\":{\"first_seq\":1,\"last_seq\":0}}";
        fixture.answer("STREAM.INFO.", stream);
        fixture.answer("CONSUMER.CREATE.", "{\"num_pending\":0}");
        fixture.answer("STREAM.INFO.", stream);
        assert!(fixture.bridge.can_send());
        fixture
    }

    fn receive(&mut self, text: &str) {
        self.bridge.handle_input(text.as_bytes(), 0);
        self.take();
    }

    /// Answers the last request.
    fn answer(&mut self, what: &str, text: &str) {
        let (_, rest) = self.bytes.rsplit_once(what).expect("it asks");
        let to = rest.split(' ').nth(1).expect("a reply subject").to_owned();
        self.receive(&format!("MSG {to} 1 {}\r\n{text}\r\n", text.len()));
    }

    fn take(&mut self) {
        while self.bridge.poll_event().is_some() {}
        let out = std::mem::take(self.bridge.transmit());
        if !out.is_empty() {
            self.bytes = String::from_utf8(out).expect("the protocol of NATS is text");
        }
    }

    /// Sends a batch of records, acknowledges it and delivers it.
    fn play(&mut self, batch: &Batch) {
        for _ in 0..BATCH {
            self.seq += 1;
            let record = Outgoing {
                outbox: self.seq,
                content: Content::Event,
                channel: CHANNEL,
                name: Some(b"message"),
                data: &DATA,
                except: None,
            };
            self.bridge.send(&record, 0);
        }
        self.bridge.transmit().clear();
        self.bridge.handle_input(batch.answers.as_bytes(), 0);
        self.bridge.handle_input(batch.delivered.as_bytes(), 0);
        let mut records = 0;
        while let Some(event) = self.bridge.poll_event() {
            records += u64::from(matches!(event, Event::Record(_)));
        }
        assert_eq!(records, BATCH);
    }
}

/// Acknowledgements and deliveries of a batch.
#[derive(Default)]
struct Batch {
    answers: String,
    delivered: String,
}

impl Batch {
    fn new(number: u64) -> Batch {
        let mut batch = Batch::default();
        let data = std::str::from_utf8(&DATA).expect("text");
        for outbox in number * BATCH + 1..=(number + 1) * BATCH {
            let ack = format!("{{\"stream\":\"FERMATA_fermata\", \"seq\":{outbox}}}");
            let ack_len = ack.len();
            let _ = write!(
                batch.answers,
                "MSG {INBOX}.r.p.{outbox} 1 {ack_len}\r\n{ack}\r\n"
            );
            let head = format!(
                "NATS/1.0\r\nNats-Msg-Id: {OUTBOX}-{outbox}\r\nFermata-Name: message\r\n\r\n"
            );
            let (head_len, len) = (head.len(), head.len() + data.len());
            let to = format!(
                "$JS.ACK.FERMATA_fermata.abcdefgh.1.{outbox}.{outbox}.1795534867123456789.0"
            );
            let _ = write!(
                batch.delivered,
                "HMSG fermata.news 11 {to} {head_len} {len}\r\n{head}{data}\r\n"
            );
        }
        batch
    }
}

fn main() {
    let given = std::env::args().find_map(|it| it.parse().ok());
    let batches: Vec<Batch> = (0..BATCHES).map(Batch::new).collect();
    let mut best = u128::MAX;
    for _ in 0..given.unwrap_or(ROUNDS) {
        let mut fixture = Fixture::new();
        let began = Instant::now();
        for batch in &batches {
            fixture.play(batch);
        }
        best = best.min(began.elapsed().as_nanos() / u128::from(BATCHES * BATCH));
    }
    println!("a record, there and back {best:>8} ns");
}
