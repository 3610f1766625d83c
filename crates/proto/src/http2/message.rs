//! Builds a message head from header fields (RFC 9113, section 8), in the form of the equivalent HTTP/1.1 request.
//!
//! As in HTTP/1, a head that two servers could read differently is rejected. This covers misplaced or repeated
//! pseudo-headers, upper-case names, control bytes, connection-specific headers, a `host` that differs from
//! `:authority`, and repeated lengths.

use super::hpack::{ENTRY_OVERHEAD, Field, static_name_index};
use super::limits::Limits;
use super::priority::Priority;
use crate::http1::{Body, Head, HeaderSpan, METHOD_BYTES_MAX, Method, valid_host};
use crate::http1::{is_token_byte, target_end, value_end};
use crate::number::parse_decimal;
use crate::{Refusal, Span};

/// A head or trailers, filled by [`super::Connection::handle`] and valid until its next call. One per worker is enough.
#[derive(Debug, Default)]
pub struct Message {
    /// Head of the request. Its spans are positions in `text`.
    ///
    /// `:authority` is also present as `host`, and the `cookie` fields are joined, so the lines are those of the same HTTP/1.1
    /// request. A body of unknown length is [`Body::Chunked`]; it ends with the stream. For responses and trailers only `headers`
    /// is valid.
    pub head: Head,
    /// Bytes of names and values.
    pub text: Vec<u8>,
    /// `:scheme`: `http` or `https`.
    pub scheme: Option<Span>,
    /// `:protocol` of an extended CONNECT (RFC 8441, section 4). `head.method` is then [`Method::Connect`], and a path is
    /// present.
    pub protocol: Option<Span>,
    /// `:status` of a response; 0 for a request.
    pub status: u16,
    /// Value of the header `priority`, or [`Priority::STREAM`] without it.
    pub priority: Priority,
    /// Values of the `cookie` fields.
    crumbs: Vec<Span>,
}

impl Message {
    /// Creates an empty message.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the value of the `nth` (from 0) line with this name, which must be in lower case.
    #[must_use]
    pub fn header(&self, name: &[u8], nth: usize) -> Option<&[u8]> {
        self.head.header(&self.text, name, nth)
    }

    /// Returns name and value of each line.
    pub fn headers(&self) -> impl Iterator<Item = (&[u8], &[u8])> + '_ {
        let lines = self.head.headers.iter();
        lines.map(|line| (line.name.of(&self.text), line.value.of(&self.text)))
    }

    fn clear(&mut self) {
        self.head.headers.clear();
        self.head.host = None;
        self.text.clear();
        self.scheme = None;
        self.protocol = None;
        self.status = 0;
        // A client that sends no priority may be a proxy for many clients, so its responses share the connection in
        // turns.
        self.priority = Priority::STREAM;
        self.crumbs.clear();
    }
}

/// Type of a header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Request,
    Response,
    Trailers,
}

/// Remaining part of the limits of a head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    pub list_bytes: u32,
    pub fields: u16,
}

impl Allowance {
    /// Returns the allowance of a new head.
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            list_bytes: limits.header_list_bytes_max,
            fields: limits.headers_count_max,
        }
    }
}

