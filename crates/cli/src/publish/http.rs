//! Publishing to an HTTP control port.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};

use fermata_grip::item::Item;
use fermata_grip::packet::Notation;
use serde_json::json;

use super::spec::Url;
use super::tls::{self, Stream};
use super::{TIMEOUT, failed};

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The longest part of a refusal that is shown.
const SHOWN_CHARS_MAX: usize = 500;

/// Sends the item and waits for the answer; any 2xx is a success.
pub fn publish(url: &Url, authorization: Option<&str>, item: &Item) -> Result<(), String> {
    let socket = connect(&url.host, url.port)
        .map_err(|error| failed("connect to", &url.authority(), error))?;
    let mut stream: Box<dyn Stream> = match url.is_tls {
        true => tls::connect(socket, &url.host)?,
        false => Box::new(socket),
    };
    let answer = exchange(&mut *stream, &request(url, authorization, item))
        .map_err(|error| failed("publish to", &url.authority(), error))?;
    let (status, body) =
        answer.ok_or_else(|| failed("publish to", &url.authority(), "the answer is not HTTP"))?;
    match status {
        200..=299 => Ok(()),
        _ => {
            let body: String = String::from_utf8_lossy(&body)
                .trim()
                .chars()
                .take(SHOWN_CHARS_MAX)
                .collect();
            Err(format!(
                "{} refuses with {status}: {}",
                url.authority(),
                body.escape_debug()
            ))
        }
    }
}

/// Connects to the first address that takes the connection.
pub fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(socket) => {
                socket.set_read_timeout(Some(TIMEOUT))?;
                socket.set_write_timeout(Some(TIMEOUT))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn request(url: &Url, authorization: Option<&str>, item: &Item) -> Vec<u8> {
    let body = json!({"items": [item.to_value(Notation::Json).to_json()]}).to_string();
    let authorization =
        authorization.map_or(String::new(), |value| format!("Authorization: {value}\r\n"));
    format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\n{authorization}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        url.path,
        url.authority(),
        body.len(),
    )
    .into_bytes()
}

/// Status and body of the answer; `None`: it is none.
fn exchange(stream: &mut dyn Stream, request: &[u8]) -> io::Result<Option<(u16, Vec<u8>)>> {
    stream.write_all(request)?;
    stream.flush()?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = body_end(&answer)
            && answer.len() >= end
        {
            answer.truncate(end);
            break;
        }
        if answer.len() > ANSWER_BYTES_MAX {
            break;
        }
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => answer.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Servers that close without TLS's farewell have answered nevertheless.
            Err(error)
                if error.kind() == io::ErrorKind::UnexpectedEof && head_end(&answer).is_some() =>
            {
                break;
            }
            Err(error) => return Err(error),
        }
    }
    let status = answer
        .strip_prefix(b"HTTP/1.")
        .and_then(|rest| rest.get(2..5))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse().ok());
    let body = head_end(&answer).map(|end| answer[end..].to_vec());
    Ok(status.zip(body))
}

fn head_end(answer: &[u8]) -> Option<usize> {
    answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .map(|at| at + 4)
}

/// Where the answer ends, if it says so; without a length it ends with the connection.
fn body_end(answer: &[u8]) -> Option<usize> {
    let end = head_end(answer)?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length?.1.trim().parse().ok()?;
    end.checked_add(length)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use fermata_grip::item::{Format, StreamAction};

    use super::*;

    fn item() -> Item {
        Item {
            channel: b"c".to_vec(),
            http_stream: Some(Format::new(StreamAction::Send(b"x".to_vec()))),
            ..Item::default()
        }
    }

    /// Publishes to a server that answers so; the outcome, and what the server was sent.
    fn against(answer: &'static [u8]) -> (Result<(), String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a client");
            let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
            while body_end(&request).is_none_or(|end| request.len() < end) {
                let len = socket.read(&mut buffer).expect("a request");
                request.extend_from_slice(&buffer[..len]);
            }
            socket.write_all(answer).expect("a client that reads");
            String::from_utf8(request).expect("text")
        });
        let url = Url {
            is_tls: false,
            host: "127.0.0.1".into(),
            port,
            path: "/publish/".into(),
        };
        let outcome = publish(&url, Some("Bearer t"), &item());
        (outcome, server.join().expect("the server"))
    }

    #[test]
    fn an_item_is_posted_and_2xx_is_a_success() {
        let (outcome, request) =
            against(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nPublished\n");
        assert_eq!(outcome, Ok(()));
        assert!(
            request.starts_with("POST /publish/ HTTP/1.1\r\nHost: 127.0.0.1:"),
            "{request}"
        );
        assert!(
            request.contains("\r\nAuthorization: Bearer t\r\n"),
            "{request}"
        );
        assert!(
            request.ends_with(
                r#"{"items":[{"channel":"c","formats":{"http-stream":{"content":"x"}}}]}"#
            ),
            "{request}"
        );
        assert_eq!(against(b"HTTP/1.0 202 Fine\r\n\r\n").0, Ok(()));
    }

    #[test]
    fn a_refusal_is_shown_and_garbage_is_no_answer() {
        let (outcome, _) =
            against(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 16\r\n\r\nInvalid format.\n");
        let error = outcome.expect_err("a refusal");
        assert!(
            error.contains("refuses with 400: Invalid format."),
            "{error}"
        );
        for garbage in [&b"SSH-2.0-x\r\n"[..], b"", b"HTTP/1.1 2"] {
            let error = against(garbage).0.expect_err("no answer");
            assert!(error.contains("not HTTP"), "{error}");
        }
    }

    #[test]
    fn nobody_there_is_said_with_the_address() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let url = Url {
            is_tls: false,
            host: "127.0.0.1".into(),
            port,
            path: "/publish/".into(),
        };
        let error = publish(&url, None, &item()).expect_err("nobody");
        assert!(
            error.contains(&format!("127.0.0.1:{port}")) && error.contains("--spec"),
            "{error}"
        );
    }
}
