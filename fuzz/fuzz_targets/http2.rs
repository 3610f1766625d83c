//! See `fermata_proto::fuzzing::http2`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_proto::fuzzing::http2(data));
