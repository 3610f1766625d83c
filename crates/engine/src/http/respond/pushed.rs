//! Streams into which a running handler pushes events, instead of being polled for pieces.
//!
//! Pushed streams differ from other streams (`stream.rs`) in three ways. The handler is notified
//! when its client disconnects. Pushed data is queued although the engine has not requested it.
//! [`crate::Event::Stream`] reports that all queued data was sent. The embedder limits the queue:
//! it suspends the handler until that event.

use fermata_io::Driver;
use fermata_proto::sse;

use crate::http::respond::streams::StreamError;
use crate::id::RequestId;
use crate::misuse::Misuse;
use crate::net::Net;
use crate::net::running::Running;

/// An event for one client.
#[derive(Clone, Copy, Debug, Default)]
pub struct PushedEvent<'a> {
    /// Data; `None` for an event that only sets `id` or `retry_ms`.
    pub data: Option<&'a [u8]>,
    /// Event name.
    pub name: Option<&'a [u8]>,
    /// Event id, which the client sends as `Last-Event-ID`.
    pub id: Option<&'a [u8]>,
    /// Reconnection time of the client in milliseconds.
    pub retry_ms: Option<u64>,
}

impl<D: Driver> Net<D> {
    fn check_event(&self, event: &PushedEvent<'_>) -> Result<(), Misuse> {
        crate::check_message(&crate::Message {
            name: event.name,
            data: event.data.unwrap_or_default(),
        })?;
        if !event.id.is_none_or(sse::valid_field) {
            return Err(Misuse::EventId);
        }
        let field_len = |field: Option<&[u8]>| field.map_or(0, <[u8]>::len);
        let len = field_len(event.data) + field_len(event.name) + field_len(event.id);
        if len > self.settings.event_bytes_max {
            return Err(self.too_large(len));
        }
        Ok(())
    }

    fn too_large(&self, bytes: usize) -> Misuse {
        let max = self.settings.event_bytes_max;
        Misuse::EventBytes { bytes, max }
    }
}

impl<D: Driver> Net<D> {
    /// Queues an event; returns its encoded length in bytes.
    pub fn push_event(
        &mut self,
        handle: RequestId,
        event: &PushedEvent<'_>,
    ) -> Result<usize, StreamError> {
        self.check_event(event)?;
        let mut out = Vec::new();
        if let Some(retry_ms) = event.retry_ms {
            sse::retry(&mut out, retry_ms);
        }
        match (event.data, event.id) {
            (Some(data), id) => sse::event(&mut out, id, event.name, data),
            (None, Some(id)) => {
                out.extend_from_slice(b"id: ");
                out.extend_from_slice(id);
                out.extend_from_slice(b"\n\n");
            }
            (None, None) => {}
        }
        self.push(handle, &out)
    }

    /// Queues a comment; returns its encoded length in bytes.
    pub fn push_comment(&mut self, handle: RequestId, text: &[u8]) -> Result<usize, StreamError> {
        if text.len() > self.settings.event_bytes_max {
            return Err(self.too_large(text.len()).into());
        }
        let mut out = Vec::new();
        sse::comment(&mut out, text);
        self.push(handle, &out)
    }

    /// Queues bytes of a body that is not an event stream.
    pub fn push_bytes(&mut self, handle: RequestId, bytes: &[u8]) -> Result<usize, StreamError> {
        self.push(handle, bytes)
    }

    /// Returns true if the worker completes open work and accepts no more.
    pub fn is_draining(&self) -> bool {
        self.running != Running::Serving
    }

    fn push(&mut self, handle: RequestId, bytes: &[u8]) -> Result<usize, StreamError> {
        let mut queued = 0;
        while queued < bytes.len() {
            queued += self.write_stream(handle, &bytes[queued..])?;
        }
        // The handler of a polled stream no longer waits after it has written a piece. This handler
        // continues.
        if let Ok(index) = self.open_stream(handle)
            && let Some(exchange) = self.connections.exchange_mut(index)
        {
            exchange.is_deferred = true;
        }
        Ok(queued)
    }
}
