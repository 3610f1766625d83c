//! The fake driver for tests: virtual clock, scripted peers, seeded faults.
