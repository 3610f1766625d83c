//! What origins say, in one form for HTTP and FastCGI, without what belongs to one hop.

use fermata_engine::ResponseHead;
use fermata_fastcgi::codec as fastcgi;
use fermata_grip::instruct::Answer;
use fermata_proto::response_reader::Event;

use crate::client::request::headers_bytes;

/// Digits of a status.
const STATUS_BYTES: u64 = 3;

/// A response without its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub status: u16,
    pub reason: Vec<u8>,
    /// Without those of one hop.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// What it says of its body.
    pub length: Option<u64>,
}

impl Head {
    /// Bytes of its words: what is between them, and the version, is not counted.
    pub fn words_bytes(&self) -> u64 {
        let length = self.length.map_or(0, |length| {
            let digits = length.checked_ilog10().unwrap_or_default() + 1;
            "Content-Length".len() as u64 + u64::from(digits)
        });
        STATUS_BYTES + self.reason.len() as u64 + length + headers_bytes(&self.headers)
    }

    /// What a client gets, of whose headers `headers` are those that pass.
    pub fn passed_on<'a>(&'a self, headers: &'a [(&'a [u8], &'a [u8])]) -> ResponseHead<'a> {
        ResponseHead {
            status: self.status,
            reason: &self.reason,
            headers,
            length: self.length,
        }
    }
}

impl From<Answer> for Head {
    fn from(answer: Answer) -> Self {
        Self {
            status: answer.status,
            reason: answer.reason,
            headers: answer.headers,
            length: None,
        }
    }
}

/// What an origin says.
#[derive(Debug)]
pub(crate) enum ResponsePart {
    Head(Head),
    Body(Vec<u8>),
    /// What follows the body; its end comes next.
    Trailers(Vec<(Vec<u8>, Vec<u8>)>),
    End {
        is_reusable: bool,
    },
    /// Bytes of another protocol.
    Upgraded(Vec<u8>),
}

/// Headers of a response that belong to one hop. Its length is told apart.
const REMOVED: [&[u8]; 8] = [
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"upgrade",
    b"transfer-encoding",
    b"content-length",
];

pub(crate) fn cleaned(headers: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let of_hop: Vec<Vec<u8>> = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"))
        .flat_map(|(_, value)| value.split(|&byte| byte == b','))
        .map(|token| token.trim_ascii().to_vec())
        .collect();
    headers
        .into_iter()
        .filter(|(name, value)| {
            // What is not encoded need not say so; what is has to, or nobody could read it.
            let is_identity = name.eq_ignore_ascii_case(b"content-encoding")
                && value.trim_ascii().eq_ignore_ascii_case(b"identity");
            !is_identity
                && !REMOVED.iter().any(|it| name.eq_ignore_ascii_case(it))
                && !of_hop.iter().any(|it| name.eq_ignore_ascii_case(it))
        })
        .collect()
}

pub(crate) fn length_of(headers: &[(Vec<u8>, Vec<u8>)]) -> Option<u64> {
    let (_, value) = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(b"content-length"))?;
    let first = value.split(|&byte| byte == b',').next()?;
    fermata_proto::number::parse_decimal(first.trim_ascii())
}

pub(crate) fn of_http(event: Event) -> Option<ResponsePart> {
    match event {
        // An interim response is for this hop; what it says comes again.
        Event::Interim(_) => None,
        Event::Upgraded(bytes) => Some(ResponsePart::Upgraded(bytes)),
        Event::Head(head) => Some(ResponsePart::Head(Head {
            status: head.status,
            reason: head.reason,
            length: length_of(&head.headers),
            headers: cleaned(head.headers),
        })),
        Event::Body(piece) => Some(ResponsePart::Body(piece)),
        Event::End { is_reusable } => Some(ResponsePart::End { is_reusable }),
    }
}

pub(crate) fn of_fastcgi(event: fastcgi::Event) -> Option<ResponsePart> {
    match event {
        fastcgi::Event::Stderr(_) => None,
        fastcgi::Event::Head(head) => Some(ResponsePart::Head(Head {
            status: head.status,
            reason: head.reason,
            // A program's length is a promise that nobody checks; the body ends with its record.
            length: None,
            headers: cleaned(head.headers),
        })),
        fastcgi::Event::Body(piece) => Some(ResponsePart::Body(piece)),
        fastcgi::Event::End { .. } => Some(ResponsePart::End { is_reusable: true }),
    }
}
