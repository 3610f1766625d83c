//! Master and workers: supervision, signals, start and stop.

mod drain;
mod start;
mod supervision;
