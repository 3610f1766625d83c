//! Client and server read the same plaintext for every split of the bytes.

use fermata_io::sys::fake::{Fake, Faults};
use proptest::prelude::*;

use super::Owner;
use super::fake::Client;

/// Turns after which an echo has arrived or is lost.
const TURNS_MAX: usize = 20_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn an_echo_survives_any_split(
        seed in any::<u64>(),
        messages in prop::collection::vec(0_usize..40_000, 1..6),
        cuts in prop::collection::vec(1_usize..20_000, 1..8),
        window in 1_usize..100_000,
        recv_bytes in 1_usize..70_000,
        is_tiny in prop::bool::weighted(0.2),
    ) {
        let fake = Fake::new(seed);
        fake.set_faults(Faults::HARMLESS);
        let listener = fake.listen();
        let mut owner = Owner::new(fake.clone(), listener, true);
        owner.echoes = true;
        owner.recv_bytes = recv_bytes;
        let mut client = Client::new(fake.connect(listener));
        client.peer.set_window(window.max(500));

        let messages: Vec<usize> = if is_tiny { vec![100] } else { messages };
        let mut wanted = Vec::new();
        for (number, length) in messages.iter().enumerate() {
            wanted.extend((0..*length).map(|at| (at % 251 + number) as u8));
        }
        let mut unsent = Vec::new();
        let mut written = 0;
        let mut cuts = cuts.iter().cycle();
        for _ in 0..TURNS_MAX {
            if !client.tls.is_handshaking() && written < wanted.len() {
                use std::io::Write;
                let end = wanted.len().min(written + 30_000);
                written += client.tls.writer().write(&wanted[written..end]).expect("memory");
            }
            unsent.extend(client.pull());
            let cut = if is_tiny { 1 } else { *cuts.next().expect("endless") };
            let piece: Vec<u8> = unsent.drain(..cut.min(unsent.len())).collect();
            client.peer.write(&piece);
            owner.turn();
            client.push();
            if client.received.len() >= wanted.len() && !client.tls.is_handshaking() {
                break;
            }
        }
        prop_assert!(client.received == wanted, "{} of {} bytes", client.received.len(), wanted.len());
        prop_assert!(owner.the_only().1.received == wanted);
    }
}
