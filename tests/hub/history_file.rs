//! Invalid files at history_path.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fermata_testkit::{Builder, Connection, Server, wait_until};
use fermata_tests::{fixture, publish};

fn builder() -> (Builder, PathBuf) {
    let builder = fixture("hub").setting("history_bytes_max", 1_048_576);
    let path = builder.directory().join("history.ring");
    (builder.setting("history_path", path.display()), path)
}

/// Asserts that a server starts with an empty history and moves the old file aside.
#[track_caller]
fn begins_anew(builder: &Builder, path: &Path, aside: &str) {
    let before = fs::read(path).expect("the file is there");
    let server = builder.clone().start();
    server.log().wait_for(0, "starting without history");
    assert_eq!(history(&server), "[]");
    publish(&server, "news", "kept");
    let aside = path.with_file_name(aside);
    let moved = fs::read(&aside).expect("it was moved");
    assert_eq!(moved.len(), before.len());
}

fn history(server: &Server) -> String {
    let response = server.connect().get("/history/news");
    assert_eq!(response.status(), 200, "{}", response.text());
    response.text().to_string()
}

#[test]
fn zeros_are_moved_aside() {
    let (builder, path) = builder();
    fs::write(&path, vec![0; 100_000]).expect("the folder is ours");
    begins_anew(&builder, &path, "history.damaged");
    // A second damaged file does not replace the first one that was moved aside.
    fs::write(&path, vec![0; 8]).expect("the folder is ours");
    begins_anew(&builder, &path, "history.damaged-2");
}

#[test]
fn one_of_ours_that_is_damaged_or_cut_is_moved_aside() {
    let (builder, path) = builder();
    let server = builder.clone().start();
    publish(&server, "news", "before");
    drop(server);
    let file = OpenOptions::new().write(true).open(&path).expect("a file");
    // Everything after the file's first line is invalid: positions, links, records.
    let bytes = file.metadata().expect("a file").len();
    file.write_all_at(&vec![0xa5; 4096], 64).expect("a disk");
    begins_anew(&builder, &path, "history.damaged");

    let file = OpenOptions::new().write(true).open(&path).expect("a file");
    file.set_len(bytes / 2).expect("a disk");
    begins_anew(&builder, &path, "history.damaged-2");
}

#[test]
fn what_is_not_ours_is_refused_and_stays_as_it_is() {
    for content in [&b"my only copy of something"[..], b"x", &[0xff; 5_000]] {
        let (builder, path) = builder();
        let mut file = fs::File::create(&path).expect("the folder is ours");
        file.write_all(content).expect("a disk");
        let exited = builder.clone().start_refused();
        assert_ne!(exited.status.code(), Some(0));
        exited.log.wait_for(0, "history_path: ");
        exited
            .log
            .wait_for(0, "this is not a history file of Fermata");
        assert!(fs::read(&path).expect("it is there") == content);
    }
}

#[test]
fn other_sizes_are_refused_and_change_nothing() {
    let (builder, path) = builder();
    drop(builder.clone().start());
    let before = fs::read(&path).expect("the file is there");
    let exited = builder
        .clone()
        .setting("history_bytes_max", 4 * 1_048_576)
        .start_refused();
    exited.log.wait_for(0, "made with other sizes");
    assert!(fs::read(&path).expect("it is there") == before);
}

#[test]
fn a_file_that_is_cut_while_it_is_used_ends_the_server_with_a_line() {
    let (builder, path) = builder();
    let mut server = builder.clone().start();
    publish(&server, "news", "before");
    let file = OpenOptions::new().write(true).open(&path).expect("a file");
    file.set_len(0).expect("a disk");
    wait_until("somebody has met it", || {
        if let Ok(mut connection) = Connection::try_open(server.address()) {
            let _ = connection.try_request("POST", "/publish/news", &[], b"after");
        }
        server.log().contains("a part of").then_some(())
    });
    server.wait_exit();
    drop(server);
    let server = builder.start();
    assert_eq!(history(&server), "[]");
}

#[test]
fn a_file_serves_as_many_workers_as_it_was_made_for_or_fewer() {
    let (builder, path) = builder();
    let few = builder.clone().workers(2).start();
    publish(&few, "news", "kept");
    drop(few);
    // Up to 64 workers share one file size.
    let more = builder.clone().workers(3).start();
    assert!(history(&more).contains("kept"));
    drop(more);
    let exited = builder.clone().workers(65).start_refused();
    exited.log.wait_for(0, "made with other sizes");
    fs::remove_file(&path).expect("the folder is ours");
    let many = builder.clone().workers(65).start();
    publish(&many, "news", "kept");
    drop(many);
    let few = builder.clone().workers(2).start();
    assert!(history(&few).contains("kept"));
}
