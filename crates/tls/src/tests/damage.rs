//! Whatever somebody in the middle does to the bytes of a client, what the server reads is what the client wrote, up to
//! where it was damaged; and the next client is served.

use fermata_io::sys::fake::{Fake, FakePeer};
use proptest::prelude::*;

use super::Owner;
use super::fake::Client;

/// Turns after which everything that goes on has gone on.
const TURNS_MAX: usize = 400;

/// What a client writes, in several records.
const PLAIN_BYTES: usize = 20_000;

#[derive(Debug, Clone)]
enum Change {
    Flip(u8),
    Drop(usize),
    Insert(Vec<u8>),
    /// Bytes that have passed come once more.
    Repeat(usize),
    End,
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (1_u8..=255).prop_map(Change::Flip),
        2 => (1_usize..400).prop_map(Change::Drop),
        2 => prop::collection::vec(any::<u8>(), 1..400).prop_map(Change::Insert),
        // Whole records that no key is needed for: alerts, changes of cipher, empty handshakes, oversized lengths.
        1 => prop::sample::select(vec![
            vec![21, 3, 3, 0, 2, 1, 0],
            vec![20, 3, 3, 0, 1, 1],
            vec![22, 3, 3, 0, 0],
            vec![23, 3, 3, 0xff, 0xff],
        ]).prop_map(Change::Insert),
        1 => (1_usize..3_000).prop_map(Change::Repeat),
        1 => Just(Change::End),
    ]
}

/// The bytes of a client on their way, changed at one place.
struct Middle {
    passed: Vec<u8>,
    at: usize,
    change: Option<Change>,
    has_ended: bool,
}

impl Middle {
    fn pass(&mut self, bytes: &[u8], peer: &FakePeer) {
        for &byte in bytes {
            if self.has_ended {
                return;
            }
            if self.passed.len() < self.at || self.change.is_none() {
                self.passed.push(byte);
                peer.write(&[byte]);
                continue;
            }
            match self.change.take().expect("there is one") {
                Change::Flip(bits) => peer.write(&[byte ^ bits]),
                Change::Drop(0) => peer.write(&[byte]),
                Change::Drop(count) => self.change = Some(Change::Drop(count - 1)),
                Change::Insert(more) => {
                    peer.write(&more);
                    peer.write(&[byte]);
                }
                Change::Repeat(count) => {
                    let from = self.passed.len().saturating_sub(count);
                    peer.write(&self.passed[from..]);
                    peer.write(&[byte]);
                }
                Change::End => {
                    self.has_ended = true;
                    peer.close();
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_read_is_what_was_written(
        seed in any::<u64>(),
        at in 0_usize..PLAIN_BYTES + 1_000,
        is_early in prop::bool::weighted(0.5),
        change in changes(),
    ) {
        let fake = Fake::new(seed);
        let listener = fake.listen();
        let mut owner = Owner::new(fake.clone(), listener, true);
        let mut client = Client::new(fake.connect(listener));
        // Half of them in the handshake, which takes some hundred bytes.
        let at = if is_early { at % 700 } else { at };
        let mut middle = Middle { passed: Vec::new(), at, change: Some(change), has_ended: false };
        let wanted: Vec<u8> = (0..PLAIN_BYTES).map(|at| (at % 251) as u8).collect();
        let mut written = 0;
        for _ in 0..TURNS_MAX {
            if !client.tls.is_handshaking() && written < wanted.len() {
                use std::io::Write;
                let end = wanted.len().min(written + 3_000);
                written += client.tls.writer().write(&wanted[written..end]).expect("memory");
            }
            let bytes = client.pull();
            middle.pass(&bytes, &client.peer);
            owner.turn_until_quiet();
            let arrived = client.peer.read();
            let mut rest = &arrived[..];
            let mut is_refused = false;
            while !rest.is_empty() && !is_refused {
                client.tls.read_tls(&mut rest).expect("memory can be read");
                is_refused = client.tls.process_new_packets().is_err();
            }
            if is_refused || bytes.is_empty() && arrived.is_empty() {
                break;
            }
        }
        for connection in owner.connections.values() {
            prop_assert!(wanted.starts_with(&connection.received), "{} bytes", connection.received.len());
            // Everything only where nothing was changed, or after everything.
            let is_whole = connection.received.len() == wanted.len();
            prop_assert!(!is_whole || middle.passed.len() >= PLAIN_BYTES);
        }

        owner.echoes = true;
        let mut next = Client::new(fake.connect(listener));
        next.shake_hands(&mut owner);
        next.write(b"still there?");
        owner.turn_until_quiet();
        next.push();
        prop_assert_eq!(&next.received[..], b"still there?");
    }
}
