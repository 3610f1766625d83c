//! Evaluates conditions and ranges: the complete file, parts of it, or 304.

use std::borrow::Cow;
use std::ops::Range;

use fermata_proto::conditions::{Conditions, Outcome, Validators};
use fermata_proto::negotiate::Codings;
use fermata_proto::range::{self, Ranges};

use crate::http::request::RequestView;

/// Request headers that select the content. Repeated field lines are joined.
#[derive(Clone, Debug, Default)]
pub struct ContentHeaders<'a> {
    if_match: Option<Cow<'a, [u8]>>,
    if_unmodified_since: Option<Cow<'a, [u8]>>,
    if_none_match: Option<Cow<'a, [u8]>>,
    if_modified_since: Option<Cow<'a, [u8]>>,
    if_range: Option<Cow<'a, [u8]>>,
    range: Option<Cow<'a, [u8]>>,
    accept_encoding: Option<Cow<'a, [u8]>>,
}

/// The selected response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// 200 with the complete file.
    Whole,
    /// Status 206 with several parts. There is at least one part.
    Parts(Vec<Range<u64>>),
    /// 304
    NotModified,
    /// 412
    Failed,
    /// 416
    Unsatisfiable,
}

impl<'a> ContentHeaders<'a> {
    /// Extracts the headers from a request in one pass.
    pub(crate) fn of(view: &RequestView<'a>) -> ContentHeaders<'a> {
        let mut headers = ContentHeaders::default();
        for at in 0..view.headers_len() {
            if let Some((name, value)) = view.header_at(at) {
                headers.take(name, value);
            }
        }
        headers
    }

    /// Stores one field line if it is relevant.
    pub fn take(&mut self, name: &[u8], value: &'a [u8]) {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        // The length alone excludes most lines.
        let place = match name.len() {
            5 if is("range") => &mut self.range,
            8 if is("if-match") => &mut self.if_match,
            8 if is("if-range") => &mut self.if_range,
            13 if is("if-none-match") => &mut self.if_none_match,
            15 if is("accept-encoding") => &mut self.accept_encoding,
            17 if is("if-modified-since") => &mut self.if_modified_since,
            19 if is("if-unmodified-since") => &mut self.if_unmodified_since,
            _ => return,
        };
        match place {
            None => *place = Some(Cow::Borrowed(value)),
            // Repeated lines of a list form one list (RFC 9110, section 5.3). Repeated dates and
            // ranges become malformed and count as absent.
            Some(before) => {
                let before = before.to_mut();
                before.extend_from_slice(b", ");
                before.extend_from_slice(value);
            }
        }
    }

    /// Copies borrowed values.
    pub(crate) fn into_owned(self) -> ContentHeaders<'static> {
        let own = |text: Option<Cow<'a, [u8]>>| text.map(|text| Cow::Owned(text.into_owned()));
        ContentHeaders {
            if_match: own(self.if_match),
            if_unmodified_since: own(self.if_unmodified_since),
            if_none_match: own(self.if_none_match),
            if_modified_since: own(self.if_modified_since),
            if_range: own(self.if_range),
            range: own(self.range),
            accept_encoding: own(self.accept_encoding),
        }
    }

    pub(crate) fn conditions(&self) -> Conditions<'_> {
        Conditions {
            if_match: self.if_match.as_deref(),
            if_unmodified_since: self.if_unmodified_since.as_deref(),
            if_none_match: self.if_none_match.as_deref(),
            if_modified_since: self.if_modified_since.as_deref(),
            if_range: self.if_range.as_deref(),
        }
    }

    /// Returns the codings that the client accepts.
    pub(crate) fn codings(&self) -> Codings {
        self.accept_encoding
            .as_deref()
            .map_or(Codings::NONE, Codings::parse)
    }

    pub(crate) fn has_range(&self) -> bool {
        self.range.is_some()
    }

    /// Evaluates conditions and ranges for a representation of `len` bytes. Ranges apply to GET
    /// only.
    pub(crate) fn plan(
        &self,
        validators: &Validators<'_>,
        len: u64,
        is_get: bool,
        now_s: u64,
    ) -> Plan {
        let conditions = self.conditions();
        match conditions.outcome(validators, now_s) {
            Outcome::NotModified => return Plan::NotModified,
            Outcome::Failed => return Plan::Failed,
            Outcome::Send => {}
        }
        let Some(asked) = self.range.as_deref().filter(|_| is_get) else {
            return Plan::Whole;
        };
        if !conditions.range_counts(validators, now_s) {
            return Plan::Whole;
        }
        match range::parse(asked, len) {
            Ranges::Whole => Plan::Whole,
            Ranges::Parts(parts) => Plan::Parts(parts),
            Ranges::Unsatisfiable => Plan::Unsatisfiable,
        }
    }
}

/// Returns the header of one of several parts (RFC 9110, section 14.6).
pub(crate) fn part_head(
    boundary: &str,
    content_type: &[u8],
    part: &Range<u64>,
    len: u64,
) -> Vec<u8> {
    let mut head = format!("\r\n--{boundary}\r\nContent-Type: ").into_bytes();
    head.extend_from_slice(content_type);
    head.extend_from_slice(b"\r\nContent-Range: ");
    range::write_content_range(&mut head, part, len);
    head.extend_from_slice(b"\r\n\r\n");
    head
}

/// Returns the end of a multipart body.
pub(crate) fn parts_tail(boundary: &str) -> Vec<u8> {
    format!("\r\n--{boundary}--\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(lines: &[(&str, &str)], is_get: bool) -> Plan {
        let mut headers = ContentHeaders::default();
        for (name, value) in lines {
            headers.take(name.as_bytes(), value.as_bytes());
        }
        let validators = Validators {
            etag: Some(b"\"a\""),
            modified_s: Some(784_111_777),
        };
        headers.plan(&validators, 10, is_get, 1_000_000_000)
    }

    #[test]
    fn applies_conditions_before_ranges() {
        let range = ("Range", "bytes=0-1");
        assert_eq!(
            plan(&[range], true),
            Plan::Parts(std::iter::once(0..2).collect())
        );
        assert_eq!(plan(&[range], false), Plan::Whole);
        let fresh = ("If-None-Match", "\"a\"");
        assert_eq!(plan(&[range, fresh], true), Plan::NotModified);
        let stale = ("if-match", "\"b\"");
        assert_eq!(plan(&[range, stale], true), Plan::Failed);
        let beyond = ("RANGE", "bytes=10-");
        assert_eq!(plan(&[beyond], true), Plan::Unsatisfiable);
    }

    #[test]
    fn sends_the_complete_file_if_if_range_differs() {
        let range = ("Range", "bytes=0-1");
        let parts = Plan::Parts(std::iter::once(0..2).collect());
        assert_eq!(plan(&[range, ("If-Range", "\"a\"")], true), parts);
        assert_eq!(plan(&[range, ("If-Range", "\"b\"")], true), Plan::Whole);
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(plan(&[range, ("If-Range", date)], true), parts);
        let beyond = [("Range", "bytes=10-"), ("If-Range", "\"b\"")];
        assert_eq!(plan(&beyond, true), Plan::Whole);
    }

    #[test]
    fn joins_repeated_list_fields() {
        let lines = [("If-None-Match", "\"x\""), ("If-None-Match", "\"a\"")];
        assert_eq!(plan(&lines, true), Plan::NotModified);
        let twice = [("Range", "bytes=0-1"), ("Range", "bytes=2-3")];
        assert_eq!(plan(&twice, true), Plan::Whole);
    }
}
