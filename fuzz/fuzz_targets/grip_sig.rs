//! See `fermata_grip::fuzzing::grip_sig`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_grip::fuzzing::grip_sig(data));
