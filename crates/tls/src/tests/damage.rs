//! An attacker changes the bytes of a client. The server reads exactly the bytes that the client wrote, up to the
//! change, and then serves the next client.

use fermata_io::sys::fake::{Fake, FakePeer};
use proptest::prelude::*;

use super::Owner;
use super::fake::Client;

/// Turns after which all progress has been made.
const TURNS_MAX: usize = 400;

/// Bytes that the client writes, in several records.
const PLAIN_BYTES: usize = 20_000;

#[derive(Debug, Clone)]
enum Change {
    Flip(u8),
    Drop(usize),
    Insert(Vec<u8>),
    /// Repeats bytes that have already passed.
    Repeat(usize),
    End,
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (1_u8..=255).prop_map(Change::Flip),
        2 => (1_usize..400).prop_map(Change::Drop),
        2 => prop::collection::vec(any::<u8>(), 1..400).prop_map(Change::Insert),
        // Complete records that need no key: alerts, cipher changes, empty handshakes, oversized lengths.
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

/// Bytes of a client in transit, changed at one position.
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
    fn reads_only_what_the_client_wrote(
        seed in any::<u64>(),
        at in 0_usize..PLAIN_BYTES + 1_000,
        is_early in prop::bool::weighted(0.5),
        change in changes(),
    ) {
        let fake = Fake::new(seed);
        let listener = fake.listen();
        let mut owner = Owner::new(fake.clone(), listener, true);
        let mut client = Client::new(fake.connect(listener));
        // Half of the changes are in the handshake, which has some hundred bytes.
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
            // All bytes arrive only if nothing was changed, or the change came after them.
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
