//! How far a response is, and whether it is an instruction.

use fermata_grip::filter::Filters;
use fermata_grip::instruct;
use fermata_grip::instruct::{Hold, Instruct, InstructError, MEDIA_TYPE};
use fermata_proto::ws::client::Client;

use crate::upstream::link_body::{LinkBody, PENDING_BYTES_MAX};
use crate::upstream::response::Head;

/// The largest body of an instruction, and of a request that may be held.
pub(crate) const INSTRUCT_BYTES_MAX: usize = 100_000;

/// The lowest status that answers a request.
pub(crate) const STATUS_FINAL_MIN: u16 = 200;

/// What a client is told when its origin is of no use.
pub(crate) const FAILED: &str = "Error while proxying to origin.";

/// How far a response has been read.
pub(crate) enum Phase {
    /// No head has arrived.
    AwaitingHead,
    /// It is read whole: an instruction, or a response that came at once.
    Whole { head: Head, body: Vec<u8> },
    /// The connection has become a WebSocket.
    Socket {
        client: Box<Client>,
        /// The client takes less than the origin sends.
        is_paused: bool,
    },
    /// It is passed on.
    Streaming {
        /// What the client has not taken.
        pending: Vec<u8>,
        /// The client wants more.
        wants: bool,
        has_ended: bool,
        /// What becomes of the client after the body.
        then: Option<Box<Instruct>>,
    },
    /// It is passed on to a stream that is held already.
    Linked(LinkBody),
}

impl Phase {
    /// Whether the origin is to be read on.
    pub fn wants_more(&self) -> bool {
        match self {
            Phase::AwaitingHead | Phase::Whole { .. } => true,
            Phase::Socket { is_paused, .. } => !is_paused,
            Phase::Linked(body) => body.wants_more(),
            Phase::Streaming {
                pending,
                wants,
                has_ended,
                ..
            } => *wants && !has_ended && pending.len() < PENDING_BYTES_MAX,
        }
    }

    /// Whether the client takes what comes, and nothing is before it.
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

/// Headers as a client gets them: whatever an instruction or a publisher has added, how the message is framed is said once.
pub(crate) fn passed(headers: &[(Vec<u8>, Vec<u8>)]) -> Vec<(&[u8], &[u8])> {
    let mut headers = borrowed(headers);
    headers.retain(|(name, _)| !fermata_proto::response::reserved_name(name));
    headers
}

/// Why an instruction is not followed: 502 for the client, and this for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RefusedInstruct {
    /// It is malformed.
    #[error(transparent)]
    Malformed(#[from] InstructError),
    /// Clients would take what follows for the answer to their next request.
    #[error(
        "the instruction answers with status {0}, which is not final; give {STATUS_FINAL_MIN} or more"
    )]
    NotFinal(u16),
    /// Plain bytes would follow compressed ones.
    #[error(
        "the response is compressed, and what is published after it is not; leave out Content-Encoding"
    )]
    Compressed,
    /// Clients would get what a filter was to keep back.
    #[error(
        "channel {channel} has the filter {filter}, which is not known here; Grip-Feature names those that are"
    )]
    UnknownFilter { channel: String, filter: String },
    /// It cannot be kept to be followed.
    #[error("the instruction has more than {INSTRUCT_BYTES_MAX} bytes")]
    TooLarge,
    /// As `Compressed`, of what a link leads to.
    #[error(
        "the next link's answer is compressed, and the stream is not; leave out Content-Encoding"
    )]
    LinkCompressed,
    /// It would answer a request that is answered.
    #[error("the next link is no stream")]
    LinkNoStream,
    /// As `TooLarge`, of what a link leads to.
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

/// The instruction of a response. `None`: it would be in the body, which is not there.
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

/// Whether plain bytes would follow compressed ones.
fn is_compressed_stream(instruct: &Instruct) -> bool {
    let goes_on = instruct.hold == Hold::Stream || instruct.next.is_some();
    goes_on && instruct.hold != Hold::Response && is_compressed(&instruct.answer.headers)
}

/// Whether a body is anything but what it stands for.
pub(crate) fn is_compressed(headers: &[(Vec<u8>, Vec<u8>)]) -> bool {
    headers.iter().any(|(name, value)| {
        let value = value.trim_ascii();
        name.eq_ignore_ascii_case(b"content-encoding")
            && !value.is_empty()
            && !value.eq_ignore_ascii_case(b"identity")
    })
}
