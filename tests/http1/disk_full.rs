//! A full disk: uploads are rejected and leave no files; the access log drops and counts lines. Both recover when space is free
//! again. The disk is a small tmpfs in the mount namespace of the server, which ends with it.

use std::fs;
use std::path::Path;

use fermata_testkit::wait_until;
use fermata_tests::disk::{DISK_BYTES, seen, with_disk};
use fermata_tests::{json, stats, temporary_files};
use serde_json::Value;

fn wait_for_files(folder: &Path, count: usize) {
    wait_until("the temporary files are as many as they should be", || {
        (temporary_files(folder) == count).then_some(())
    });
}

/// Returns a form with one file.
fn form(bytes: usize) -> Vec<u8> {
    let mut body =
        b"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\n".to_vec();
    body.resize(body.len() + bytes, b'x');
    body.extend_from_slice(b"\r\n--B--\r\n");
    request("multipart/form-data; boundary=B", &body)
}

fn request(content_type: &str, body: &[u8]) -> Vec<u8> {
    let mut wire = format!(
        "POST /crc HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    wire.extend_from_slice(body);
    wire
}

#[test]
fn uploads_and_large_bodies_are_507_and_leave_nothing() {
    let Some((builder, disk)) = with_disk("uploads") else {
        return;
    };
    let server = builder
        .setting("upload_directory", disk.display())
        .setting("body_memory_bytes_max", "16k")
        .start();
    let folder = seen(&server, &disk);
    let pids = server.worker_pids();
    let plain = request("application/octet-stream", &vec![b'x'; 900_000]);
    for wire in [form(900_000), plain] {
        for _ in 0..3 {
            let mut connection = server.connect();
            let sending = connection.send_in_background(wire.clone());
            let response = connection.read_response();
            assert_eq!(response.status(), 507);
            assert!(response.head.connection_says("close"));
            let path = disk.to_str().expect("a temporary path is UTF-8");
            assert!(!response.text().contains(path), "{}", response.text());
            connection.expect_end();
            // The server need not read a rejected body.
            let _ = sending.join().expect("sending does not panic");
            wait_for_files(&folder, 0);
        }
    }
    server
        .log()
        .wait_for(0, &format!("a temporary file in {}", disk.display()));
    // Space is free again, and uploads work.
    let mut connection = server.connect();
    for _ in 0..5 {
        connection.send(form(DISK_BYTES - 50_000));
        assert_eq!(
            json(&connection.read_response())["size"],
            DISK_BYTES - 50_000
        );
    }
    wait_for_files(&folder, 0);
    assert_eq!(server.worker_pids(), pids, "no worker was replaced");
}

#[test]
fn an_upload_that_finds_no_room_does_not_harm_the_one_that_has_it() {
    let Some((builder, disk)) = with_disk("uploads") else {
        return;
    };
    let server = builder.setting("upload_directory", disk.display()).start();
    let folder = seen(&server, &disk);
    let wire = form(150_000);
    let mut first = server.connect();
    first.send(&wire[..wire.len() - 20]);
    wait_until("most of the first file is on the disk", || {
        let entries = fs::read_dir(&folder).expect("it is there").flatten();
        let bytes = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
        (bytes.sum::<u64>() >= 149_000).then_some(())
    });
    let mut second = server.connect();
    let sending = second.send_in_background(wire.clone());
    assert_eq!(second.read_response().status(), 507);
    let _ = sending.join().expect("sending does not panic");
    first.send(&wire[wire.len() - 20..]);
    assert_eq!(json(&first.read_response())["size"], 150_000);
    wait_for_files(&folder, 0);
}

#[test]
fn the_access_log_loses_lines_and_goes_on_when_there_is_room() {
    const BURSTS: usize = 200;
    const BURST: usize = 20;
    let Some((builder, disk)) = with_disk("uploads") else {
        return;
    };
    let server = builder
        .control()
        .setting("access_log", disk.join("access.log").display())
        .setting("access_log_format", "json")
        .setting("access_log_buffer_bytes_max", "64k")
        .start();
    let folder = seen(&server, &disk);
    let ballast = folder.join("ballast");
    fs::write(&ballast, vec![0; DISK_BYTES - 16 * 1024]).expect("it fits");

    let mut connection = server.connect();
    let mut ask = |count: usize| {
        for _ in 0..count {
            connection.send("GET /pid HTTP/1.1\r\nHost: a\r\n\r\n".repeat(BURST));
            for _ in 0..BURST {
                assert_eq!(connection.read_response().status(), 200);
            }
        }
    };
    ask(BURSTS);
    server.log().wait_for(0, "access_log: ");
    fs::remove_file(&ballast).expect("it is there");
    ask(1);
    // Every request is logged or counted, and no line is truncated at the end of the disk.
    let (lines, dropped) = wait_until("all requests are accounted for", || {
        let figures = stats(&server);
        let dropped = figures
            .pointer("/total/access_log_dropped")
            .and_then(Value::as_u64)?;
        let text = fs::read_to_string(folder.join("access.log")).expect("it is there");
        let lines: Vec<_> = text.lines().map(String::from).collect();
        let known = lines.len() + dropped as usize;
        (known == (BURSTS + 1) * BURST && text.ends_with('\n')).then_some((lines, dropped))
    });
    assert!(dropped > 0);
    for line in lines {
        let parsed: Value = serde_json::from_str(&line).expect("a whole object per line");
        assert_eq!(parsed["status"], 200, "{line}");
    }
}
