//! The client of the control socket: publishing from a process that is not a worker.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::channels::publish::Message;

/// Maximum number of response bytes read; real responses are far shorter.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Why a message was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublisherError {
    /// The socket is unreachable, or the server has closed it.
    #[error(
        "control socket unix:{path}: {source}; is the server running, and was it started with this `control:`?"
    )]
    Connection {
        /// The socket.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// No response in time; the message may have been published.
    #[error(
        "control socket unix:{path}: no answer within {timeout_ms} ms; the message may have been published all the same"
    )]
    Timeout {
        /// The socket.
        path: String,
        /// The time limit.
        timeout_ms: u64,
    },
    /// The server is overloaded.
    #[error("{0}")]
    Backpressure(String),
    /// The server does not accept the message.
    #[error("{0}")]
    Misuse(String),
}

/// Publishes one message through the control socket at `path` and returns its event id.
///
/// Opens a connection per call: a publisher is usually a short script.
pub fn publish(
    path: &Path,
    timeout_ms: u64,
    channel: &[u8],
    message: Message<'_>,
) -> Result<String, PublisherError> {
    let text = |what: &str, bytes: &[u8]| {
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| PublisherError::Misuse(format!("{what} is not valid UTF-8")))
    };
    let mut body = serde_json::json!({
        "channel": text("the channel name", channel)?,
        "data": text("the event's data", message.data)?,
    });
    if let Some(name) = message.name {
        body["name"] = text("the event's name", name)?.into();
    }
    let body = body.to_string();
    let request = format!(
        "POST /publish HTTP/1.1\r\nHost: fermata\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (status, json) = exchange(path, timeout_ms, &request, ANSWER_BYTES_MAX)?;
    let broken = || broken(path, "it is not JSON");
    // Requests refused before dispatch get a response in plain text.
    let field = |name: &str| match serde_json::from_str::<serde_json::Value>(&json) {
        Ok(json) => json.get(name)?.as_str().map(str::to_owned),
        Err(_) if name == "error" => Some(json.trim_end().to_owned()),
        Err(_) => None,
    };
    match status {
        200 => field("id").ok_or_else(broken),
        400..=499 => Err(PublisherError::Misuse(field("error").ok_or_else(broken)?)),
        _ => Err(PublisherError::Backpressure(
            field("error").ok_or_else(broken)?,
        )),
    }
}

/// Returns the error for a malformed response.
pub(crate) fn broken(path: &Path, cause: &str) -> PublisherError {
    PublisherError::Connection {
        path: path.display().to_string(),
        source: std::io::Error::other(format!("cannot parse the response: {cause}")),
    }
}

/// Sends a request with `Connection: close`. Returns the response's status and content, at most
/// `bytes_max` bytes.
pub(crate) fn exchange(
    path: &Path,
    timeout_ms: u64,
    request: &str,
    bytes_max: u64,
) -> Result<(u16, String), PublisherError> {
    let answer =
        transfer(path, timeout_ms, request, bytes_max).map_err(|source| match source.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                PublisherError::Timeout {
                    path: path.display().to_string(),
                    timeout_ms,
                }
            }
            _ => PublisherError::Connection {
                path: path.display().to_string(),
                source,
            },
        })?;
    let parts = answer.split_once("\r\n\r\n").and_then(|(head, body)| {
        let status = head.get(9..12)?.parse().ok()?;
        Some((status, body.to_owned()))
    });
    parts.ok_or_else(|| broken(path, "it is not HTTP"))
}

fn transfer(
    path: &Path,
    timeout_ms: u64,
    request: &str,
    bytes_max: u64,
) -> std::io::Result<String> {
    let timeout = Some(Duration::from_millis(timeout_ms.max(1)));
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(timeout)?;
    stream.set_write_timeout(timeout)?;
    // The server may refuse and close before everything was written; the response is more helpful
    // than the broken pipe.
    let written = stream.write_all(request.as_bytes());
    let mut answer = String::new();
    let read = stream.take(bytes_max).read_to_string(&mut answer);
    if answer.is_empty() {
        written.and(read)?;
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}
