//! What is remembered of requests whose handlers wait.

use std::collections::HashMap;
use std::net::IpAddr;

use fermata_proto::http1::Method;

use crate::http::files::ContentHeaders;
use crate::net::index::ExchangeIndex;

/// What an answer depends on of a request whose bytes are gone: remembered while its handler waits.
pub(crate) struct DeferredRequest {
    /// The request, since another one may have taken its connection's place.
    pub handle: u64,
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
    pub fn get(&self, handle: u64) -> Option<&DeferredRequest> {
        let request = self.0.get(&ExchangeIndex::of_request(handle))?;
        (request.handle == handle).then_some(request)
    }

    /// The same, for the answer, which comes once.
    pub fn take(&mut self, handle: u64) -> Option<Box<DeferredRequest>> {
        self.get(handle)?;
        self.0.remove(&ExchangeIndex::of_request(handle))
    }

    /// Keeps it until it is taken, or another request takes its exchange's place.
    pub fn remember(&mut self, request: Box<DeferredRequest>) {
        self.0
            .insert(ExchangeIndex::of_request(request.handle), request);
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
