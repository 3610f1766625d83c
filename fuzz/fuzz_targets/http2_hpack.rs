//! See `fermata_proto::fuzzing::http2_hpack`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_proto::fuzzing::http2_hpack(data));
