//! Access to the current request. All strings stay valid until the next `fm_next_event`.

use std::mem::MaybeUninit;

use fermata_proto::number;
use fermata_proto::response;
use fermata_proto::traceparent::TraceParent;

use crate::abi::{FmRequest, FmStr, NOTHING, ask, put};
use crate::worker::FmWorker;

/// A parsed `traceparent` header value; the strings are parts of that value.
#[repr(C)]
pub struct FmTraceParent {
    /// Trace id, 32 hexadecimal digits.
    pub trace_id: FmStr,
    /// Span id of the sender, 16 hexadecimal digits.
    pub parent_id: FmStr,
    /// True if the sender may have recorded the trace.
    pub is_sampled: bool,
}

/// Returns the `nth` (from 0) field line of that name, ignoring case. Returns false if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn fm_request_header(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    lower_case_name: FmStr,
    nth: usize,
    value: Option<&mut MaybeUninit<FmStr>>,
) -> bool {
    ask(worker, false, |worker| {
        let Some(view) = worker.view(request) else {
            return false;
        };
        let Some(found) = view.header(lower_case_name.bytes(), nth) else {
            return false;
        };
        put(value, FmStr::lend(found));
        true
    })
}

/// Returns the field line at `index`: name as sent, and value. False past the end.
#[unsafe(no_mangle)]
pub extern "C" fn fm_request_header_at(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    index: usize,
    name: Option<&mut MaybeUninit<FmStr>>,
    value: Option<&mut MaybeUninit<FmStr>>,
) -> bool {
    ask(worker, false, |worker| {
        let Some((line_name, line_value)) =
            worker.view(request).and_then(|view| view.header_at(index))
        else {
            return false;
        };
        put(name, FmStr::lend(line_name));
        put(value, FmStr::lend(line_value));
        true
    })
}

/// Parses a `traceparent` header value. Returns false if the value is malformed.
#[unsafe(no_mangle)]
pub extern "C" fn fm_trace_parent(
    value: FmStr,
    parent: Option<&mut MaybeUninit<FmTraceParent>>,
) -> bool {
    ask(NOTHING, false, |()| {
        let Some(read) = TraceParent::parse(value.bytes()) else {
            return false;
        };
        let answer = FmTraceParent {
            trace_id: FmStr::lend(read.trace_id),
            parent_id: FmStr::lend(read.parent_id),
            is_sampled: read.is_sampled,
        };
        put(parent, answer);
        true
    })
}

/// Span that the server records for a request, in hexadecimal digits.
#[repr(C)]
pub struct FmSpan {
    /// Trace id.
    pub trace_id: [u8; 32],
    /// Span id.
    pub id: [u8; 16],
}

/// Requests are not recorded, or this request has ended.
pub const FM_SPAN_NONE: u32 = 0;
/// The request is recorded.
pub const FM_SPAN_RECORDED: u32 = 1;
/// Other requests are recorded, but this one is not.
pub const FM_SPAN_LEFT_OUT: u32 = 2;

/// Returns the recording state of a request without a response yet. For FM_SPAN_RECORDED it fills `span`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_request_span(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    span: Option<&mut MaybeUninit<FmSpan>>,
) -> u32 {
    ask(
        worker.zip(request.id()),
        FM_SPAN_NONE,
        |(worker, request)| {
            let Some(ids) = worker.worker.request_span(request) else {
                return if worker.worker.is_left_out(request) {
                    FM_SPAN_LEFT_OUT
                } else {
                    FM_SPAN_NONE
                };
            };
            let (trace_id, id) = (ids.trace_id, ids.id);
            put(span, FmSpan { trace_id, id });
            FM_SPAN_RECORDED
        },
    )
}

/// Returns the value of the route parameter `{name}`, percent-decoded. Returns false if the pattern has no such name.
#[unsafe(no_mangle)]
pub extern "C" fn fm_request_route(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    name: FmStr,
    value: Option<&mut MaybeUninit<FmStr>>,
) -> bool {
    ask(worker, false, |worker| {
        let Some(found) = worker
            .view(request)
            .and_then(|view| view.route(name.bytes()))
        else {
            return false;
        };
        put(value, FmStr::lend(found));
        true
    })
}

