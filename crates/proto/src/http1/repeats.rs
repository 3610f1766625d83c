//! Cache of the header lines of the previous head.
//!
//! A client sends the same lines with every request of its connection, and many connections come from one application
//! or proxy; only the target changes. A worker therefore stores the lines it parsed last. Lines that are equal byte for
//! byte, up to the final empty line and within one minor version, are not parsed again.

use super::head::{Body, Head, HeaderSpan, Limits};
use crate::Span;

/// Maximum number of bytes of lines to store. If requests of different clients alternate, copying longer lines costs more than
/// it saves.
const BYTES_MAX: usize = 1024;

/// Header lines of the previous head and their meaning.
#[derive(Debug, Default)]
pub struct Repeats {
    /// The bytes from the end of the request line to the end of the head. Empty if none are stored.
    bytes: Vec<u8>,
    minor_version: u8,
    body: Body,
    keep_alive: bool,
    expect_continue: bool,
    upgrade: bool,
    /// `host` and `headers` are positions in `bytes`.
    host: Option<Span>,
    headers: Vec<HeaderSpan>,
}

impl Repeats {
    /// If the lines at `at` equal the stored lines, fills `head` and returns the length of the lines.
    #[inline]
    pub(super) fn recall(
        &self,
        buf: &[u8],
        at: usize,
        limits: &Limits,
        head: &mut Head,
    ) -> Option<usize> {
        if self.bytes.is_empty()
            || self.minor_version != head.minor_version
            || self.headers.len() > limits.headers_count_max
            || !buf[at..].starts_with(&self.bytes)
        {
            return None;
        }
        let moved = |span: Span| Span {
            start: span.start + at as u32,
            len: span.len,
        };
        head.headers
            .extend(self.headers.iter().map(|line| HeaderSpan {
                name: moved(line.name),
                value: moved(line.value),
            }));
        head.host = head.host.or(self.host.map(moved));
        head.body = self.body;
        head.keep_alive = self.keep_alive;
        head.expect_continue = self.expect_continue;
        head.upgrade = self.upgrade;
        Some(self.bytes.len())
    }

    /// Stores the lines of a parsed head, `buf[at..end]`, if they are short and contain no credentials. `host` is the value of
    /// `Host`.
    pub(super) fn keep(
        &mut self,
        buf: &[u8],
        (at, end): (usize, usize),
        head: &Head,
        host: Option<Span>,
        has_secrets: bool,
    ) {
        self.bytes.clear();
        // Do not store credentials. Otherwise the duration of a comparison would reveal credentials of other clients.
        if has_secrets || end - at > BYTES_MAX {
            return;
        }
        self.bytes.extend_from_slice(&buf[at..end]);
        let moved = |span: Span| Span {
            start: span.start - at as u32,
            len: span.len,
        };
        self.minor_version = head.minor_version;
        self.body = head.body;
        self.keep_alive = head.keep_alive;
        self.expect_continue = head.expect_continue;
        self.upgrade = head.upgrade;
        self.host = host.map(moved);
        self.headers.clear();
        self.headers
            .extend(head.headers.iter().map(|line| HeaderSpan {
                name: moved(line.name),
                value: moved(line.value),
            }));
    }
}
