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
pub(crate) fn give(worker: &mut Engine, talk: &mut FastCgiRequest, socket: &str) -> Option<Step> {
    let is_complete = talk.exchange.is_complete();
    if talk.answer == Answer::None {
        let head = talk.head.as_ref()?;
        match begin_answer(worker, talk.handle, head, &talk.pending, is_complete) {
            Some(answer) => talk.answer = answer,
            None => return Some(Step::Over),
        }
    }
    match talk.answer {
        Answer::Whole => {
            talk.drained += talk.pending.len();
            talk.pending.clear();
            (is_complete || talk.drained > DRAINED_BYTES_MAX).then_some(Step::Over)
        }
        Answer::Busy => Some(Step::Waits),
        Answer::None | Answer::Asking => {
            if talk.pending.is_empty()
                && let Err(error) = talk.spool.read(&mut talk.pending)
            {
                let cause = format!("a stored response cannot be read: {error}");
                return Some(Step::Failed(500, cause));
            }
            if !talk.pending.is_empty() {
                let taken = match worker.net.write_stream(talk.handle, &talk.pending) {
                    Ok(taken) => taken,
                    Err(error) => return Some(cut(worker, talk, socket, error)),
                };
                talk.pending.drain(..taken);
                talk.answer = Answer::Busy;
            }
            let is_given = talk.pending.is_empty() && talk.spool.is_empty();
            // In the state `Busy`, the client has not received the last piece yet.
            if is_given && talk.failure.is_some() && talk.answer != Answer::Busy {
                // Cut the stream, so that the client detects that the rest is missing.
                worker.drop_stream(talk.handle);
                return Some(Step::Over);
            }
            if is_complete && is_given {
                if let Err(error) = worker.end_stream(talk.handle) {
                    return Some(cut(worker, talk, socket, error));
                }
                talk.answer = Answer::Whole;
                return Some(Step::Over);
            }
            (talk.answer == Answer::Busy).then_some(Step::Waits)
        }
    }
}

/// Handles a script that violated its own Content-Length, or a client that has left.
fn cut(worker: &mut Engine, talk: &mut FastCgiRequest, socket: &str, error: StreamError) -> Step {
    if let StreamError::Misuse(cause) = error {
        let message = format!("FastCGI: {socket}: {cause}");
        worker.net.log_for_client(LogLevel::Warning, &message);
    }
    worker.drop_stream(talk.handle);
    talk.answer = Answer::Whole;
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
