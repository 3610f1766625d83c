//! Export of spans to an OpenTelemetry collector by OTLP over HTTP, as protobuf or JSON.
//!
//! A worker encodes a span when it ends. It passes collected spans to the exporter process as
//! datagrams on a socket pair: at the end of a turn if they are large, and with the counters ten
//! times a second. Spans that the kernel does not accept wait in a bounded buffer; beyond it they
//! are dropped and counted, so no worker waits. The exporter (`exporter.rs`) collects the spans of
//! all workers, posts them, and retries while the collector refuses. A sent datagram survives a
//! crash of its worker. The master keeps the exporter's socket open while the exporter is replaced.
//!
//! The engine has no HTTP client: the embedder provides one through `OpenPost`.

mod encode;
mod exporter;
mod protobuf;
mod record;

use std::io;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use fermata_config::Settings;
use fermata_io::random;

use crate::admin::stats::Shared;

pub(crate) use encode::{Attributes, Encoding};
pub(crate) use exporter::{Exporter, FLUSH_MS_MAX};
pub(crate) use record::Record;

/// Minimum size of collected spans, in bytes, at which they are sent before their time.
const WORTH_SENDING_BYTES: usize = 16 * 1024;
/// Maximum size of a worker's unsent spans in bytes. They are sent in one datagram; a socket pair
/// accepts much larger ones.
const WAITING_BYTES_MAX: usize = 64 * 1024;
/// Length of the span count at the start of a datagram.
const COUNT_BYTES: usize = 4;

/// Why a post got no response, as a clause.
pub type PostError = Box<dyn std::error::Error + Send + Sync>;

/// Opens an HTTP client for a URL.
///
/// The error describes a problem with the URL or the certificates it needs.
pub type OpenPost = fn(url: &str) -> Result<Box<dyn Post>, PostError>;

/// An HTTP client for one URL.
pub trait Post: Send {
    /// Posts and waits for the response, at most `timeout`.
    ///
    /// # Errors
    /// There was no response.
    fn post(
        &mut self,
        content_type: &'static str,
        headers: &[(&str, &str)],
        body: &[u8],
        timeout: Duration,
    ) -> Result<Posted, PostError>;
}

/// The response to a post.
pub struct Posted {
    /// HTTP status.
    pub status: u16,
    /// Seconds after which to retry, if the response has them.
    pub retry_after_s: Option<u64>,
    /// Content.
    pub body: Vec<u8>,
}

/// Why spans cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// The setting `otlp_endpoint` is invalid.
    #[error("otlp_endpoint: {0}")]
    Endpoint(PostError),
    /// The program has no HTTP client.
    #[error("otlp_endpoint: this program cannot send spans; unset it")]
    OtherProgram,
    /// No descriptors.
    #[error("otlp_endpoint: a socket pair: {0}")]
    Io(#[from] io::Error),
}

/// The master's handle, from which workers and the exporter get theirs.
pub(crate) struct Otlp {
    inlet: UnixDatagram,
    outlet: UnixDatagram,
    url: String,
    open: OpenPost,
    encoding: Encoding,
    /// See `Outbox::sampling_key`.
    key: u64,
}

impl Otlp {
    /// Creates the connection to the exporter if a collector is set. Called before the first fork.
    pub fn open(settings: &Settings, open: Option<OpenPost>) -> Result<Option<Otlp>, OtlpError> {
        let Some(endpoint) = &settings.otlp_endpoint else {
            return Ok(None);
        };
        let url = encode::traces_url(endpoint);
        let open = open.ok_or(OtlpError::OtherProgram)?;
        // Report configuration errors at startup.
        open(&url).map_err(OtlpError::Endpoint)?;
        let (inlet, outlet) = UnixDatagram::pair()?;
        inlet.set_nonblocking(true)?;
        Ok(Some(Otlp {
            inlet,
            outlet,
            url,
            open,
            encoding: Encoding::of(settings),
            key: random::u64(),
        }))
    }

