//! Queries a NATS server for the leader of a stream.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Timeout of the query; without a leader no response arrives.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// Maximum size of the response.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Returns the name of the server that leads the stream with this prefix, or `None` without a leader.
pub fn leader(port: u16, prefix: &str) -> Option<String> {
    let end = Instant::now() + ANSWER_MAX;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_MAX).ok()?;
    let question = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB _INBOX.leader 1\r\nPUB $JS.API.STREAM.INFO.FERMATA_{prefix} _INBOX.leader 0\r\n\r\n"
    );
    stream.write_all(question.as_bytes()).ok()?;
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    while answer.len() < ANSWER_BYTES_MAX {
        let rest = end.saturating_duration_since(Instant::now());
        stream
            .set_read_timeout(Some(rest).filter(|it| !it.is_zero()))
            .ok()?;
        if rest.is_zero() {
            return None;
        }
        match stream.read(&mut piece) {
            Ok(len) if len > 0 => answer.extend_from_slice(&piece[..len]),
            _ => return None,
        }
        if let Some(body) = body(&answer) {
            let info: serde_json::Value = serde_json::from_slice(body).ok()?;
            return Some(info["cluster"]["leader"].as_str()?.to_owned());
        }
    }
    None
}

/// Returns the content of the first message, or `None` while it is incomplete.
fn body(input: &[u8]) -> Option<&[u8]> {
    const MESSAGE: &[u8] = b"\r\nMSG ";
    let start = input.windows(MESSAGE.len()).position(|it| it == MESSAGE)? + MESSAGE.len();
    let end = start + input[start..].windows(2).position(|it| it == b"\r\n")?;
    let line = std::str::from_utf8(&input[start..end]).ok()?;
    let len: usize = line.rsplit(' ').next()?.parse().ok()?;
    input.get(end + 2..)?.get(..len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_is_found_when_it_is_whole() {
        let input = b"INFO {}\r\nMSG _INBOX.leader 1 5\r\nhello\r\n";
        assert_eq!(body(input), Some(&b"hello"[..]));
        for len in 0..input.len() - 2 {
            assert_eq!(body(&input[..len]), None, "{len}");
        }
        assert_eq!(body(b"INFO {}\r\nMSG x 1 x\r\nhello"), None);
    }
}
