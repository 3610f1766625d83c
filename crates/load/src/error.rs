//! What ends a run before it has a result, and what ends one of its connections.

use std::io;

use fermata_proto::response_reader::HeadError;
use fermata_proto::ws::Violation;

use crate::response::Malformed;

/// Why `fermata load` could not do what was asked. Every message names the option or the step, the
/// cause and, where there is one, the fix.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option's value cannot be used.
    #[error("{option}: {cause}; {fix}")]
    Option {
        /// The option as it is typed.
        option: String,
        /// What is wrong with it.
        cause: String,
        /// What to give instead.
        fix: String,
    },
    /// The system refused something that the run needs.
    #[error("{step}: {source}")]
    System {
        /// What was being done.
        step: String,
        /// What the system said.
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

/// Why a connection of a run is given up; the report counts its text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The server's: the head of a response cannot be understood.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The server's: a response cannot be understood.
    #[error(transparent)]
    Response(#[from] Malformed),
    /// The server's: the body of an event stream cannot be understood.
    #[error("a malformed chunk")]
    Chunk,
    /// The server's: its frames break the protocol.
    #[error(transparent)]
    Frames(#[from] Violation),
    /// The server's: what was to be held is refused.
    #[error("the answer was status {0}")]
    Refused(u16),
    /// The server's: it does not open a WebSocket.
    #[error("the answer was status {0}, not 101")]
    NotUpgraded(u16),
    /// The server's: it has not read the key.
    #[error("the answer has another Sec-WebSocket-Accept than the key asks for")]
    Accept,
    /// The server's: it does not choose what was offered.
    #[error("the server chose the subprotocol {chosen}, not {offered}")]
    Subprotocol {
        /// By name, or `none`.
        chosen: Box<str>,
        /// By name, or `none`.
        offered: Box<str>,
    },
    /// The server's: it closes a WebSocket that is wanted.
    #[error("the server closed with {} {reason}", code_text(*code))]
    Closed {
        /// From the Close frame, where it has one.
        code: Option<u16>,
        /// May be empty.
        reason: Box<str>,
    },
    /// The server's: it closes a WebSocket that publishes.
    #[error("the server closed the WebSocket")]
    PublisherClosed,
    /// The server's: the connection has ended.
    #[error("the server closed the connection")]
    Ended,
    /// The server's: it answers what nobody asked.
    #[error("an answer came without a request")]
    Unasked,
    /// The server's: it repeats messages.
    #[error("more messages came than were sent")]
    TooMany,
    /// A limit of ours.
    #[error("an event is larger than --event-bytes-max")]
    EventTooLarge,
    /// The server's, or that of the trust that the options give it.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The system's.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn code_text(code: Option<u16>) -> String {
    code.map_or("no code".to_string(), |code| code.to_string())
}