    /// Converts it to a worker's handle.
    pub fn into_outbox(self, stats: Shared) -> Outbox {
        Outbox {
            socket: self.inlet,
            waiting: empty(),
            count: 0,
            stats,
            encoding: self.encoding,
            key: self.key,
        }
    }

    /// Notifies the exporter, after all datagrams, that no worker is left. Returns false if the
    /// socket has no room yet: kernels queue as few as ten datagrams (`net.unix.max_dgram_qlen`).
    #[must_use]
    pub fn finish(&self) -> bool {
        self.inlet.send(&[]).is_ok()
    }
}

/// A worker's handle, with spans that were not sent yet.
pub(crate) struct Outbox {
    socket: UnixDatagram,
    /// The number of spans, then the spans, comma-separated in JSON.
    waiting: Vec<u8>,
    count: u32,
    stats: Shared,
    encoding: Encoding,
    key: u64,
}

impl Outbox {
    /// Returns a secret number, equal in all workers.
    pub fn sampling_key(&self) -> u64 {
        self.key
    }

    /// Returns the encoding of spans.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Adds a span written by `write`, unless there is no room.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.waiting.len();
        let has_comma = self.count > 0 && self.encoding == Encoding::Json;
        if has_comma {
            self.waiting.push(b',');
        }
        write(&mut self.waiting);
        self.count += 1;
        if self.waiting.len() <= WAITING_BYTES_MAX {
            return;
        }
        let span = self.waiting.split_off(before);
        self.count -= 1;
        self.send();
        if self.count == 0 && span.len() + COUNT_BYTES <= WAITING_BYTES_MAX {
            // Skip the comma of the first span.
            let from = usize::from(has_comma);
            self.waiting
                .extend_from_slice(span.get(from..).unwrap_or_default());
            self.count = 1;
        } else {
            self.stats.spans_dropped(1);
        }
    }

    /// Sends the collected spans if they are large or `is_due`.
    #[inline]
    pub fn flush(&mut self, is_due: bool) {
        if self.count > 0 && (is_due || self.waiting.len() >= WORTH_SENDING_BYTES) {
            self.send();
        }
    }

    #[inline(never)]
    fn send(&mut self) {
        if self.count == 0 {
            return;
        }
        self.waiting[..COUNT_BYTES].copy_from_slice(&self.count.to_le_bytes());
        match self.socket.send(&self.waiting) {
            // Retried in a later turn.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return;
            }
            Ok(_) => {}
            Err(_) => self.stats.spans_dropped(u64::from(self.count)),
        }
        self.waiting.truncate(COUNT_BYTES);
        self.count = 0;
    }
}

