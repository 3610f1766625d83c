//! Header lines that are those of the head before.
//!
//! A client sends the same lines with every request of its connection, and many connections come from one program or
//! one proxy; only the target changes. So what a worker has understood last is kept, and lines that are the same byte
//! by byte are not read again: they mean the same. This holds for nothing but lines, the whole of them up to the empty
//! one, and within one minor version.

use super::head::{Body, Head, HeaderSpan, Limits};
use crate::Span;

/// Longer lines are read each time: keeping them costs more than it saves where clients take turns.
const BYTES_MAX: usize = 1024;

/// The lines of the head before and what they mean.
#[derive(Debug, Default)]
pub struct Repeats {
    /// From behind the request line to the end of the head; empty when nothing is kept.
    bytes: Vec<u8>,
    minor_version: u8,
    body: Body,
    keep_alive: bool,
    expect_continue: bool,
    upgrade: bool,
    /// This and the headers are positions in `bytes`.
    host: Option<Span>,
    headers: Vec<HeaderSpan>,
}

impl Repeats {
    /// Fills `head` when the lines that begin at `at` are those of before; then their length.
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

    /// Keeps the lines of a head that was read, `buf[at..end]`, unless they should not be: `host` is that of `Host`.
    pub(super) fn keep(
        &mut self,
        buf: &[u8],
        (at, end): (usize, usize),
        head: &Head,
        host: Option<Span>,
        has_secrets: bool,
    ) {
        self.bytes.clear();
        // How long a comparison takes must tell nobody what others have sent.
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
