//! See `fermata_proto::fuzzing::path`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_proto::fuzzing::path(data));
