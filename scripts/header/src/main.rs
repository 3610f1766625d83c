//! Writes ext/fermata_core.h.
fn main() {}
