//! Sends PHP-FPM's response, or an error, to the client as the response arrives.

use fermata_config::LogLevel;
use fermata_engine::{RequestId, ResponseHead, StreamError, Worker, reserved_name};
use fermata_io::Kernel;
use fermata_tls::Tls;

use crate::codec::{Head, VariablesError};
use crate::fastcgi_request::{Answer, FastCgiRequest};

pub(crate) type Engine = Worker<Tls<Kernel>>;

/// Maximum number of bytes read of an unneeded response before its connection is closed.
const DRAINED_BYTES_MAX: usize = 256 * 1024;

const TEXT: &[u8] = b"text/plain; charset=utf-8";

/// Progress of a request.
pub(crate) enum Step {
    /// The request waits for an event.
    Waits,
    /// The request has ended.
    Over,
    /// PHP-FPM has failed: the client gets the status, the log the cause.
    Failed(u16, String),
    /// The connection was closed before PHP-FPM could have read the request: repeat the request.
    Again,
}

/// Sends the available data to the client. Returns `None` if more has to be read first.
pub(crate) fn give(
    worker: &mut Engine,
    request: &mut FastCgiRequest,
    socket: &str,
) -> Option<Step> {
    let is_complete = request.exchange.is_complete();
    if request.answer == Answer::None {
        let head = request.head.as_ref()?;
        match begin_answer(worker, request.handle, head, &request.pending, is_complete) {
            Some(answer) => request.answer = answer,
            None => return Some(Step::Over),
        }
    }
    match request.answer {
        Answer::Whole => {
            request.drained += request.pending.len();
            request.pending.clear();
            (is_complete || request.drained > DRAINED_BYTES_MAX).then_some(Step::Over)
        }
        Answer::Busy => Some(Step::Waits),
        Answer::None | Answer::Asking => {
            if request.pending.is_empty()
                && let Err(error) = request.spool.read(&mut request.pending)
            {
                let cause = format!("a stored response cannot be read: {error}");
                return Some(Step::Failed(500, cause));
            }
            if !request.pending.is_empty() {
                let taken = match worker.net.write_stream(request.handle, &request.pending) {
                    Ok(taken) => taken,
                    Err(error) => return Some(cut(worker, request, socket, error)),
                };
                request.pending.drain(..taken);
                request.answer = Answer::Busy;
            }
            let is_given = request.pending.is_empty() && request.spool.is_empty();
            // In the state `Busy`, the client has not received the last piece yet.
            if is_given && request.failure.is_some() && request.answer != Answer::Busy {
                // Cut the stream, so that the client detects that the rest is missing.
                worker.drop_stream(request.handle);
                return Some(Step::Over);
            }
            if is_complete && is_given {
                if let Err(error) = worker.end_stream(request.handle) {
                    return Some(cut(worker, request, socket, error));
                }
                request.answer = Answer::Whole;
                return Some(Step::Over);
            }
            (request.answer == Answer::Busy).then_some(Step::Waits)
        }
    }
}

/// Handles a script that violated its own Content-Length, or a client that has left.
fn cut(
    worker: &mut Engine,
    request: &mut FastCgiRequest,
    socket: &str,
    error: StreamError,
) -> Step {
    if let StreamError::Misuse(cause) = error {
        let message = format!("FastCGI: {socket}: {cause}");
        worker.net.log_for_client(LogLevel::Warning, &message);
    }
    worker.drop_stream(request.handle);
    request.answer = Answer::Whole;
    Step::Over
}

/// Sends the head, with the body if it is complete. Returns `None` if the client has left.
fn begin_answer(
    worker: &mut Engine,
    handle: RequestId,
    head: &Head,
    body: &[u8],
    is_complete: bool,
) -> Option<Answer> {
    let is = |name: &[u8], other: &[u8]| name.eq_ignore_ascii_case(other);
    let length = head
        .headers
        .iter()
        .find(|(name, _)| is(name, b"content-length"));
    let length = length.and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse::<u64>().ok());
    let headers: Vec<(&[u8], &[u8])> = head
        .headers
        .iter()
        .map(|(name, value)| (&name[..], &value[..]))
        .filter(|(name, _)| !reserved_name(name))
        .collect();
    let passed = ResponseHead {
        status: head.status,
        reason: &head.reason,
        headers: &headers,
        length,
    };
    let is_short = length.is_some_and(|length| length != body.len() as u64);
    if is_complete && !is_short {
        worker.respond_relayed(handle, &passed, body).ok()?;
        return Some(Answer::Whole);
    }
    let has_body = worker.begin_relayed_stream(handle, &passed, length).ok()?;
    Some(if has_body {
        Answer::Asking
    } else {
        Answer::Whole
    })
}

pub(crate) fn refuse(worker: &mut Engine, handle: RequestId, error: VariablesError) {
    match error {
        VariablesError::Path => answer(worker, handle, 400, "The path cannot name a file.\n"),
        VariablesError::Script => answer(worker, handle, 404, "There is no such page.\n"),
        VariablesError::Folder => {
            let target = worker.request().target();
            let at = target
                .iter()
                .position(|&byte| byte == b'?')
                .unwrap_or(target.len());
            let query = &target[at..];
            // A path that starts with two slashes would be read as a host.
            let path = &target[..at];
            let slashes = path.iter().take_while(|&&byte| byte == b'/').count();
            let path = &path[slashes.saturating_sub(1)..];
            let location = [path, b"/", query].concat();
            let headers = [(&b"Location"[..], &location[..])];
            let _ = worker.respond(handle, 301, None, headers.into_iter(), b"");
        }
    }
}

/// Drops the request if its client has left.
pub(crate) fn answer(worker: &mut Engine, handle: RequestId, status: u16, text: &str) {
    let none = std::iter::empty();
    if worker
        .respond(handle, status, Some(TEXT), none, text.as_bytes())
        .is_err()
    {
        worker.drop_request(handle);
    }
}
