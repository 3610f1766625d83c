//! Master and workers: supervision, signals, start and stop.

mod drain;
mod share;
mod stall;
mod start;
mod supervision;
