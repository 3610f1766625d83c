//! Resources that run out, clocks that jump and processes that are stopped: limits are kept, and the server responds to the
//! `GET /` of other clients.
//!
//! The other rows of this matrix are next to the features that they test:
//!
//! | Row | Tests |
//! |---|---|
//! | clients that do not read, HTTP/1 and HTTP/2 | `http1/unread.rs` |
//! | unfinished uploads, full upload directory | `http1/uploads.rs`, `http1/disk_full.rs` |
//! | access log on a full disk, log that is not read | `http1/disk_full.rs`, `operations/stuck_log.rs` |
//! | responses of PHP-FPM | `http1/fastcgi.rs`, `edge/php_fpm.rs` |
//! | edge, both directions and WebSockets | `edge/unread.rs` |
//! | descriptors of a server | `http1/exhaustion.rs` |
//! | presence members | `hub/presence.rs` |
//! | one compression bomb | `websocket/limits.rs` |
//! | stopped workers | `workers/stall.rs`, `hub/slow.rs` |
//! | Pusher's timestamps, Mercure's tokens while the clock jumps | `pusher/clock.rs`, `mercure/clock.rs` |
//!
//! Not tested: a full disk under the edge, which writes only the files limited by `upload_directory_bytes_max`; cookies, of
//! which the server sets none with a time; a suspended machine, which the tests simulate by stopping all processes of a server.

mod bombs;
mod clocks;
mod descriptors;
mod disk;
mod frozen;
mod jobs;
mod names;
mod uploads;

use fermata_testkit::{Builder, Server};
use fermata_tests::fixture;

fn builder() -> Builder {
    fixture("bounds").workers(1)
}

/// Returns the process id of the only worker.
fn worker(server: &Server) -> u32 {
    server.worker_pids()[&0]
}

/// Asserts that another client gets a response.
#[track_caller]
fn check_others(server: &Server) {
    assert_eq!(server.connect().get("/").text(), "alive");
}
