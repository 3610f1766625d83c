//! Compares the edge with Pushpin: one table of cases, run against Debian's `pushpin` and against
//! `fermata edge`.
//!
//! Both get the same routes, the same origin and the same `pushpin.conf`. A case asserts the same
//! result for both. Where the two differ, it calls [`bench::Bench::differs`]; the table of
//! differences in `docs/pushpin-users.md` then names the case and gives the reason.
//!
//! `FERMATA_TEST_CASE=hold` runs only the cases whose names contain `hold`. Without Debian's
//! packages `pushpin` and `zurl` the Pushpin runs are skipped.

mod apache;
mod arriving;
mod authority;
mod bench;
mod bounds;
mod cases;
mod client;
mod cluster;
mod components;
mod control_port;
mod django;
mod edge_publishers;
mod failing;
mod faults;
mod figures;
mod files;
mod filtering;
mod forged;
mod heartbeats;
mod http2;
mod hygiene;
mod interim;
mod journal;
mod leaving;
mod link;
mod listeners;
mod next_links;
mod origin;
mod own;
mod page;
mod php;
mod php_fpm;
mod publishers;
mod quiet;
mod reload;
mod routes;
mod shared_log;
mod sharing;
mod socket;
mod sockets_http2;
mod sockjs;
mod state;
mod subject;
mod temporary;
mod traces;
mod unread;
mod upstreams;
mod zhttp;
mod zhttp_backend;
mod zmq;

use bench::run_all;
use subject::{Kind, Subject};

#[test]
fn pushpin_of_debian() {
    match Subject::start(Kind::Pushpin) {
        Some(subject) => run_all(subject),
        None => eprintln!("SKIPPED: Debian's packages pushpin and zurl are not installed"),
    }
}

#[test]
fn fermata_edge() {
    match Subject::start(Kind::Fermata) {
        Some(subject) => run_all(subject),
        None => eprintln!("SKIPPED: this fermata has no edge"),
    }
}
