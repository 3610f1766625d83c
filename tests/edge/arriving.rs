//! Request bodies that the edge streams to the backend while they arrive.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fermata_testkit::{Directory, deadline, wait_until};

use crate::own::Own;

/// Maximum size in bytes of the body of a held request; the edge buffers no more.
const HELD_BYTES_MAX: usize = 100_000;
/// Size larger than all buffers between a client and a backend that does not read.
const TOO_MUCH_BYTES: usize = 256 * 1024 * 1024;
/// Time without a byte read after which the test treats the transfer as blocked.
const STILL: Duration = Duration::from_secs(2);
/// Number of tries where the result depends on the bytes that the kernel has ready.
const BURSTS: usize = 20;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone";

/// Starts an edge whose backend is the test.
fn start() -> (Own, TcpListener) {
    start_with(&[])
}

fn start_with(arguments: &[&str]) -> (Own, TcpListener) {
    let backend = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = backend.local_addr().expect("bound").port();
    let route = format!("* 127.0.0.1:{port}");
    let own = Own::start(&[&["--route", &route][..], arguments].concat());
    (own, backend)
}

fn accept(backend: &TcpListener) -> BufReader<TcpStream> {
    let (stream, _) = backend.accept().expect("the edge connects");
    stream.set_read_timeout(Some(deadline())).expect("a socket");
    BufReader::new(stream)
}

fn connect(own: &Own) -> TcpStream {
    let client = TcpStream::connect(("127.0.0.1", own.port)).expect("it listens");
    client.set_read_timeout(Some(deadline())).expect("a socket");
    client
}

/// Reads the head of a request, in lower case.
fn read_head(reader: &mut impl BufRead) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).expect("a head"), 0, "{head}");
    }
    head.to_ascii_lowercase()
}

fn read_answer(client: &mut TcpStream) -> String {
    let mut answer = String::new();
    let mut reader = BufReader::new(client);
    answer += &read_head(&mut reader);
    let mut body = [0; 4];
    reader.read_exact(&mut body).expect("a body");
    answer + &String::from_utf8_lossy(&body)
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7 % 251) as u8).collect()
}

/// Sends a body in small pieces, slower than 16 KiB per second, and returns the response status.
fn upload_slowly(arguments: &[&str]) -> String {
    let (own, backend) = start_with(arguments);
    let serving = std::thread::spawn(move || {
        if let Ok((stream, _)) = backend.accept() {
            let mut origin = BufReader::new(stream);
            let _ = origin.get_ref().set_read_timeout(Some(deadline()));
            let head = read_head(&mut origin);
            assert!(head.contains("content-length: 20\r\n"), "{head}");
            let mut body = [0; 20];
            if origin.read_exact(&mut body).is_ok() {
                let _ = origin.get_mut().write_all(OK);
            }
        }
    });
    let mut client = connect(&own);
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n")
        .expect("sent");
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(100));
        if client.write_all(b"x").is_err() {
            break;
        }
    }
    let mut line = String::new();
    let mut answer = BufReader::new(&mut client);
    answer.read_line(&mut line).expect("an answer");
    if line.contains(" 200 ") {
        serving.join().expect("it has answered");
    }
    line
}

#[test]
fn a_body_may_come_slowly() {
    let slow = upload_slowly(&["--body-timeout-ms", "1000"]);
    assert!(slow.contains(" 200 "), "{slow}");
    // The limits that a server applies to its own clients.
    let fast = ["--body-timeout-ms", "1000", "--body-rate-min", "16384"];
    let refused = upload_slowly(&fast);
    assert!(refused.contains(" 408 "), "{refused}");
}

#[test]
fn a_large_body_is_sent_on_before_it_is_whole() {
    let (own, backend) = start();
    let body = content(3 * HELD_BYTES_MAX);
    let (start, rest) = body.split_at(2 * HELD_BYTES_MAX);
    let mut client = connect(&own);
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).expect("sent");
    client.write_all(start).expect("sent");
    let mut origin = accept(&backend);
    let head = read_head(&mut origin);
    assert!(
        head.contains(&format!("content-length: {}\r\n", body.len())),
        "{head}"
    );
    let mut arrived = vec![0; start.len()];
    origin
        .read_exact(&mut arrived)
        .expect("what was sent so far");
    assert_eq!(arrived, start);
    client.write_all(rest).expect("sent");
    let mut arrived = vec![0; rest.len()];
    origin.read_exact(&mut arrived).expect("the rest");
    assert_eq!(arrived, rest);
    origin.get_mut().write_all(OK).expect("answered");
    assert!(read_answer(&mut client).ends_with("done"));
    // The connections to the client and to the backend stay usable.
    client
        .write_all(b"GET /two HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("sent");
    assert!(read_head(&mut origin).starts_with("get /two "));
    origin.get_mut().write_all(OK).expect("answered");
    assert!(read_answer(&mut client).ends_with("done"));
}

