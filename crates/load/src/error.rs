//! Errors that end a run without a result, and errors that end a connection.

use std::io;

use fermata_proto::response_reader::HeadError;
use fermata_proto::ws::Violation;

use crate::response::Malformed;

/// Reasons why `fermata load` could not run. Every message names the option or the step, the cause and, if possible,
/// the fix.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The value of an option is invalid.
    #[error("{option}: {cause}; {fix}")]
    Option {
        /// Option as typed.
        option: String,
        /// Cause of the error.
        cause: String,
        /// Value to use instead.
        fix: String,
    },
    /// A system call that the run needs failed.
    #[error("{step}: {source}")]
    System {
        /// Step that failed.
        step: String,
        /// Error of the system.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn option(option: &str, cause: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Option {
            option: option.to_string(),
            cause: cause.into(),
            fix: fix.into(),
        }
    }

    pub(crate) fn system(step: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let step = step.into();
        move |source| Self::System { step, source }
    }
}

/// Reasons to give up a connection; the report counts them by their text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// Server: malformed response head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// Server: malformed response.
    #[error(transparent)]
    Response(#[from] Malformed),
    /// Server: malformed chunk in the body of an event stream.
    #[error("a malformed chunk")]
    Chunk,
    /// Server: its WebSocket frames violate the protocol.
    #[error(transparent)]
    Frames(#[from] Violation),
    /// Server: it refused to hold the client.
    #[error("the answer was status {0}")]
    Refused(u16),
    /// Server: it did not open a WebSocket.
    #[error("the answer was status {0}, not 101")]
    NotUpgraded(u16),
    /// Server: Sec-WebSocket-Accept does not match the key.
    #[error("the answer has another Sec-WebSocket-Accept than the key asks for")]
    Accept,
    /// Server: it did not select the offered subprotocol.
    #[error("the server chose the subprotocol {chosen}, not {offered}")]
    Subprotocol {
        /// Name, or `none`.
        chosen: Box<str>,
        /// Name, or `none`.
        offered: Box<str>,
    },
    /// Server: it closed a WebSocket that was still in use.
    #[error("the server closed with {} {reason}", code_text(*code))]
    Closed {
        /// Code of the Close frame, if it has one.
        code: Option<u16>,
        /// Close reason; may be empty.
        reason: Box<str>,
    },
    /// Server: it closed a publisher's WebSocket.
    #[error("the server closed the WebSocket")]
    PublisherClosed,
    /// Server: it closed the connection.
    #[error("the server closed the connection")]
    Ended,
    /// Server: a response without a request.
    #[error("an answer came without a request")]
    Unasked,
    /// Server: duplicate messages.
    #[error("more messages came than were sent")]
    TooMany,
    /// The limit --event-bytes-max of this program.
    #[error("an event is larger than --event-bytes-max")]
    EventTooLarge,
    /// Server, or the certificates that the options trust.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// Error of the system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn code_text(code: Option<u16>) -> String {
    code.map_or("no code".to_string(), |code| code.to_string())
}