/// Returns the empty start of a datagram.
fn empty() -> Vec<u8> {
    vec![0; COUNT_BYTES]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox() -> (Outbox, UnixDatagram) {
        let (socket, other) = UnixDatagram::pair().expect("there are descriptors");
        socket.set_nonblocking(true).expect("it is a socket");
        let outbox = Outbox {
            socket,
            waiting: empty(),
            count: 0,
            stats: Shared::private(),
            encoding: Encoding::Json,
            key: 0,
        };
        (outbox, other)
    }

    fn received(socket: &UnixDatagram) -> Option<(u32, String)> {
        let mut buffer = vec![0; 2 * WAITING_BYTES_MAX];
        socket.set_nonblocking(true).expect("it is a socket");
        let len = socket.recv(&mut buffer).ok()?;
        let (count, spans) = buffer[..len].split_at(COUNT_BYTES);
        let count = u32::from_le_bytes(count.try_into().expect("four bytes"));
        Some((count, String::from_utf8(spans.to_vec()).expect("text")))
    }

    #[test]
    fn batches_spans_until_large_or_due() {
        let (mut outbox, other) = outbox();
        outbox.append(|out| out.extend_from_slice(b"{1}"));
        outbox.append(|out| out.extend_from_slice(b"{2}"));
        outbox.flush(false);
        assert_eq!(received(&other), None);
        outbox.flush(true);
        assert_eq!(received(&other), Some((2, "{1},{2}".to_owned())));
        outbox.flush(true);
        assert_eq!(received(&other), None);
        outbox.append(|out| out.resize(out.len() + WORTH_SENDING_BYTES, b'x'));
        outbox.flush(false);
        assert_eq!(received(&other).map(|it| it.0), Some(1));
    }

    #[test]
    fn separates_protobuf_spans_by_nothing() {
        let (mut outbox, other) = outbox();
        outbox.encoding = Encoding::Protobuf;
        outbox.append(|out| out.extend_from_slice(b"one"));
        outbox.append(|out| out.extend_from_slice(b"two"));
        // The span does not fit behind the waiting spans, so it is sent separately.
        let large = WAITING_BYTES_MAX - COUNT_BYTES;
        outbox.append(|out| out.resize(out.len() + large, b'x'));
        assert_eq!(received(&other), Some((2, "onetwo".to_owned())));
        outbox.flush(true);
        let last = received(&other).expect("it was sent");
        assert_eq!((last.0, last.1.len()), (1, large));
    }

    #[test]
    fn drops_spans_when_the_exporter_is_blocked() {
        let (mut outbox, other) = outbox();
        let write = |out: &mut Vec<u8>| out.resize(out.len() + 1000, b'x');
        for _ in 0..2000 {
            outbox.append(write);
            outbox.flush(false);
            assert!(outbox.waiting.len() <= WAITING_BYTES_MAX);
        }
        let mut taken = 0;
        while let Some((count, spans)) = received(&other) {
            assert_eq!(spans.len(), count as usize * 1001 - 1);
            taken += u64::from(count);
        }
        let (_, dropped) = outbox.stats.spans();
        assert!(taken > 0 && dropped > 0);
        assert_eq!(taken + dropped + u64::from(outbox.count), 2000);
        // Waiting spans are sent when there is room.
        let waiting = outbox.count;
        outbox.flush(true);
        assert_eq!(received(&other).map(|it| it.0), Some(waiting));
    }

    #[test]
    fn sends_the_end_after_a_full_socket() {
        let settings = Settings {
            otlp_endpoint: Some("http://127.0.0.1:1".to_owned()),
            ..Settings::default()
        };
        let open: OpenPost = |_| Ok(Box::new(NoPost));
        let otlp = Otlp::open(&settings, Some(open)).expect("descriptors");
        let otlp = otlp.expect("there is an endpoint");
        let mut sent = 0;
        while otlp.inlet.send(&[1; COUNT_BYTES]).is_ok() {
            sent += 1;
        }
        assert!(!otlp.finish());
        for _ in 0..sent {
            assert!(received(&otlp.outlet).is_some());
        }
        assert!(otlp.finish());
        assert_eq!(otlp.outlet.recv(&mut [0]).expect("it was sent"), 0);
    }

    struct NoPost;

    impl Post for NoPost {
        fn post(
            &mut self,
            _: &'static str,
            _: &[(&str, &str)],
            _: &[u8],
            _: Duration,
        ) -> Result<Posted, PostError> {
            Err("nobody posts here".into())
        }
    }

    #[test]
    fn drops_a_span_larger_than_the_buffer() {
        let (mut outbox, other) = outbox();
        outbox.append(|out| out.extend_from_slice(b"{}"));
        outbox.append(|out| out.resize(out.len() + WAITING_BYTES_MAX, b'x'));
        outbox.append(|out| out.extend_from_slice(b"[]"));
        outbox.flush(true);
        assert_eq!(received(&other), Some((1, "{}".to_owned())));
        assert_eq!(received(&other), Some((1, "[]".to_owned())));
        assert_eq!(outbox.stats.spans(), (0, 1));
    }
}
