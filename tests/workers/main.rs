//! Master and workers: supervision, signals, start and stop.

mod drain;
mod stall;
mod start;
mod supervision;
