//! The other end of the control socket: publishing from a process that is not a worker.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::hub::Message;

/// Bytes of an answer that are read at most; a real one has far fewer.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Why a message was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublisherError {
    /// The socket cannot be reached, or the server has closed it.
    #[error(
        "control socket unix:{path}: {source}; is the server running, and was it started with this `control:`?"
    )]
    Connection {
        /// The socket.
        path: String,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// No answer in time; the message may have been published.
    #[error(
        "control socket unix:{path}: no answer within {timeout_ms} ms; the message may have been published all the same"
    )]
    Timeout {
        /// The socket.
        path: String,
        /// What was waited.
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
/// Opens a connection for itself: a publisher is usually a short script.
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
    let shown = path.display().to_string();
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => PublisherError::Timeout {
            path: shown.clone(),
            timeout_ms,
        },
        _ => PublisherError::Connection {
            path: shown.clone(),
            source,
        },
    };
    let answer = exchange(path, timeout_ms, &body).map_err(&failed)?;
    let broken = || failed(std::io::Error::other("the answer is not HTTP with JSON"));
    let (head, json) = answer.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status = head
        .get(9..12)
        .and_then(|status| status.parse::<u16>().ok());
    // What is refused before it reaches the control socket's own code is answered in plain text.
    let field = |name: &str| match serde_json::from_str::<serde_json::Value>(json) {
        Ok(json) => json.get(name)?.as_str().map(str::to_owned),
        Err(_) if name == "error" => Some(json.trim_end().to_owned()),
        Err(_) => None,
    };
    match status {
        Some(200) => field("id").ok_or_else(broken),
        Some(400..=499) => Err(PublisherError::Misuse(field("error").ok_or_else(broken)?)),
        Some(_) => Err(PublisherError::Backpressure(
            field("error").ok_or_else(broken)?,
        )),
        None => Err(broken()),
    }
}

fn exchange(path: &Path, timeout_ms: u64, body: &str) -> std::io::Result<String> {
    let timeout = Some(Duration::from_millis(timeout_ms.max(1)));
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(timeout)?;
    stream.set_write_timeout(timeout)?;
    let request = format!(
        "POST /publish HTTP/1.1\r\nHost: fermata\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // A refusal may come, and the socket close, before everything was written: the answer tells more
    // than the broken pipe.
    let written = stream.write_all(request.as_bytes());
    let mut answer = String::new();
    let read = stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer);
    if answer.is_empty() {
        written.and(read)?;
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}
