//! `fermata load` against a real server.

#![forbid(unsafe_code)]

mod exchange;
mod faults;
mod outputs;
mod subscribe;
mod support;
mod websocket;
