//! The table of cases, by subject.

mod aco;
mod built_in;
mod clients;
mod control;
mod faults;
mod filters;
mod hardening;
mod holds;
mod injection;
mod json;
mod links;
mod over_http;
mod proxy;
mod reliable;
mod routes;
mod signature;
mod sockjs;
mod streams;
mod websocket;
mod zhttp;
mod zmq;

use crate::bench::Case;

/// Lists functions with their names.
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        /// The cases of this file.
        pub const CASES: &[crate::bench::Case] = &[$((stringify!($name), $name)),+];
    };
}
pub(crate) use cases;

/// Cases that make every client of the edge poll its origin, including clients of other cases. They
/// run while no other case runs.
pub const ALONE: &[&str] = &[
    "control_answers_have_known_words",
    "recovering_asks_links",
    "rep_answers_commands",
];

/// Returns every case, those with the longest waits first, so that they overlap with the others.
pub fn all() -> impl Iterator<Item = Case> {
    [
        clients::CASES,
        reliable::CASES,
        holds::CASES,
        links::CASES,
        streams::CASES,
        faults::CASES,
        over_http::CASES,
        websocket::CASES,
        sockjs::CASES,
        filters::CASES,
        hardening::CASES,
        json::CASES,
        zmq::CASES,
        zhttp::CASES,
        injection::CASES,
        control::CASES,
        proxy::CASES,
        routes::CASES,
        aco::CASES,
        signature::CASES,
        built_in::CASES,
    ]
    .into_iter()
    .flatten()
    .copied()
}