/// Returns the route parameter at `index`. False past the end.
#[unsafe(no_mangle)]
pub extern "C" fn fm_request_route_at(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    index: usize,
    name: Option<&mut MaybeUninit<FmStr>>,
    value: Option<&mut MaybeUninit<FmStr>>,
) -> bool {
    ask(worker, false, |worker| {
        let Some((found_name, found)) = worker.view(request).and_then(|view| view.route_at(index))
        else {
            return false;
        };
        put(name, FmStr::lend(found_name.as_bytes()));
        put(value, FmStr::lend(found));
        true
    })
}

/// Returns the address and port of the client, from a trusted proxy's header or else from the connection. The address has no port,
/// and is `unix` for a Unix socket.
#[unsafe(no_mangle)]
pub extern "C" fn fm_request_remote(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    address: Option<&mut MaybeUninit<FmStr>>,
    port: Option<&mut MaybeUninit<u16>>,
) -> bool {
    ask(worker, false, |worker| {
        if worker.view(request).is_none() {
            return false;
        }
        let client = worker.worker.client_address();
        let text = &mut worker.text;
        text.clear();
        match client {
            Some((ip, _)) => number::address(text, ip),
            None => text.extend_from_slice(b"unix"),
        };
        put(address, FmStr::lend(text));
        put(port, client.map_or(0, |(_, port)| port));
        true
    })
}

/// Returns the local address of the connection, its port, and the HTTP version as `HTTP/1.1`. The address has no port, and is empty
/// for a Unix socket.
#[unsafe(no_mangle)]
pub extern "C" fn fm_request_server(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    address: Option<&mut MaybeUninit<FmStr>>,
    port: Option<&mut MaybeUninit<u16>>,
    protocol: Option<&mut MaybeUninit<FmStr>>,
) -> bool {
    ask(worker, false, |worker| {
        let Some(request) = worker.view(request).map(|view| view.handle()) else {
            return false;
        };
        let own = worker.worker.net.own_address(request);
        let text = &mut worker.text;
        text.clear();
        if let Some(own) = own {
            number::address(text, own.ip().to_canonical());
        }
        put(address, FmStr::lend(text));
        put(port, own.map_or(0, |own| own.port()));
        let version = worker.worker.net.protocol(request);
        put(protocol, FmStr::lend(version.as_bytes()));
        true
    })
}

/// Returns the requested host and port, from a trusted proxy's header or else from the request. Returns false if there is no host.
#[unsafe(no_mangle)]
pub extern "C" fn fm_request_host(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    host: Option<&mut MaybeUninit<FmStr>>,
) -> bool {
    ask(worker, false, |worker| {
        if worker.view(request).is_none() {
            return false;
        }
        let Some(found) = worker.worker.client_host() else {
            return false;
        };
        put(host, FmStr::lend(found));
        true
    })
}

/// Returns true if the client uses TLS, to this server or to a trusted proxy. Sets subject and PEM of the client certificate. `ptr`
/// is NULL if there is no certificate.
#[unsafe(no_mangle)]
pub extern "C" fn fm_request_tls(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    subject: Option<&mut MaybeUninit<FmStr>>,
    pem: Option<&mut MaybeUninit<FmStr>>,
) -> bool {
    ask(worker, false, |worker| {
        if worker.view(request).is_none() {
            return false;
        }
        worker.keep_client();
        if let Some(client) = &worker.client {
            put(subject, FmStr::lend(client.subject.as_bytes()));
            put(pem, FmStr::lend(client.pem.as_bytes()));
        }
        worker.is_secure()
    })
}

/// Returns true if `name` is a token and `value` a field value (RFC 9110, 5.1 and 5.5). Required for fields passed to
/// `fm_respond` and `fm_hold`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_header_valid(name: FmStr, value: FmStr) -> bool {
    ask(NOTHING, false, |()| {
        response::valid_name(name.bytes()) && response::valid_value(value.bytes())
    })
}

/// Returns true if the field frames the message, so that only the server may set it.
#[unsafe(no_mangle)]
pub extern "C" fn fm_header_reserved(name: FmStr) -> bool {
    ask(NOTHING, false, |()| response::reserved_name(name.bytes()))
}
