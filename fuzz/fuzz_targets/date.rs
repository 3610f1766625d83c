//! See `fermata_proto::fuzzing::http_date`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_proto::fuzzing::http_date(data));
