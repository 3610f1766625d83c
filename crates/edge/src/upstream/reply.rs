//! Progress of a response, and detection of GRIP instructions.

use fermata_fastcgi::spool::Spool;
use fermata_grip::filter::Filters;
use fermata_grip::instruct;
use fermata_grip::instruct::{Hold, Instruct, InstructError, MEDIA_TYPE};
use fermata_proto::ws::client::Client;

use crate::upstream::link_body::{LinkBody, PENDING_BYTES_MAX};
use crate::upstream::response::Head;

/// Maximum size in bytes of an instruction's body, and of the request body of a client that may be held.
pub(crate) const INSTRUCT_BYTES_MAX: usize = 100_000;

/// Lowest final status.
pub(crate) const STATUS_FINAL_MIN: u16 = 200;

/// Response body for a client whose origin failed.
pub(crate) const FAILED: &str = "Error while proxying to origin.";

/// Progress of a response.
pub(crate) enum Phase {
    /// The head has not arrived.
    AwaitingHead,
    /// The body is collected: an instruction, or a short response that arrived together with its head.
    Whole { head: Head, body: Vec<u8> },
    /// The connection was upgraded to a WebSocket.
    Socket {
        client: Box<Client>,
        /// The client's send queue is full, so reading from the origin pauses.
        is_paused: bool,
    },
    /// The body is forwarded while it arrives.
    Streaming {
        /// Bytes that the client has not received.
        pending: Vec<u8>,
        /// Bytes that were read ahead of the client and follow `pending`. `None` if the origin can wait for the client.
        spool: Option<Box<Spool>>,
        /// The client can receive more.
        wants: bool,
        has_ended: bool,
        /// Instruction to follow after the body.
        then: Option<Box<Instruct>>,
    },
    /// The body is forwarded to a stream that is already held.
    Linked(LinkBody),
}

impl Phase {
    /// Returns true if the edge has room for more bytes from the origin.
    pub fn wants_more(&self) -> bool {
        match self {
            Phase::AwaitingHead | Phase::Whole { .. } => true,
            Phase::Socket { is_paused, .. } => !is_paused,
            Phase::Linked(body) => body.wants_more(),
            Phase::Streaming {
                pending,
                spool,
                wants,
                has_ended,
                ..
            } => {
                let is_read_ahead = spool
                    .as_ref()
                    .is_some_and(|it| it.has_room(PENDING_BYTES_MAX));
                !has_ended && (is_read_ahead || *wants && pending.len() < PENDING_BYTES_MAX)
            }
        }
    }

    /// Returns the spool of a response whose client cannot receive more now.
    pub fn spool_ahead(&mut self) -> Option<&mut Spool> {
        match self {
            Phase::Streaming {
                spool: Some(spool),
                wants: false,
                has_ended: false,
                ..
            } => Some(spool),
            _ => None,
        }
    }

    /// Returns the spool of a response.
    pub fn spool(&self) -> Option<&Spool> {
        match self {
            Phase::Streaming { spool, .. } => spool.as_deref(),
            _ => None,
        }
    }

    /// Returns true if bytes can be sent to the client without queueing.
    pub fn passes_at_once(&self) -> bool {
        matches!(self, Phase::Streaming { pending, wants: true, .. } if pending.is_empty())
    }
}

pub(crate) fn borrowed(headers: &[(Vec<u8>, Vec<u8>)]) -> Vec<(&[u8], &[u8])> {
    headers
        .iter()
        .map(|(name, value)| (&name[..], &value[..]))
        .collect()
}

/// Returns the fields for a client without framing fields, which the engine itself writes. An instruction or a publisher may have
/// added framing fields.
pub(crate) fn passed(headers: &[(Vec<u8>, Vec<u8>)]) -> Vec<(&[u8], &[u8])> {
    let mut headers = borrowed(headers);
    headers.retain(|(name, _)| !fermata_proto::response::reserved_name(name));
    headers
}

