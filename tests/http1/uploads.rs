//! Uploads and large bodies: slow and interrupted ones, and their temporary files.

use std::fs;
use std::time::Duration;

use fermata_testkit::{Builder, Random, Server, Signal, is_running, send_signal, wait_until};
use fermata_tests::{fixture, json, temporary_files};

/// How long an upload waits for a rejection.
const REFUSED_WITHIN: Duration = Duration::from_millis(300);

/// Returns a server with a separate folder for temporary files.
fn builder() -> Builder {
    let builder = fixture("uploads").workers(1);
    let folder = builder.directory().join("uploads");
    fs::create_dir(&folder).expect("the test's directory is new");
    builder.setting("upload_directory", folder.display())
}

fn files(server: &Server) -> usize {
    temporary_files(&server.directory().join("uploads"))
}

fn wait_for_files(server: &Server, count: usize) {
    wait_until("the temporary files are as many as they should be", || {
        (files(server) == count).then_some(())
    });
}

/// Returns head and body of a form with one file.
fn form(target: &str, content: &[u8]) -> (String, Vec<u8>) {
    let mut body =
        b"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\n".to_vec();
    body.extend_from_slice(content);
    body.extend_from_slice(b"\r\n--B--\r\n");
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=B\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    (head, body)
}

#[test]
fn files_arrive_whole_however_they_are_split() {
    let server = builder().start();
    let mut random = Random::from_environment();
    let mut connection = server.connect();
    for len in [0, 1, 63, 4_096, 65_536, 300_000, 3_000_000] {
        // Content that consists of parts of the delimiter, so that many splits are close to a
        // match.
        let pieces: [&[u8]; 5] = [b"\r\n--", b"\r", b"--B", b"\n", b"x"];
        let mut content = Vec::new();
        while content.len() < len {
            content.extend_from_slice(random.choose::<&[u8]>(&pieces));
        }
        // The content must neither contain the delimiter nor complete it at its start.
        let mut text = String::from_utf8_lossy(&content).replace("\r\n--B", "\r\n-B");
        if text.starts_with("--B") {
            text.remove(0);
        }
        let (head, body) = form("/crc", text.as_bytes());
        connection.send(head);
        connection.send_split(&body, 70_000, &mut random);
        let answer = json(&connection.read_response());
        assert_eq!(answer["size"], text.len(), "{len}");
        assert_eq!(answer["hash"], crc32(text.as_bytes()), "{len}");
    }
    wait_for_files(&server, 0);
}

/// Equals PHP's `hash('crc32b', …)`.
fn crc32(bytes: &[u8]) -> String {
    let mut sum = u32::MAX;
    for &byte in bytes {
        sum ^= u32::from(byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg());
        }
    }
    format!("{:08x}", !sum)
}

#[test]
fn what_a_killed_worker_leaves_is_removed() {
    let server = builder().start();
    let pid = server.worker_pids()[&0];
    let (head, body) = form("/crc", &[b'x'; 100_000]);
    let mut connection = server.connect();
    connection.send(head);
    connection.send(&body[..50_000]);
    wait_for_files(&server, 1);
    assert!(send_signal(pid, Signal::Kill));
    server.wait_replaced(0, pid);
    wait_for_files(&server, 0);
    assert_eq!(server.connect().get("/pid").status(), 200);
}

#[test]
fn what_a_killed_server_leaves_is_removed_by_the_next() {
    let mut killed = builder().start();
    let folder = killed.directory().join("uploads");
    let (head, body) = form("/crc", &[b'x'; 100_000]);
    let begin = |server: &Server| {
        let mut connection = server.connect();
        connection.send(&head);
        connection.send(&body[..50_000]);
        connection
    };
    let _upload = begin(&killed);
    wait_for_files(&killed, 1);
    // Kills master and worker together, so that neither cleans up after the other.
    let worker = killed.worker_pids()[&0];
    assert!(send_signal(killed.pid(), Signal::Kill) && send_signal(worker, Signal::Kill));
    killed.wait_exit();
    wait_until("the worker has ended", || {
        (!is_running(worker)).then_some(())
    });
    assert_eq!(files(&killed), 1);

    let next = || builder().setting("upload_directory", folder.display());
    let alive = next().start();
    wait_for_files(&killed, 0);
    let mut upload = begin(&alive);
    wait_for_files(&killed, 1);
    // A third server does not delete the files of a running server.
    let _third = next().start();
    assert_eq!(files(&killed), 1);
    upload.send(&body[50_000..]);
    assert_eq!(upload.read_response().status(), 200);
    wait_for_files(&killed, 0);
}

#[test]
fn a_form_is_refused_before_its_body_when_it_is_announced_too_large() {
    let server = builder().setting("multipart_bytes_max", 10_000).start();
    let (head, _) = form("/crc", &[b'x'; 20_000]);
    let mut connection = server.connect();
    let head = head.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    connection.send(head);
    assert_eq!(connection.read_response().status(), 413);
    connection.expect_end();
    assert_eq!(files(&server), 0);
}

#[test]
fn nothing_is_stored_for_a_path_that_nobody_serves() {
    let server = builder().setting("body_bytes_max", 1_000).start();
    let (head, body) = form("/nothing", &[b'x'; 20_000]);
    let mut connection = server.connect();
    connection.send(head);
    let _ = connection.try_send(body);
    assert_eq!(connection.read_response().status(), 413);
    let (head, body) = form("/nothing", b"x");
    let mut connection = server.connect();
    connection.send(head);
    connection.send(body);
    assert_eq!(connection.read_response().status(), 404);
    assert_eq!(files(&server), 0);
}

#[test]
fn unfinished_uploads_together_have_no_more_than_they_may() {
    let server = builder()
        .setting("upload_directory_files_max", 12)
        .setting("upload_directory_bytes_max", "4m")
        .start();
    let pids = server.worker_pids();
    let (head, body) = form("/crc", &vec![b'x'; 1_000_000]);
    let unfinished = |part: &[u8]| {
        let mut connection = server.connect();
        connection.send(&head);
        connection.send(part);
        connection
    };
    // Limit by bytes: four uploads fit.
    let part = &body[..900_000];
    let mut all: Vec<_> = (0..8).map(|_| unfinished(part)).collect();
    let refused = all
        .iter_mut()
        .map(|it| usize::from(it.has_data(REFUSED_WITHIN)))
        .sum::<usize>();
    assert!((3..=5).contains(&refused), "{refused}");
    server
        .log()
        .wait_for(0, "have reached upload_directory_bytes_max (4194304)");
    drop(all);
    wait_for_files(&server, 0);
    // Limit by number, with few bytes in each.
    let mut all: Vec<_> = (0..20).map(|_| unfinished(&body[..200])).collect();
    let refused = all
        .iter_mut()
        .map(|it| usize::from(it.has_data(REFUSED_WITHIN)))
        .sum::<usize>();
    assert_eq!((refused, files(&server)), (8, 12));
    server
        .log()
        .wait_for(0, "have reached upload_directory_files_max (12)");
    let mut other = server.connect();
    other.send(&head);
    other.send(&body);
    assert_eq!(other.read_response().status(), 507);
    drop(all);
    wait_for_files(&server, 0);
    let mut other = server.connect();
    other.send(&head);
    other.send(&body);
    assert_eq!(json(&other.read_response())["size"], 1_000_000);
    assert_eq!(server.worker_pids(), pids, "no worker was replaced");
}
