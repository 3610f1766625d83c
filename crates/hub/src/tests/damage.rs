//! Arbitrary values in shared words: no panic, no endless loop.

use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::*;
use crate::{Departure, Presence};

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..300u64,
        Just(u64::MAX),
        (0..64u32).prop_map(|bit| 1 << bit),
        (0..20u64, 0..20u64).prop_map(|(low, high)| low | high << 32)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn damage_is_survived(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), value(), any::<bool>()), 1..40),
        tail_words in any::<bool>(),
    ) {
        let config = small();
        let words = memory(&config);
        let mut ring = Ring::create(words, &config, 7, 99).unwrap();
        let mut reader = ring.worker_started(&worker(0), 0).unwrap();
        for round in 0..30u8 {
            let _ = ring.publish(&worker(0), &message(&[b'a' + round % 3], &[round; 30]), 0);
            let presence = Presence { channel: b"a", user: &[round % 9], info: &[round], source: &[round % 3], announce: Some(b""), announce_changed: None };
            let _ = ring.join(&worker(0), &presence, 0);
            if round % 2 == 0 {
                read_all(&mut reader);
                let _ = ring.leave(&worker(0), b"a", &[round % 9], Departure::Lost, 0);
            }
        }
        let presence_at = words.len() - 8 * crate::tests::presence_sizes().0;
        for (index, value, flip) in damage {
            // Damage mostly the first words, which matter most. The lock word is excluded: a live owner in it causes a time-out,
            // which another test covers.
            let at = if tail_words { index.index(words.len()) } else { index.index(presence_at.min(400)) };
            let word = &words[at];
            if at == 8 {
                continue;
            }
            let value = if flip { word.load(Ordering::Relaxed) ^ value } else { value };
            word.store(value, Ordering::Relaxed);
        }
        let mut record = Record::empty();
        for round in 0..20u8 {
            for _ in 0..20 {
                let _ = reader.read_next(&mut record);
            }
            let _ = ring.publish(&worker(0), &message(&[b'a' + round % 3], &[round; 30]), 10);
            let _ = replay(&mut ring, &[b"a", b"b"], &everything());
            let presence = Presence { channel: b"a", user: &[round % 9], info: &[round], source: &[round % 3], announce: Some(b""), announce_changed: None };
            let _ = ring.join(&worker(0), &presence, 10);
            let _ = ring.leave(&worker(0), b"a", &[round % 7], Departure::Lost, 10);
            let _ = ring.sweep(&worker(0), 500, &mut |_, _, _, _| {});
            let _ = ring.members(&worker(0), b"a", usize::MAX, &mut |_, _, _| {});
            let _ = ring.wake_list();
            let _ = ring.worker_ended(&master(), 1, worker(1).pid, 10);
            let _ = ring.worker_started(&worker(2), 10);
        }
        let _ = Ring::open(words, &config);
        // A new ring in the same memory works.
        let mut ring = Ring::create(words, &config, 8, 99).unwrap();
        let mut reader = ring.worker_started(&worker(0), 0).unwrap();
        for user in 0..config.members_max as u8 {
            let presence = Presence { channel: b"a", user: &[user], info: b"i", source: &[user % 2], announce: Some(b""), announce_changed: None };
            ring.join(&worker(0), &presence, 0).unwrap();
            ring.check_presence();
        }
        prop_assert_eq!(read_all(&mut reader).len(), config.members_max as usize);
        prop_assert_eq!(members(&mut ring, b"a").len(), config.members_max as usize);
    }
}
