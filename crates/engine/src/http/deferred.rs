//! What is remembered of requests whose handlers wait.

use std::collections::HashMap;
use std::net::IpAddr;

use fermata_proto::http1::Method;

use crate::http::files::ContentHeaders;
use crate::id::RequestId;
use crate::net::index::ExchangeIndex;

/// What an answer depends on of a request whose bytes are gone: remembered while its handler waits.
pub(crate) struct DeferredRequest {
    /// The request, since another one may have taken its connection's place.
    pub handle: RequestId,
    pub method: Method,
    pub headers: ContentHeaders<'static>,
    /// The client's address, as a trusted proxy says.
    pub client: Option<IpAddr>,
    /// The first `Accept` line.
    pub accept: Option<Box<[u8]>>,
}

/// What is kept of requests whose handlers wait: at most one of each exchange.
#[derive(Default)]
pub(crate) struct DeferredRequests(HashMap<ExchangeIndex, Box<DeferredRequest>>);

impl DeferredRequests {
    pub fn get(&self, handle: RequestId) -> Option<&DeferredRequest> {
        let request = self.0.get(&handle.exchange())?;
        (request.handle == handle).then_some(request)
    }

    /// The same, for the answer, which comes once.
    pub fn take(&mut self, handle: RequestId) -> Option<Box<DeferredRequest>> {
        self.get(handle)?;
        self.0.remove(&handle.exchange())
    }

    /// Keeps it until it is taken, or another request takes its exchange's place.
    pub fn remember(&mut self, request: Box<DeferredRequest>) {
        self.0.insert(request.handle.exchange(), request);
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
