//! Streams that the program pushes events into while its handler goes on, in place of being asked for pieces.
//!
//! They are streams like all others (`stream.rs`), with three differences: the handler is told when its client leaves, what
//! it pushes is queued without being asked for, and [`crate::Event::Stream`] says that all of it has been taken. How much may
//! be queued is up to the embedder, which suspends the handler until then.

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
    /// Its data; `None` for an event that only sets `id` or `retry_ms`.
    pub data: Option<&'a [u8]>,
    /// Its name.
    pub name: Option<&'a [u8]>,
    /// What the client is to send as `Last-Event-ID`.
    pub id: Option<&'a [u8]>,
    /// Time before the client connects again.
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
    /// Queues an event, and says how many bytes it has become.
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

    /// Queues a comment, and says how many bytes it has become.
    pub fn push_comment(&mut self, handle: RequestId, text: &[u8]) -> Result<usize, StreamError> {
        if text.len() > self.settings.event_bytes_max {
            return Err(self.too_large(text.len()).into());
        }
        let mut out = Vec::new();
        sse::comment(&mut out, text);
        self.push(handle, &out)
    }

    /// Queues bytes of a body that is no stream of events.
    pub fn push_bytes(&mut self, handle: RequestId, bytes: &[u8]) -> Result<usize, StreamError> {
        self.push(handle, bytes)
    }

    /// Whether the worker finishes what it has and takes nothing new.
    pub fn is_draining(&self) -> bool {
        self.running != Running::Serving
    }

    fn push(&mut self, handle: RequestId, bytes: &[u8]) -> Result<usize, StreamError> {
        let mut queued = 0;
        while queued < bytes.len() {
            queued += self.write_stream(handle, &bytes[queued..])?;
        }
        // To write a piece is to have made it, for streams whose pieces are waited for; here the handler goes on.
        if let Ok(index) = self.open_stream(handle)
            && let Some(exchange) = self.connections.exchange_mut(index)
        {
            exchange.is_deferred = true;
        }
        Ok(queued)
    }
}
