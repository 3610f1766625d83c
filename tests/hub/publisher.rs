//! Publishing from processes outside of the server, through the control socket.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use fermata_testkit::Php;
use fermata_testkit::sse::Stream;
use fermata_tests::{fixture, fixture_path, publish, publish_from_cli};

#[test]
fn a_script_publishes_to_subscribers_of_all_workers() {
    let server = fixture("hub").control().start();
    let pids = server.worker_pids();
    let mut streams: Vec<Stream> = pids
        .values()
        .map(|pid| Stream::open(server.connect_to(*pid), "/events", None))
        .collect();
    let ids = publish_from_cli(&server.control(), "news", 50, "cli ");
    assert_eq!(ids.len(), 50);
    for stream in &mut streams {
        for (number, event) in stream.next_events(50).iter().enumerate() {
            assert_eq!(
                (event.name.as_str(), &event.data),
                ("note", &format!("cli {number}"))
            );
            assert_eq!(event.id.as_ref(), Some(&ids[number]));
        }
    }
    publish(&server, "news", "from a handler");
    assert_eq!(streams[0].next_event().data, "from a handler");
}

#[test]
fn several_scripts_publish_at_once() {
    let server = fixture("hub").control().start();
    let mut stream = Stream::open(server.connect(), "/events", None);
    let control = server.control();
    thread::scope(|scope| {
        for script in 0..3 {
            let control = &control;
            scope.spawn(move || publish_from_cli(control, "news", 100, &format!("{script}:")));
        }
    });
    let events = stream.next_events(300);
    for script in 0..3 {
        let prefix = format!("{script}:");
        let own: Vec<&str> = events
            .iter()
            .filter_map(|e| e.data.strip_prefix(&prefix))
            .collect();
        let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        assert_eq!(own, expected);
    }
}

#[test]
fn the_control_socket_belongs_to_its_user() {
    let server = fixture("hub").control().start();
    let path = server.directory().join("control.sock");
    let mode = fs::metadata(path).expect("it exists").permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}

#[test]
fn a_missing_server_is_a_connection_exception() {
    let server = fixture("hub").control();
    let control = format!("unix:{}", server.directory().join("nobody.sock").display());
    let output = Php::new(&[])
        .env("FERMATA_CONTROL", control)
        .arg(fixture_path("publish"))
        .args(["news", "1", "x"])
        .run();
    assert_eq!(output.code, Some(255));
    let said = output.stdout + &output.stderr;
    assert!(
        said.contains("Fermata\\Exception\\ConnectionException"),
        "{said}"
    );
}

#[test]
fn the_socket_of_a_killed_server_is_taken_over() {
    let builder = fixture("hub").control();
    // Dropping the server kills it without cleanup.
    drop(builder.clone().start());
    assert!(
        builder.directory().join("control.sock").exists(),
        "the stale socket is there"
    );
    let server = builder.clone().start();
    let mut stream = Stream::open(server.connect(), "/events", None);
    publish_from_cli(&server.control(), "news", 1, "again ");
    assert_eq!(stream.next_event().data, "again 0");

    // A second server must not replace the socket of a running one.
    let refused = builder.start_refused();
    assert!(!refused.status.success());
    refused.log.wait_for(0, "control.sock");
    publish_from_cli(&server.control(), "news", 1, "still ");
    assert_eq!(stream.next_event().data, "still 0");
}
