//! Looking into the current request. All strings stay valid until the next `fm_next_event`.

use std::mem::MaybeUninit;

use fermata_proto::number;
use fermata_proto::response;
use fermata_proto::traceparent::TraceParent;

use crate::abi::{FmRequest, FmStr, NOTHING, ask, put};
use crate::worker::FmWorker;

/// What the value of a `traceparent` header says; its strings are parts of that value.
#[repr(C)]
pub struct FmTraceParent {
    /// The trace: 32 digits.
    pub trace_id: FmStr,
    /// The sender's span: 16 digits.
    pub parent_id: FmStr,
    /// Whether the sender may have recorded it.
    pub is_sampled: bool,
}

/// The `nth` (from 0) field line of that name, any case. False when there is none.
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

/// The field line at `index`: name as sent, and value. False past the end.
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

/// Reads the value of a `traceparent` header. False when it is malformed.
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

/// The span that the server records for a request, in digits.
#[repr(C)]
pub struct FmSpan {
    /// Its trace.
    pub trace_id: [u8; 32],
    /// The span.
    pub id: [u8; 16],
}

/// No requests are recorded, or this one is over.
pub const FM_SPAN_NONE: u32 = 0;
/// The request is recorded.
pub const FM_SPAN_RECORDED: u32 = 1;
/// Others are recorded, this one is not.
pub const FM_SPAN_LEFT_OUT: u32 = 2;

/// Whether a request that is not answered yet is recorded; with FM_SPAN_RECORDED `span` is told.
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
                return match worker.worker.is_left_out(request) {
                    true => FM_SPAN_LEFT_OUT,
                    false => FM_SPAN_NONE,
                };
            };
            let (trace_id, id) = (ids.trace_id, ids.id);
            put(span, FmSpan { trace_id, id });
            FM_SPAN_RECORDED
        },
    )
}

/// What the route's `{name}` has matched, percent-decoded. False when the pattern has no such name.
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

/// The route parameter at `index`. False past the end.
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

/// The client's address (without port; `unix` for a Unix socket) and port, as a trusted proxy says, else those of the
/// connection.
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

/// The address of this server that the connection goes to (without port; empty for a Unix socket) and port, and the version of
/// HTTP as `HTTP/1.1`.
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

/// The host and port that the client asked for, as a trusted proxy says, else as the request does. False without one.
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

/// Whether the client speaks TLS, to us or to a trusted proxy; subject and PEM of the certificate it has shown us, `ptr`
/// NULL when it has shown none.
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

/// Whether `name` is a token and `value` a field value (RFC 9110, 5.1 and 5.5): what may be handed
/// to `fm_respond` and `fm_hold`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_header_valid(name: FmStr, value: FmStr) -> bool {
    ask(NOTHING, false, |()| {
        response::valid_name(name.bytes()) && response::valid_value(value.bytes())
    })
}

/// Whether the field frames the message and is therefore the server's own.
#[unsafe(no_mangle)]
pub extern "C" fn fm_header_reserved(name: FmStr) -> bool {
    ask(NOTHING, false, |()| response::reserved_name(name.bytes()))
}
