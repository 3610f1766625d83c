//! Outputs of a run in addition to its result.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use fermata_testkit::{Directory, wait_until};
use fermata_tests::fixture;

use crate::support::{Load, load, load_as_given};

#[test]
fn progress_summary_and_plot() {
    let server = fixture("http").start();
    let directory = Directory::new();
    let plot = directory.join("plot.svg");
    let url = format!("http://{}/", server.address());
    let plot_path = plot.display().to_string();
    let result = load(&["http", &url, "-c", "4", "-t", "300ms", "--svg", &plot_path]);
    result.assert_passed();
    // Standard error is not a terminal here, so the command prints plain lines without control
    // characters.
    assert!(result.stderr.lines().count() >= 3, "{}", result.stderr);
    assert!(!result.stderr.contains('\x1b'), "{:?}", result.stderr);
    for word in ["responses", "p99", "verification       passed"] {
        assert!(result.stdout.contains(word), "{word}: {}", result.stdout);
    }
    let svg = std::fs::read_to_string(plot).expect("the plot is there");
    assert!(svg.starts_with("<svg ") && svg.contains("p99"));
    assert!(result.json["series"].as_array().map_or(0, Vec::len) >= 3);
    let quiet = load(&["http", &url, "-n", "10", "--quiet"]);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn json_without_a_file_is_all_of_standard_output() {
    let server = fixture("http").start();
    let url = format!("http://{}/", server.address());
    for json in [&["--json"][..], &["--json", "-"], &["--json=-"]] {
        let result = load_as_given(&[&["http", &url, "-n", "10", "--quiet"], json].concat());
        assert_eq!(result.code, Some(0), "{}", result.all());
        let printed: serde_json::Value = serde_json::from_str(&result.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", result.all()));
        assert_eq!(printed["counters"]["responses"], 10, "{printed}");
        assert_eq!(printed["passed"], true, "{printed}");
    }
    assert!(!std::path::Path::new("-").exists());
}

#[test]
fn statsd_gets_every_interval() {
    let server = fixture("http").start();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("set");
    let statsd = socket.local_addr().expect("bound").to_string();
    let url = format!("http://{}/", server.address());
    load(&["http", &url, "-c", "2", "-t", "300ms", "--statsd", &statsd]).assert_passed();
    let mut text = String::new();
    let mut bytes = [0; 2048];
    while !(text.contains("fermata.load.http.responses:") && text.contains("|ms")) {
        let count = socket.recv(&mut bytes).expect("a datagram");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    assert!(text.starts_with("fermata.load.http.open:"), "{text}");
}

#[test]
fn prometheus_can_ask_while_it_runs() {
    let server = fixture("http").start();
    let url = format!("http://{}/", server.address());
    let mut run = Load::start(&[
        "http",
        &url,
        "-c",
        "2",
        "-t",
        "1h",
        "-q",
        "--prometheus",
        "127.0.0.1:0",
    ]);
    let stderr = run.take_stderr();
    let line = BufReader::new(stderr).lines().next();
    let line = line.expect("a line").expect("it is text");
    let address: Option<SocketAddr> = line
        .strip_prefix("metrics at http://")
        .and_then(|rest| rest.strip_suffix("/metrics"))
        .and_then(|address| address.parse().ok());
    let address = address.unwrap_or_else(|| panic!("{line}"));
    wait_until("responses are counted", || {
        let mut connection = TcpStream::connect(address).expect("it listens");
        let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        connection.write_all(request).expect("sent");
        let mut text = String::new();
        connection.read_to_string(&mut text).expect("a page");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        let sample = "fermata_load_responses_total{scenario=\"http\"} ";
        let value = text.lines().find_map(|line| line.strip_prefix(sample))?;
        (value != "0").then_some(())
    });
}
