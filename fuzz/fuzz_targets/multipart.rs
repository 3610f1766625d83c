//! See `fermata_proto::fuzzing::multipart`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_proto::fuzzing::multipart(data));
