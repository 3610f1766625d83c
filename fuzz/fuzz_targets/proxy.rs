//! See `fermata_proto::fuzzing::proxy`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_proto::fuzzing::proxy(data));
