//! Master and workers: supervision, signals, start and stop.

mod drain;
mod identity;
mod io;
mod share;
mod stall;
mod start;
mod supervision;