#[test]
fn a_body_without_length_is_sent_on_in_chunks() {
    let (own, backend) = start();
    let body = content(3 * HELD_BYTES_MAX);
    let mut client = connect(&own);
    client
        .write_all(b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        .expect("sent");
    let mut pieces = body.chunks(50_000);
    let mut send = |client: &mut TcpStream| {
        let piece = pieces.next()?;
        let head = format!("{:x}\r\n", piece.len());
        let chunk = [head.as_bytes(), piece, b"\r\n"].concat();
        client.write_all(&chunk).expect("sent");
        Some(())
    };
    for _ in 0..3 {
        send(&mut client);
    }
    let mut origin = accept(&backend);
    let head = read_head(&mut origin);
    assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
    assert!(!head.contains("content-length"), "{head}");
    while send(&mut client).is_some() {}
    client.write_all(b"0\r\n\r\n").expect("sent");
    let mut arrived = Vec::new();
    loop {
        let mut line = String::new();
        origin.read_line(&mut line).expect("a chunk");
        let len = usize::from_str_radix(line.trim(), 16).expect("a size");
        let mut chunk = vec![0; len + 2];
        origin.read_exact(&mut chunk).expect("a chunk");
        arrived.extend_from_slice(&chunk[..len]);
        if len == 0 {
            break;
        }
    }
    assert_eq!(arrived.len(), body.len());
    assert!(arrived == body, "as it was sent");
    origin.get_mut().write_all(OK).expect("answered");
    assert!(read_answer(&mut client).ends_with("done"));
}

#[test]
fn a_small_body_is_waited_for() {
    let (own, backend) = start();
    backend.set_nonblocking(true).expect("a socket");
    let mut client = connect(&own);
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
        .expect("sent");
    // This request completes, so the edge has also processed the first one.
    let mut other = connect(&own);
    other
        .write_all(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("sent");
    let accepted = wait_until("the other is asked", || backend.accept().ok());
    accepted.0.set_nonblocking(false).expect("a socket");
    let mut origin = BufReader::new(accepted.0);
    assert!(read_head(&mut origin).starts_with("get /other "));
    assert!(
        backend.accept().is_err(),
        "nobody was asked before the body was whole"
    );
    client.write_all(b"def").expect("sent");
    let (stream, _) = wait_until("it is asked", || backend.accept().ok());
    stream.set_nonblocking(false).expect("a socket");
    let mut origin = BufReader::new(stream);
    read_head(&mut origin);
    let mut body = [0; 6];
    origin.read_exact(&mut body).expect("a body");
    assert_eq!(&body, b"abcdef");
    origin.get_mut().write_all(OK).expect("answered");
    assert!(read_answer(&mut client).ends_with("done"));
}

#[test]
fn a_backend_that_reads_nothing_makes_its_client_wait() {
    let (own, backend) = start();
    let mut client = connect(&own);
    client.set_write_timeout(Some(STILL)).expect("a socket");
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {TOO_MUCH_BYTES}\r\n\r\n");
    client.write_all(head.as_bytes()).expect("sent");
    let piece = content(64 * 1024);
    let has_waited = (0..TOO_MUCH_BYTES / piece.len()).any(|_| client.write_all(&piece).is_err());
    assert!(has_waited, "all of it was taken");
    // Other requests do not wait.
    let mut origin = accept(&backend);
    let mut other = connect(&own);
    other
        .write_all(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("sent");
    let mut second = accept(&backend);
    assert!(read_head(&mut second).starts_with("get /other "));
    second.get_mut().write_all(OK).expect("answered");
    assert!(read_answer(&mut other).ends_with("done"));
    // If the client disconnects, the edge cancels the request to the backend.
    drop(client);
    let mut left = Vec::new();
    let _ = origin.read_to_end(&mut left);
    assert!(left.len() < TOO_MUCH_BYTES);
}

#[test]
fn a_backend_that_stops_reading_has_as_long_as_one_that_does_not_answer() {
    let (own, backend) = start_with(&["--origin-response-timeout-ms", "1000"]);
    let mut client = connect(&own);
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {TOO_MUCH_BYTES}\r\n\r\n");
    client.write_all(head.as_bytes()).expect("sent");
    let mut writer = client.try_clone().expect("a socket");
    let writing = std::thread::spawn(move || {
        // The write fails if the edge stops the upload.
        let _ = writer.write_all(&content(TOO_MUCH_BYTES / 16));
    });
    let origin = accept(&backend);
    let answer = read_head(&mut BufReader::new(&client));
    assert!(answer.starts_with("http/1.1 504 "), "{answer}");
    let _ = client.shutdown(Shutdown::Both);
    writing.join().expect("it has ended");
    drop(origin);
}

#[test]
fn a_client_that_pauses_is_not_the_backend_s_fault() {
    let (own, backend) = start_with(&["--origin-response-timeout-ms", "1000"]);
    let body = content(3 * HELD_BYTES_MAX);
    let (start, rest) = body.split_at(2 * HELD_BYTES_MAX);
    let mut client = connect(&own);
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).expect("sent");
    client.write_all(start).expect("sent");
    let mut origin = accept(&backend);
    read_head(&mut origin);
    let mut arrived = vec![0; body.len()];
    origin
        .read_exact(&mut arrived[..start.len()])
        .expect("what was sent so far");
    // Longer than the time-out of the backend.
    std::thread::sleep(STILL);
    client.write_all(rest).expect("sent");
    origin
        .read_exact(&mut arrived[start.len()..])
        .expect("the rest");
    assert!(arrived == body, "as it was sent");
    origin.get_mut().write_all(OK).expect("answered");
    assert!(read_answer(&mut client).ends_with("done"));
}

#[test]
fn an_answer_before_the_end_of_the_body_reaches_the_client() {
    let (own, backend) = start();
    let mut client = connect(&own);
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n")
        .expect("sent");
    client
        .write_all(&content(2 * HELD_BYTES_MAX))
        .expect("sent");
    let mut origin = accept(&backend);
    read_head(&mut origin);
    origin
        .get_mut()
        .write_all(b"HTTP/1.1 413 No\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmuch")
        .expect("answered");
    let answer = read_answer(&mut client);
    assert!(
        answer.starts_with("http/1.1 413 ") && answer.ends_with("much"),
        "{answer}"
    );
}

#[test]
fn a_backend_that_goes_within_the_body_is_an_error() {
    let (own, backend) = start();
    let mut client = connect(&own);
    client
        .write_all(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n")
        .expect("sent");
    client
        .write_all(&content(2 * HELD_BYTES_MAX))
        .expect("sent");
    let mut origin = accept(&backend);
    read_head(&mut origin);
    drop(origin);
    let _ = client.write_all(&content(HELD_BYTES_MAX));
    let answer = read_head(&mut BufReader::new(&client));
    assert!(answer.starts_with("http/1.1 502 "), "{answer}");
}

#[test]
fn a_malformed_body_is_not_made_whole() {
    let (own, backend) = start();
    let mut client = connect(&own);
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        .expect("sent");
    let body = content(2 * HELD_BYTES_MAX);
    let head = format!("{:x}\r\n", body.len());
    client.write_all(head.as_bytes()).expect("sent");
    client.write_all(&body).expect("sent");
    let mut origin = accept(&backend);
    read_head(&mut origin);
    client.write_all(b"\r\nno chunk\r\n").expect("sent");
    let answer = read_head(&mut BufReader::new(&client));
    assert!(answer.starts_with("http/1.1 400 "), "{answer}");
    let mut arrived = Vec::new();
    let _ = origin.read_to_end(&mut arrived);
    assert!(!arrived.ends_with(b"0\r\n\r\n"));
    let _ = client.shutdown(Shutdown::Both);
}

#[test]
fn a_large_request_is_not_held() {
    let (own, backend) = start();
    let mut client = connect(&own);
    let body = content(2 * HELD_BYTES_MAX);
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client
        .write_all(&[head.as_bytes(), &body].concat())
        .expect("sent");
    let mut origin = accept(&backend);
    read_head(&mut origin);
    let mut arrived = vec![0; body.len()];
    origin.read_exact(&mut arrived).expect("a body");
    origin
        .get_mut()
        .write_all(
            b"HTTP/1.1 200 OK\r\nGrip-Hold: stream\r\nGrip-Channel: c\r\nContent-Length: 0\r\n\r\n",
        )
        .expect("answered");
    let answer = read_head(&mut BufReader::new(&client));
    assert!(answer.starts_with("http/1.1 400 "), "{answer}");
}

#[test]
fn a_conversation_that_ends_while_it_begins_leaves_no_connection() {
    let folder = Directory::new();
    let path = folder.join("backend.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let seen = Arc::clone(&counts);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, seen) = (stream.expect("a connection"), Arc::clone(&seen));
            seen[0].fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                let _ = stream.read_to_end(&mut Vec::new());
                seen[1].fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    let own = Own::start(&["--route", &format!("* unix/{}", path.display())]);
    for _ in 0..BURSTS {
        let mut client = TcpStream::connect(("127.0.0.1", own.port)).expect("it listens");
        client.set_read_timeout(Some(deadline())).expect("a socket");
        let chunk =
            |bytes: usize| [format!("{bytes:x}\r\n").into_bytes(), vec![b'a'; bytes]].concat();
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        // The first round sends nearly as much as the edge collects. Later rounds send more than
        // that, or malformed bytes, in one write.
        client
            .write_all(&[&head[..], &chunk(99_000), b"\r\n"].concat())
            .expect("sent");
        client
            .write_all(&[&chunk(70_000)[..], b"\r\nno chunk\r\n"].concat())
            .expect("sent");
        let mut answer = [0; 12];
        client.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 400");
    }
    wait_until("every connection to the backend has ended", || {
        let [begun, ended] = [&counts[0], &counts[1]].map(|it| it.load(Ordering::SeqCst));
        (begun > 0 && begun == ended).then_some(())
    });
}