/// Fills a [`Message`] field by field.
pub(super) struct Builder<'a> {
    message: &'a mut Message,
    part: Part,
    limits: &'a Limits,
    allowance: Allowance,
    refusal: Option<Refusal>,
    method: Option<Span>,
    path: Option<Span>,
    authority: Option<Span>,
    host: Option<Span>,
    content_length: Option<u64>,
    expect_continue: bool,
    /// True after the first field that is not a pseudo-header.
    regular: bool,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        message: &'a mut Message,
        part: Part,
        limits: &'a Limits,
        allowance: Allowance,
    ) -> Self {
        message.clear();
        Self {
            message,
            part,
            limits,
            allowance,
            refusal: None,
            method: None,
            path: None,
            authority: None,
            host: None,
            content_length: None,
            expect_continue: false,
            regular: false,
        }
    }

    /// Returns the buffer for decoded fields, and true if the fields are still needed.
    #[inline]
    pub(super) fn text(&mut self) -> (&mut Vec<u8>, bool) {
        (&mut self.message.text, self.refusal.is_none())
    }

    /// Returns the remaining allowance.
    pub(super) fn allowance(&self) -> Allowance {
        self.allowance
    }

    /// Adds the field that was last appended to the text.
    #[inline]
    pub(super) fn take(&mut self, field: Field) {
        if self.refusal.is_some() {
            self.message.text.truncate(field.name.start as usize);
            return;
        }
        if let Err(refusal) = self.take_checked(field) {
            self.refusal = Some(refusal);
            self.message.text.truncate(field.name.start as usize);
        }
    }

    #[inline]
    fn take_checked(&mut self, field: Field) -> Result<(), Refusal> {
        // RFC 9113, section 6.5.2: pseudo-headers and each `cookie` field count like all other fields.
        let size = (field.name.len + field.value.len).saturating_add(ENTRY_OVERHEAD as u32);
        let left = self.allowance.list_bytes.checked_sub(size);
        self.allowance.list_bytes = left.ok_or(Refusal::HeadTooLarge)?;
        let left = self.allowance.fields.checked_sub(1);
        self.allowance.fields = left.ok_or(Refusal::HeadersTooMany)?;

        let text = &self.message.text[..];
        let (name, value) = (field.name.of(text), field.value.of(text));
        if value_end(value, 0) != value.len()
            || matches!(value, [b' ' | b'\t', ..] | [.., b' ' | b'\t'])
        {
            return Err(Refusal::HeaderValue);
        }
        if name.first() == Some(&b':') {
            return self.pseudo(field);
        }
        self.regular = true;
        if field.name_index == 0 {
            check_name(name)?;
        }
        self.regular(field)
    }

    /// Adds a pseudo-header (RFC 9113, section 8.3).
    fn pseudo(&mut self, field: Field) -> Result<(), Refusal> {
        if self.regular {
            return Err(Refusal::PseudoHeaderLate);
        }
        let text = &self.message.text[..];
        let value = field.value;
        // Most fields refer to the static table; its index identifies the name without a comparison.
        let index = match field.name_index {
            0 => static_name_index(field.name.of(text)).unwrap_or(0),
            index => index,
        };
        let place = match (self.part, index) {
            (Part::Request, 1) => &mut self.authority,
            (Part::Request, 2 | 3) => &mut self.method,
            (Part::Request, 4 | 5) => &mut self.path,
            (Part::Request, 6 | 7) => &mut self.message.scheme,
            (Part::Request, 0)
                if self.limits.connect_protocol && field.name.of(text) == b":protocol" =>
            {
                &mut self.message.protocol
            }
            (Part::Response, 8..=14) if self.message.status == 0 => {
                let digits = parse_decimal(value.of(text)).filter(|_| value.len == 3);
                let status = digits.filter(|status| (100..=999).contains(status));
                self.message.status = status.ok_or(Refusal::PseudoHeader)? as u16;
                return Ok(());
            }
            _ => return Err(Refusal::PseudoHeader),
        };
        if place.replace(value).is_some() {
            return Err(Refusal::PseudoHeader);
        }
        Ok(())
    }

    /// Adds a regular field. The length of the name excludes most headers without a comparison.
    #[inline]
    fn regular(&mut self, field: Field) -> Result<(), Refusal> {
        let text = &self.message.text[..];
        let (name, value) = (field.name.of(text), field.value.of(text));
        match name {
            b"te" if value != b"trailers" => return Err(Refusal::ConnectionHeader),
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => {
                return Err(Refusal::ConnectionHeader);
            }
            b"cookie" if self.part == Part::Request => {
                self.message.crumbs.push(field.value);
                return Ok(());
            }
            b"host" if self.part == Part::Request => {
                if self.host.is_some() {
                    return Err(Refusal::HostRepeated);
                }
                self.host = Some(field.value);
                // If there is an `:authority`, `host` is derived from it instead.
                return Ok(());
            }
            b"content-length" if self.part != Part::Trailers => {
                let length = parse_decimal(value).ok_or(Refusal::ContentLengthInvalid)?;
                if self.content_length.replace(length).is_some() {
                    return Err(Refusal::ContentLengthRepeated);
                }
            }
            b"expect" if self.part == Part::Request => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(Refusal::Expectation);
                }
                self.expect_continue = true;
            }
            b"priority" if self.part == Part::Request => {
                self.message.priority = Priority::parse(value);
            }
            _ => {}
        }
        self.message.head.headers.push(HeaderSpan {
            name: field.name,
            value: field.value,
        });
        Ok(())
    }

    /// Checks the complete head and returns its `content-length`. `ends` is true if no body follows.
    pub(super) fn finish(mut self, ends: bool) -> Result<Option<u64>, Refusal> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        match self.part {
            Part::Request => self.finish_request(ends)?,
            Part::Response if self.message.status < 100 || self.message.status == 101 => {
                return Err(Refusal::PseudoHeader);
            }
            Part::Response | Part::Trailers => {}
        }
        Ok(self.content_length)
    }

    /// Checks a request (RFC 9113, sections 8.3.1 and 8.5; RFC 8441, section 4).
    fn finish_request(&mut self, ends: bool) -> Result<(), Refusal> {
        let message = &mut *self.message;
        let text = &message.text[..];
        let head = &mut message.head;

        let method = self.method.ok_or(Refusal::PseudoHeaderMissing)?;
        check_method(method.of(text))?;
        head.method_span = method;
        head.method = Method::from_bytes(method.of(text));
        if head.method == Method::Connect && message.protocol.is_none() {
            // Plain CONNECT has neither `:scheme` nor `:path`; with or without them it is rejected, because the server is
            // no tunnel.
            return Err(Refusal::Connect);
        }
        if message.protocol.is_some_and(|protocol| {
            head.method != Method::Connect || !protocol.of(text).iter().all(|&b| is_token_byte(b))
        }) {
            return Err(Refusal::PseudoHeader);
        }
        match message.scheme.map(|scheme| scheme.of(text)) {
            Some(b"http" | b"https") => {}
            Some(_) => return Err(Refusal::PseudoHeader),
            None => return Err(Refusal::PseudoHeaderMissing),
        }
        let path = self.path.ok_or(Refusal::PseudoHeaderMissing)?;
        set_path(head, text, path, self.limits)?;

        let host = match (self.authority, self.host) {
            (Some(authority), Some(host))
                if !authority.of(text).eq_ignore_ascii_case(host.of(text)) =>
            {
                return Err(Refusal::AuthorityDiffers);
            }
            (Some(host), _) | (None, Some(host)) => host,
            (None, None) => return Err(Refusal::HostMissing),
        };
        if !valid_host(host.of(text)) {
            return Err(Refusal::HostInvalid);
        }
        head.host = Some(host);
        head.minor_version = 1;
        head.body = match self.content_length {
            _ if ends => Body::None,
            None => Body::Chunked,
            Some(0) => Body::None,
            Some(length) => Body::Length(length),
        };
        head.keep_alive = true;
        head.expect_continue = self.expect_continue && head.body != Body::None;
        head.upgrade = false;
        message.add_host(host);
        message.add_cookie();
        Ok(())
    }
}

