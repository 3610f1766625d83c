//! See `fermata_proto::fuzzing::ws`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_proto::fuzzing::ws(data));