/// Reason why an instruction is refused. The client receives 502; the text goes to the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RefusedInstruct {
    /// The instruction is malformed.
    #[error(transparent)]
    Malformed(#[from] InstructError),
    /// The status is not final. Clients would use the body as the response to their next request.
    #[error(
        "the instruction answers with status {0}, which is not final; give {STATUS_FINAL_MIN} or more"
    )]
    NotFinal(u16),
    /// The body has a content coding. Published items, which have none, would follow it.
    #[error(
        "the response is compressed, and what is published after it is not; leave out Content-Encoding"
    )]
    Compressed,
    /// The filter is unknown. Clients would receive items that the filter should drop.
    #[error(
        "channel {channel} has the filter {filter}, which is not known here; Grip-Feature names those that are"
    )]
    UnknownFilter { channel: String, filter: String },
    /// The instruction is too large.
    #[error("the instruction has more than {INSTRUCT_BYTES_MAX} bytes")]
    TooLarge,
    /// Like `Compressed`, for the response of a link.
    #[error(
        "the next link's answer is compressed, and the stream is not; leave out Content-Encoding"
    )]
    LinkCompressed,
    /// The response of a link does not hold a stream, but the client's stream has already started.
    #[error("the next link is no stream")]
    LinkNoStream,
    /// Like `TooLarge`, for the response of a link.
    #[error("the next link's instruction has more than {INSTRUCT_BYTES_MAX} bytes")]
    LinkTooLarge,
}

fn unknown_filter(instruct: &Instruct) -> Option<RefusedInstruct> {
    instruct.channels.iter().find_map(|channel| {
        let names = channel.filters.iter().map(Vec::as_slice);
        Filters::unknown(names).map(|name| RefusedInstruct::UnknownFilter {
            channel: channel.name.escape_ascii().to_string(),
            filter: name.escape_ascii().to_string(),
        })
    })
}

/// Reads the instruction of a response. Returns `None` if the instruction is in the body, which has not arrived yet.
pub(crate) fn read_instruct(
    head: &Head,
    body: Option<&[u8]>,
) -> Option<Result<Instruct, RefusedInstruct>> {
    let headers = borrowed(&head.headers);
    let is_json = headers.iter().any(|(name, value)| {
        let media = value.split(|&byte| byte == b';').next().unwrap_or_default();
        name.eq_ignore_ascii_case(b"content-type")
            && media
                .trim_ascii()
                .eq_ignore_ascii_case(MEDIA_TYPE.as_bytes())
    });
    let read = match (is_json, body) {
        (true, Some(body)) => instruct::from_json(head.status, &headers, body),
        (true, None) => return None,
        (false, _) => instruct::from_headers(head.status, &head.reason, &headers),
    };
    Some(match read {
        Ok(instruct) if instruct.answer.status < STATUS_FINAL_MIN => {
            Err(RefusedInstruct::NotFinal(instruct.answer.status))
        }
        Ok(instruct) if is_compressed_stream(&instruct) => Err(RefusedInstruct::Compressed),
        Ok(instruct) => match unknown_filter(&instruct) {
            Some(problem) => Err(problem),
            None => Ok(instruct),
        },
        Err(error) => Err(error.into()),
    })
}

/// Returns true if the instruction would add uncompressed bytes to a compressed body.
fn is_compressed_stream(instruct: &Instruct) -> bool {
    let goes_on = instruct.hold == Hold::Stream || instruct.next.is_some();
    goes_on && instruct.hold != Hold::Response && is_compressed(&instruct.answer.headers)
}

/// Returns true if a body has a content coding.
pub(crate) fn is_compressed(headers: &[(Vec<u8>, Vec<u8>)]) -> bool {
    headers.iter().any(|(name, value)| {
        let value = value.trim_ascii();
        name.eq_ignore_ascii_case(b"content-encoding")
            && !value.is_empty()
            && !value.eq_ignore_ascii_case(b"identity")
    })
}