impl Message {
    fn add_host(&mut self, value: Span) {
        let start = self.text.len();
        self.text.extend_from_slice(b"host");
        let name = Span::new(start, start + 4);
        self.head.headers.push(HeaderSpan { name, value });
    }

    /// Joins the `cookie` fields (RFC 9113, section 8.2.3).
    fn add_cookie(&mut self) {
        let Some((&first, others)) = self.crumbs.split_first() else {
            return;
        };
        let start = self.text.len();
        self.text.extend_from_slice(b"cookie");
        let name = Span::new(start, start + 6);
        let value = if others.is_empty() {
            first
        } else {
            let start = self.text.len();
            self.text.extend_from_within(first.range());
            for crumb in others {
                self.text.extend_from_slice(b"; ");
                self.text.extend_from_within(crumb.range());
            }
            Span::new(start, self.text.len())
        };
        self.head.headers.push(HeaderSpan { name, value });
    }
}

/// Checks that the name is a token in lower case (RFC 9113, section 8.2.1).
fn check_name(name: &[u8]) -> Result<(), Refusal> {
    if name.is_empty() || !name.iter().all(|&byte| is_token_byte(byte)) {
        return Err(Refusal::HeaderName);
    }
    if name.iter().any(u8::is_ascii_uppercase) {
        return Err(Refusal::HeaderNameCase);
    }
    Ok(())
}

fn check_method(method: &[u8]) -> Result<(), Refusal> {
    if method.len() > METHOD_BYTES_MAX {
        return Err(Refusal::MethodTooLong);
    }
    if method.is_empty() || !method.iter().all(|&byte| is_token_byte(byte)) {
        return Err(Refusal::PseudoHeader);
    }
    Ok(())
}

/// Checks and stores `:path`: a path with an optional query, or `*` for OPTIONS.
fn set_path(head: &mut Head, text: &[u8], path: Span, limits: &Limits) -> Result<(), Refusal> {
    if path.len > limits.target_bytes_max {
        return Err(Refusal::TargetTooLong);
    }
    let target = path.of(text);
    let (end, question) = target_end(target, 0);
    let valid = match target {
        [b'/', ..] => end == target.len(),
        b"*" => head.method == Method::Options,
        _ => false,
    };
    if !valid {
        return Err(Refusal::Target);
    }
    let start = path.start as usize;
    head.target = path;
    head.path = Span::new(start, start + question.unwrap_or(end));
    head.query = question.map(|question| Span::new(start + question + 1, start + end));
    Ok(())
}
