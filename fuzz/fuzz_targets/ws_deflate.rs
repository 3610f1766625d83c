//! See `fermata_proto::fuzzing::ws_deflate`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_proto::fuzzing::ws_deflate(data));
