//! Clients that violate the protocol, by mistake or on purpose.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use fermata_testkit::Connection;

use crate::{LAST_REQUEST, World, secure};

#[test]
fn plain_http_on_a_tls_port_is_told_what_is_wrong() {
    let world = World::start(secure());
    let mut connection = Connection::open(world.address);
    connection.send(LAST_REQUEST);
    let (answer, _) = connection.read_to_end();
    let answer = String::from_utf8(answer).expect("it is text");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.ends_with("begins with https or wss\n"), "{answer}");
    world.server.log().wait_for(0, "plain HTTP on a TLS port");
}

#[test]
fn bytes_that_are_no_tls_end_the_connection_and_nothing_else() {
    let world = World::start(secure().workers(1));
    for bytes in [
        &[0_u8; 600][..],
        &[0xff; 20_000],
        b"\x16\x03\x01\xff\xff garbage",
        b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",
        b"\x80\x2e\x01\x00\x02",
        b"\x17\x03\x03\x00\x05hello",
    ] {
        let mut stream = TcpStream::connect(world.address).expect("it listens");
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        // An alert and a close, or a reset.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 16, "{answer:?}");
    }
    assert!(world.get("one.test", "/who", &[]).contains("https"));
}

#[test]
fn a_handshake_of_a_byte_at_a_time_is_cut_at_the_header_time_out() {
    let world = World::start(secure().setting("header_timeout_ms", 300));
    let mut stream = TcpStream::connect(world.address).expect("it listens");
    let mut writer = stream.try_clone().expect("it is open");
    // A record that announces more bytes than are sent.
    let drip = thread::spawn(move || {
        for byte in b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
            .iter()
            .cycle()
        {
            if writer.write_all(&[*byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{answer:?}");
    drip.join().expect("the server has closed");
}

#[test]
fn an_answer_reaches_a_client_that_reads_late() {
    let world = World::start(secure().setting("body_bytes_max", 8 << 20));
    std::fs::write(world.path("body"), vec![b'x'; 4 << 20]).expect("the directory is ours");
    let arguments = [
        "--data-binary",
        "@body",
        "--limit-rate",
        "3M",
        "-H",
        "Connection: close",
        "-o",
        "answer",
        "-w",
        "%{size_download}",
    ];
    assert_eq!(
        world.get("one.test", "/body", &arguments),
        (4 << 20).to_string()
    );
}
