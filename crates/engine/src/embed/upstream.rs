//! Spans of what an embedder asks other servers for a request.

use fermata_io::Driver;

use crate::admin::trace::{Span, SpanIds, Upstream};
use crate::http::Http;
use crate::id::RequestId;
use crate::net::Net;
use crate::net::index::ExchangeIndex;
use crate::worker::Worker;

/// The span of a request to another server, which has not ended.
pub struct UpstreamSpan(Box<Span>);

impl UpstreamSpan {
    /// The header `traceparent` that the other server is to get, so that its spans stand below this one.
    pub fn traceparent(&self) -> String {
        self.0.traceparent()
    }
}

impl<D: Driver> Worker<D> {
    /// Begins the span of what another server is asked for a request; `None` where that is not recorded.
    pub fn begin_upstream(&mut self, handle: RequestId) -> Option<UpstreamSpan> {
        let index = self.http.recorded(&self.net, handle)?;
        self.http.trace.begin_upstream(index).map(UpstreamSpan)
    }

    /// The other server has answered, or will not.
    pub fn end_upstream(&mut self, span: UpstreamSpan, upstream: &Upstream<'_>) {
        self.http.trace.end_upstream(span.0, upstream);
    }

    /// Trace and span of a request that is recorded, as `traceparent` has them.
    pub fn request_span(&self, handle: RequestId) -> Option<SpanIds> {
        self.http.trace.ids(self.http.recorded(&self.net, handle)?)
    }

    /// Whether the server records spans, and not of this request: who is asked for it is not to record it either, whatever its
    /// client says.
    pub fn is_left_out(&self, handle: RequestId) -> bool {
        let index = self.http.recorded(&self.net, handle);
        index.is_some_and(|index| !self.http.trace.is_recorded(index))
    }
}

impl Http {
    /// The exchange of a request, where spans are recorded and it is still there.
    pub(crate) fn recorded<D: Driver>(
        &self,
        net: &Net<D>,
        handle: RequestId,
    ) -> Option<ExchangeIndex> {
        if !self.trace.has_spans() {
            return None;
        }
        let index = handle.exchange();
        let exchange = net.connections.exchange(index)?;
        (exchange.serial == handle.serial()).then_some(index)
    }
}
