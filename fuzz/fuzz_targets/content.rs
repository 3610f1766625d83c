//! See `fermata_proto::fuzzing::content`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_proto::fuzzing::content(data));
