//! Bodies of requests that are not here with their heads.

use std::fs::File;

use fermata_engine::{ReadError, Temporary};
use fermata_proto::number;

use crate::client::request::ClientRequest;
use crate::client::source::Source;
use crate::routes::{Origin, Target};
use crate::upstream::reply::INSTRUCT_BYTES_MAX;

/// A request whose body is being collected.
pub(crate) struct Collecting {
    pub(crate) source: Source,
    /// Where the path goes on below that of SockJS, where it is one of those.
    pub(crate) sockjs: Option<usize>,
    pub(crate) body: Vec<u8>,
    /// Where it goes when it is too large for memory and no target takes it as it comes.
    pub(crate) file: Option<(File, Temporary, u64)>,
}

/// What is left of a body that goes to the origin as it arrives.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    /// More was read than the request has in memory: it cannot be said again.
    pub has_begun: bool,
    /// All of it was read.
    pub has_ended: bool,
    /// Why there is no more.
    pub failure: Option<ReadError>,
}

impl Collecting {
    /// Whether every target takes it as it comes.
    pub(crate) fn may_stream(&self) -> bool {
        let has_length = self.source.request.said_length().is_some();
        let takes = |target: &Target| match target.origin {
            Origin::Host { .. } | Origin::Unix(_) | Origin::Files(_) | Origin::Test => true,
            // Programs are told the length before the body.
            Origin::FastCgiHost { .. } | Origin::FastCgiUnix(_) => has_length,
            Origin::Zhttp(_) => true,
            Origin::ZhttpReq(_) => false,
        };
        // What is too large for SockJS is refused, and not read.
        let rule = self.source.rule().filter(|_| self.sockjs.is_none());
        rule.is_none_or(|rule| rule.targets.iter().all(takes))
    }

    pub(crate) fn is_to_stream(&self) -> bool {
        self.file.is_none() && self.body.len() > INSTRUCT_BYTES_MAX
    }
}

impl ClientRequest {
    /// The length that the client has announced.
    pub(crate) fn said_length(&self) -> Option<u64> {
        let value = self.header("content-length")?;
        number::parse_decimal(value.trim_ascii())
    }
}
