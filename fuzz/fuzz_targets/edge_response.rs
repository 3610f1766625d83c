//! See `fermata_edge::fuzzing::edge_response`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_edge::fuzzing::edge_response(data));
