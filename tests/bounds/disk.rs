//! The history file on a full disk.

use std::fs;

use fermata_testkit::sse::Stream;
use fermata_tests::disk::{DISK_BYTES, seen, with_disk, with_disk_of};

use crate::check_others;

#[test]
fn a_history_without_room_on_its_disk_stops_the_start() {
    let Some((builder, disk)) = with_disk("bounds") else {
        return;
    };
    let refused = builder
        .setting("history_path", disk.join("history").display())
        .setting("history_bytes_max", 4 * DISK_BYTES)
        .start_refused();
    assert!(!refused.status.success());
    let log = refused.log.text();
    assert!(log.contains("history_path"), "{log}");
    assert!(log.contains("space"), "{log}");
}

#[test]
fn a_disk_that_fills_later_costs_no_event() {
    // The file's tables occupy 56 MB, however small its history is.
    const BYTES: usize = 96 * 1024 * 1024;
    let Some((builder, disk)) = with_disk_of("bounds", BYTES) else {
        return;
    };
    let server = builder
        .setting("history_path", disk.join("history").display())
        .setting("history_bytes_max", DISK_BYTES)
        .setting("event_bytes_max", 2_048)
        .start();
    let pids = server.worker_pids();
    let folder = seen(&server, &disk);
    // Fills the free space.
    let _ = fs::write(folder.join("ballast"), vec![0; BYTES]);
    let mut held = Stream::open(server.connect(), "/events", None);
    let mut publisher = server.connect();
    // Overwrites the whole file several times.
    for number in 0..400 {
        let data = format!("{number:01000}");
        assert_eq!(publisher.post("/publish", &data).status(), 200);
        assert_eq!(held.next_event().data, data);
    }
    check_others(&server);
    assert_eq!(server.worker_pids(), pids);
}
