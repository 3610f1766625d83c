//! Clients that reset their connection, at every byte of an upload and at several points of a
//! response in progress: no resource leaks.

use std::fs;

use fermata_testkit::{Connection, Server, Target, wait_until};
use fermata_tests::{fixture, stats, temporary_files};
use serde_json::Value;

/// Number of bytes of the response that the client has read before it resets.
const POINTS: [usize; 9] = [0, 1, 15, 16, 100, 300, 5_000, 70_000, 1_000_000];

/// Returns a client with a small receive buffer, so that the server is still sending when the test
/// resets.
fn small(server: &Server) -> Connection {
    let target = Target {
        address: server.address(),
        source: None,
        receive_bytes: Some(4_096),
    };
    target.connect().expect("the server listens")
}

/// Waits until no public connection is left.
#[track_caller]
fn wait_for_nobody(server: &Server) {
    wait_until("nothing is left of those that have gone", || {
        let figures = stats(server);
        let open = ["http_active", "http_idle"].map(|kind| {
            let found = figures.pointer(&format!("/total/connections/{kind}"));
            let number = found.and_then(Value::as_u64);
            number.unwrap_or_else(|| panic!("no connections of {kind} in {figures}"))
        });
        (open == [0, 0]).then_some(())
    });
}

#[test]
fn an_upload_may_be_reset_at_every_byte() {
    let builder = fixture("uploads").workers(1).control();
    let folder = builder.directory().join("uploads");
    fs::create_dir(&folder).expect("the test's directory is new");
    let server = builder
        .setting("upload_directory", folder.display())
        .setting("body_memory_bytes_max", "4k")
        .start();
    let pids = server.worker_pids();
    let body = "--B\r\nContent-Disposition: form-data; name=\"t\"\r\n\r\ntext\r\n\
        --B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\ncontent\r\n--B--\r\n";
    let wire = format!(
        "POST /crc HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=B\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for len in 0..=wire.len() {
        let mut connection = server.connect();
        connection.send(&wire[..len]);
        connection.reset();
        // Repeat, but reset after the server has read the bytes. The response to another client's
        // later request proves that it has.
        let mut connection = server.connect();
        connection.send(&wire[..len]);
        assert_eq!(server.connect().get("/pid").status(), 200);
        connection.reset();
    }
    wait_for_nobody(&server);
    wait_until("temporary files are removed", || {
        (temporary_files(&folder) == 0).then_some(())
    });
    assert_eq!(server.worker_pids(), pids, "no worker was replaced");
}

#[test]
fn streams_and_files_may_be_reset_at_any_point() {
    let builder = fixture("responses").workers(1).control();
    let content: Vec<u8> = (0..8_000_000u32).map(|n| n as u8).collect();
    builder.directory().write("assets/large.bin", content);
    let server = builder.start();
    let pids = server.worker_pids();
    for path in ["/stream/400/20000", "/assets/large.bin", "/file/large.bin"] {
        for point in POINTS {
            for requests in [1, 3] {
                let mut connection = small(&server);
                connection.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(requests));
                connection.wait_for_bytes(point);
                connection.reset();
            }
        }
    }
    wait_for_nobody(&server);
    wait_until("every generator is destroyed", || {
        let notes = server.connect().get("/notes").text().to_owned();
        let counts = ["begun", "finally"].map(|word| notes.matches(word).count());
        (counts[0] >= POINTS.len() && counts[0] == counts[1]).then_some(())
    });
    assert_eq!(server.worker_pids(), pids, "no worker was replaced");
}
