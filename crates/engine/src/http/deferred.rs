//! State of requests whose handlers wait.

use std::collections::HashMap;
use std::net::IpAddr;

use fermata_proto::http1::Method;

use crate::http::files::ContentHeaders;
use crate::id::RequestId;
use crate::net::index::ExchangeIndex;

/// Request data needed for the response, stored while the handler waits, since the request's bytes
/// are dropped.
pub(crate) struct DeferredRequest {
    /// The request. A later request may use the same exchange.
    pub handle: RequestId,
    pub method: Method,
    pub headers: ContentHeaders<'static>,
    /// Client address, as reported by a trusted proxy.
    pub client: Option<IpAddr>,
    /// The first `Accept` field line.
    pub accept: Option<Box<[u8]>>,
}

/// Requests whose handlers wait: at most one per exchange.
#[derive(Default)]
pub(crate) struct DeferredRequests(HashMap<ExchangeIndex, Box<DeferredRequest>>);

impl DeferredRequests {
    pub fn get(&self, handle: RequestId) -> Option<&DeferredRequest> {
        let request = self.0.get(&handle.exchange())?;
        (request.handle == handle).then_some(request)
    }

    /// Removes and returns the request's state, for its only response.
    pub fn take(&mut self, handle: RequestId) -> Option<Box<DeferredRequest>> {
        self.get(handle)?;
        self.0.remove(&handle.exchange())
    }

    /// Stores the state until it is removed, or replaced by another request of the same exchange.
    pub fn remember(&mut self, request: Box<DeferredRequest>) {
        self.0.insert(request.handle.exchange(), request);
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
