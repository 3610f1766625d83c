//! See `fermata_grip::fuzzing::grip_events`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_grip::fuzzing::grip_events(data));
