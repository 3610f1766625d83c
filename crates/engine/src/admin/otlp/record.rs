//! OTLP encoding of a span.

use std::io::Write as _;

use fermata_proto::number::decimal;

use super::encode::{Attributes, Encoding, SPANS_FIELD};
use super::protobuf;
use crate::admin::json::escape_json;

/// Flags of a span: the span is sampled; its parent's location is known; its parent is remote.
const SAMPLED: u32 = 1;
const HAS_REMOTE: u32 = 1 << 8;
const IS_REMOTE: u32 = 1 << 9;

/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: u64 = 2;

/// Fields of `Span`, and `code` of its `Status`.
mod field {
    pub const TRACE_ID: u32 = 1;
    pub const SPAN_ID: u32 = 2;
    pub const TRACE_STATE: u32 = 3;
    pub const PARENT_SPAN_ID: u32 = 4;
    pub const NAME: u32 = 5;
    pub const KIND: u32 = 6;
    pub const START_TIME_UNIX_NANO: u32 = 7;
    pub const END_TIME_UNIX_NANO: u32 = 8;
    pub const STATUS: u32 = 15;
    pub const STATUS_CODE: u32 = 3;
    pub const FLAGS: u32 = 16;
}

/// A finished span.
pub(crate) struct Record<'a> {
    pub trace_id: u128,
    pub id: u64,
    pub parent_id: Option<u64>,
    /// The parent, if any, belongs to another program.
    pub is_remote: bool,
    /// OTLP's number of the kind.
    pub kind: u32,
    pub name: &'a [u8],
    pub route: Option<&'a str>,
    pub began_us: u64,
    pub ended_us: u64,
    pub attributes: &'a Attributes,
    pub state: &'a [u8],
    pub is_error: bool,
}

impl Record<'_> {
    /// Appends the span in the format of a post.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (began_ns, ended_ns) = (self.began_us * 1000, self.ended_us * 1000);
        match self.attributes.encoding() {
            Encoding::Json => self.write_json(out, began_ns, ended_ns),
            Encoding::Protobuf => protobuf::message(out, SPANS_FIELD, |out| {
                self.write_protobuf(out, began_ns, ended_ns);
            }),
        }
    }

    fn write_json(&self, out: &mut Vec<u8>, began_ns: u64, ended_ns: u64) {
        // Writing to a `Vec` cannot fail.
        let _ = write!(
            out,
            "{{\"traceId\":\"{:032x}\",\"spanId\":\"{:016x}\"",
            self.trace_id, self.id
        );
        if let Some(parent_id) = self.parent_id {
            let _ = write!(out, ",\"parentSpanId\":\"{parent_id:016x}\"");
        }
        if !self.state.is_empty() {
            out.extend_from_slice(b",\"traceState\":\"");
            escape_json(out, self.state);
            out.push(b'"');
        }
        let _ = write!(out, ",\"flags\":{},\"name\":\"", self.flags());
        escape_json(out, self.name);
        if let Some(route) = self.route {
            out.push(b' ');
            escape_json(out, route.as_bytes());
        }
        let _ = write!(out, "\",\"kind\":{}", self.kind);
        for (key, ns) in [
            ("startTimeUnixNano", began_ns),
            ("endTimeUnixNano", ended_ns),
        ] {
            let _ = write!(out, ",\"{key}\":\"");
            decimal(out, ns);
            out.push(b'"');
        }
        out.extend_from_slice(b",\"attributes\":[");
        out.extend_from_slice(self.attributes.as_bytes());
        out.push(b']');
        if self.is_error {
            let _ = write!(out, ",\"status\":{{\"code\":{STATUS_ERROR}}}");
        }
        out.push(b'}');
    }

    fn write_protobuf(&self, out: &mut Vec<u8>, began_ns: u64, ended_ns: u64) {
        protobuf::bytes(out, field::TRACE_ID, &self.trace_id.to_be_bytes());
        protobuf::bytes(out, field::SPAN_ID, &self.id.to_be_bytes());
        if !self.state.is_empty() {
            protobuf::text(out, field::TRACE_STATE, self.state);
        }
        if let Some(parent_id) = self.parent_id {
            protobuf::bytes(out, field::PARENT_SPAN_ID, &parent_id.to_be_bytes());
        }
        match self.route {
            Some(route) => {
                let name = [self.name, route.as_bytes()].join(&b' ');
                protobuf::text(out, field::NAME, &name);
            }
            None => protobuf::text(out, field::NAME, self.name),
        }
        protobuf::number(out, field::KIND, u64::from(self.kind));
        protobuf::fixed64(out, field::START_TIME_UNIX_NANO, began_ns);
        protobuf::fixed64(out, field::END_TIME_UNIX_NANO, ended_ns);
        out.extend_from_slice(self.attributes.as_bytes());
        if self.is_error {
            protobuf::message(out, field::STATUS, |out| {
                protobuf::number(out, field::STATUS_CODE, STATUS_ERROR);
            });
        }
        protobuf::fixed32(out, field::FLAGS, self.flags());
    }

    fn flags(&self) -> u32 {
        let is_remote = self.parent_id.is_some() && self.is_remote;
        SAMPLED | HAS_REMOTE | if is_remote { IS_REMOTE } else { 0 }
    }
}
