//! Failures are detected, counted, and reported by a different exit code.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use fermata_testkit::{Server, Signal, wait_until};
use fermata_tests::{fixture, json};

use crate::support::{Load, load};

#[test]
fn options_that_cannot_be_used_are_explained() {
    for (arguments, words) in [
        (&["http", "https://x/"][..], ["URL", "TLS"]),
        (
            &["http", "http://127.0.0.1:1/", "-d", "@/nowhere"],
            ["--body", "/nowhere"],
        ),
        (
            &["http", "http://127.0.0.1:1/", "--rate", "0"],
            ["--rate", "more than zero"],
        ),
        (
            &["http", "http://127.0.0.1:1/", "--svg", "/no/where"],
            ["/no/where", "No such"],
        ),
        (&["sse", "http://127.0.0.1:1/", "-g", "2"], ["URL", "{n}"]),
        (
            &["sse", "http://127.0.0.1:1/{n}", "-c", "1", "-g", "2"],
            ["--groups", "--clients"],
        ),
        (
            &[
                "hold",
                "http://127.0.0.1:1/",
                "--publish",
                "http://127.0.0.1:1/",
                "--publish-body",
                "x",
            ],
            ["--publish-body", "{message}"],
        ),
        (&["ws", "echo", "http://127.0.0.1:1/"], ["URL", "ws://"]),
    ] {
        let result = load(arguments);
        assert_eq!(result.code, Some(2), "{}", result.all());
        for word in words {
            assert!(result.stderr.contains(word), "{word}: {}", result.all());
        }
    }
}

#[test]
fn nobody_listens() {
    // The port is bound but not listening: connections are refused, and no other process can use
    // the port.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound");
    drop(taken);
    let url = format!("http://{address}/");
    let result = load(&["http", &url, "-n", "10", "-c", "2", "--timeout", "300ms"]);
    result.assert_failed();
    let result = load(&[
        "sse",
        &url,
        "-c",
        "3",
        "-t",
        "100ms",
        "--attempts-max",
        "2",
        "--reconnect-delay",
        "10ms",
    ]);
    result.assert_failed();
    assert_eq!((result.count("refusals"), result.count("not_held")), (6, 3));
    assert!(result.stdout.contains("refused"), "{}", result.all());
}

#[test]
fn messages_that_never_come_are_missing() {
    let server = fixture("hub").start();
    let url = format!("http://{}/events?channels=news", server.address());
    let publish = format!("http://{}/publish/elsewhere", server.address());
    let result = load(&[
        "sse",
        &url,
        "-c",
        "4",
        "-t",
        "300ms",
        "--settle",
        "200ms",
        "--publish",
        &publish,
        "--publish-rate",
        "10",
    ]);
    result.assert_failed();
    assert_eq!(result.count("missing"), 4 * result.count("published"));
}

#[test]
fn messages_of_another_group_are_misdirected() {
    let server = fixture("hub").start();
    let url = format!(
        "http://{}/events?channels=all&group={{n}}",
        server.address()
    );
    let publish = format!("http://{}/publish/all?group={{n}}", server.address());
    let result = load(&[
        "sse",
        &url,
        "-c",
        "4",
        "-g",
        "2",
        "-t",
        "300ms",
        "--publish",
        &publish,
        "--publish-rate",
        "20",
    ]);
    result.assert_failed();
    assert_eq!(result.count("misdirected"), 2 * result.count("published"));
    assert_eq!(result.count("lost") + result.count("missing"), 0);
}

#[test]
fn a_server_that_is_gone_at_the_end_fails_the_run() {
    let mut server = fixture("hub").start();
    let url = format!(
        "http://{}/events?user={{client}}&silent=1",
        server.address()
    );
    let run = Load::start(&[
        "hold",
        &url,
        "-c",
        "10",
        "-t",
        "1s",
        "--reconnect-delay",
        "50ms",
    ]);
    wait_until("clients are there", || {
        let members = server.connect().get("/members/news");
        (json(&members).as_array().map_or(0, Vec::len) == 10).then_some(())
    });
    server.signal(Signal::Terminate);
    server.wait_exit();
    let result = run.end();
    result.assert_failed();
    assert_eq!(
        (result.count("disconnects"), result.count("not_held")),
        (10, 10)
    );
}

#[test]
fn a_server_that_repeats_loses_and_damages_is_found_out() {
    // The server responds to each POST, and sends the POST's body to its only client as this list
    // specifies.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut bytes = [0; 4096];
        let _ = client.read(&mut bytes).expect("a request");
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        client.write_all(head).expect("written");
        let (mut publisher, _) = listener.accept().expect("a publisher");
        for turn in 0.. {
            let mut request = Vec::new();
            // The message ends the request.
            while !(request.len() > 128 && request[request.len() - 128..].starts_with(b"fl1.")) {
                match publisher.read(&mut bytes) {
                    Ok(0) | Err(_) => return,
                    Ok(count) => request.extend_from_slice(&bytes[..count]),
                }
            }
            let message = String::from_utf8_lossy(&request[request.len() - 128..]).into_owned();
            let event = format!("data: {message}\n\n");
            let played = match turn {
                1 => event.repeat(2),
                2 => String::new(),
                4 => event.replace("abc", "abd"),
                5 => "event: gap\ndata: {}\n\n".to_string() + &event,
                _ => event,
            };
            client.write_all(played.as_bytes()).expect("written");
            let answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
            publisher.write_all(answer).expect("written");
        }
    });
    let url = format!("http://{address}/");
    let result = load(&[
        "sse",
        &url,
        "-c",
        "1",
        "-t",
        "1s",
        "--publish",
        &url,
        "--publish-rate",
        "20",
        "--publish-connections",
        "1",
    ]);
    result.assert_failed();
    let names = ["repeated", "corrupt", "gap_events", "missing"];
    assert_eq!(
        names.map(|name| result.count(name)),
        [1, 1, 1, 0],
        "{}",
        result.all()
    );
    // The skipped and the damaged message.
    assert_eq!(result.count("lost"), 2);
}

#[test]
fn clients_of_a_server_that_is_gone_are_spread_over_the_others() {
    let mut servers = [(); 3].map(|()| fixture("hub").start());
    let [first, second, third] = servers.each_ref().map(|it| it.address().to_string());
    let url = format!("http://{first}/events?user={{client}}&silent=1");
    let run = Load::start(&[
        "hold",
        &url,
        "--also",
        &second,
        "--also",
        &third,
        "-c",
        "12",
        "-t",
        "4s",
        "--reconnect-delay",
        "50ms",
    ]);
    let wait_members = |server: &Server, count: usize| {
        wait_until("clients are there", || {
            let members = server.connect().get("/members/news");
            (json(&members).as_array().map_or(0, Vec::len) == count).then_some(())
        });
    };
    for server in &servers {
        wait_members(server, 4);
    }
    servers[2].signal(Signal::Kill);
    servers[2].wait_exit();
    for server in &servers[..2] {
        wait_members(server, 6);
    }
    let result = run.end();
    assert_eq!(result.count("not_held"), 0, "{}", result.all());
    assert_eq!(result.count("reconnects"), 4, "{}", result.all());
}
