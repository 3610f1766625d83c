//! Responses of origins, in the same form for HTTP and FastCGI, without hop-by-hop fields.

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
    /// Fields without hop-by-hop fields.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Value of `Content-Length`.
    pub length: Option<u64>,
}

impl Head {
    /// Returns the size of status, reason and fields without separators.
    pub fn words_bytes(&self) -> u64 {
        let length = self.length.map_or(0, |length| {
            let digits = length.checked_ilog10().unwrap_or_default() + 1;
            "Content-Length".len() as u64 + u64::from(digits)
        });
        STATUS_BYTES + self.reason.len() as u64 + length + headers_bytes(&self.headers)
    }

    /// Returns the head for a client, with these fields.
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

/// Part of a response.
#[derive(Debug)]
pub(crate) enum ResponsePart {
    /// An interim response (RFC 9110, section 15.2).
    Interim(Head),
    Head(Head),
    Body(Vec<u8>),
    /// Trailers, followed by the end.
    Trailers(Vec<(Vec<u8>, Vec<u8>)>),
    End {
        is_reusable: bool,
    },
    /// Bytes of the protocol after an upgrade.
    Upgraded(Vec<u8>),
}

/// Hop-by-hop fields of a response. `Content-Length` is in [`Head::length`].
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
            // `identity` is redundant; any other coding is needed to decode the body.
            let is_identity = name.eq_ignore_ascii_case(b"content-encoding")
                && value.trim_ascii().eq_ignore_ascii_case(b"identity");
            !is_identity
                && !REMOVED.iter().any(|it| name.eq_ignore_ascii_case(it))
                && !of_hop.iter().any(|it| name.eq_ignore_ascii_case(it))
        })
        .collect()
}

/// Returns the interim response for a client. Returns `None` for 100, which responds to the `Expect` of one hop, and for 101, which
/// is invalid without a request for an upgrade.
pub(crate) fn interim(status: u16, headers: Vec<(Vec<u8>, Vec<u8>)>) -> Option<ResponsePart> {
    (102..200).contains(&status).then(|| {
        ResponsePart::Interim(Head {
            status,
            headers: cleaned(headers),
            ..Head::default()
        })
    })
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
        Event::Interim(head) => interim(head.status, head.headers),
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
        fastcgi::Event::Interim(head) => interim(head.status, head.headers),
        fastcgi::Event::Head(head) => Some(ResponsePart::Head(Head {
            status: head.status,
            reason: head.reason,
            // The script's Content-Length is not checked: the body ends with its last record.
            length: None,
            headers: cleaned(head.headers),
        })),
        fastcgi::Event::Body(piece) => Some(ResponsePart::Body(piece)),
        fastcgi::Event::End { .. } => Some(ResponsePart::End { is_reusable: true }),
    }
}
