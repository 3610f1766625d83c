//! Spans of an embedder's upstream requests.

use fermata_io::Driver;

use crate::admin::trace::{Span, SpanIds, Upstream};
use crate::http::Http;
use crate::id::RequestId;
use crate::net::Net;
use crate::net::index::ExchangeIndex;
use crate::worker::Worker;

/// The span of an upstream request in progress.
pub struct UpstreamSpan(Box<Span>);

impl UpstreamSpan {
    /// Returns the `traceparent` header for the upstream request, which makes its spans children of
    /// this one.
    pub fn traceparent(&self) -> String {
        self.0.traceparent()
    }
}

impl<D: Driver> Worker<D> {
    /// Starts the span of an upstream request for a request; `None` if it is not recorded.
    pub fn begin_upstream(&mut self, handle: RequestId) -> Option<UpstreamSpan> {
        let index = self.http.recorded(&self.net, handle)?;
        self.http.trace.begin_upstream(index).map(UpstreamSpan)
    }

    /// Finishes the span when the upstream has responded or failed.
    pub fn end_upstream(&mut self, span: UpstreamSpan, upstream: &Upstream<'_>) {
        self.http.trace.end_upstream(span.0, upstream);
    }

    /// Returns trace and span id of a recorded request, as in `traceparent`.
    pub fn request_span(&self, handle: RequestId) -> Option<SpanIds> {
        self.http.trace.ids(self.http.recorded(&self.net, handle)?)
    }

    /// Returns true if the server records spans, but not for this request. Upstreams must then not
    /// record the request either, whatever the client requests.
    pub fn is_left_out(&self, handle: RequestId) -> bool {
        let index = self.http.recorded(&self.net, handle);
        index.is_some_and(|index| !self.http.trace.is_recorded(index))
    }
}

impl Http {
    /// Returns the exchange of a request, if spans are enabled and it is still open.
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
