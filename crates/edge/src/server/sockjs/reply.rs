//! Responses to SockJS requests, readable by any page and not cached.

use fermata_engine::RequestId;
use fermata_sockjs::frame;
use fermata_sockjs::queue::PendingRequest;

use crate::client::request::ClientRequest;
use crate::hash::hash;
use crate::pushpin::sockjs::reply::{NEVER, PLAIN, head, headers, page, push};
use crate::server::sockjs::{PAGE_CACHE, Polling};
use crate::upstream::response::Head;

const SCRIPT: &str = "application/javascript; charset=UTF-8";

/// Time for which browsers cache a preflight response.
const PREFLIGHT_AGE_S: &str = "31536000";

impl Polling<'_> {
    /// Responds with a frame.
    pub(super) fn reply(&mut self, pending: &PendingRequest<RequestId>, frame: &str) {
        self.answer_pending(pending, frame, "\n");
    }

    /// Responds that messages were accepted.
    pub(super) fn reply_ok(&mut self, pending: &PendingRequest<RequestId>) {
        self.answer_pending(pending, "ok", "");
    }

    /// Responds with a frame, as a script or followed by `end`.
    fn answer_pending(&mut self, pending: &PendingRequest<RequestId>, frame: &str, end: &str) {
        self.sockjs.asking.remove(&pending.handle);
        let (media, body) = match &pending.callback {
            Some(callback) => (SCRIPT, frame::script(callback, frame)),
            None => (PLAIN, [frame, end].concat()),
        };
        let head = head(200, headers(pending.origin.as_deref(), media, NEVER));
        self.clients
            .respond(self.worker, pending.handle, &head, body.as_bytes());
    }

    /// Responds with an error.
    pub(super) fn refuse(
        &mut self,
        handle: RequestId,
        request: &ClientRequest,
        status: u16,
        reason: &str,
    ) {
        let pending = PendingRequest {
            handle,
            callback: None,
            origin: request.header("origin").map(<[u8]>::to_vec),
        };
        self.refuse_pending(&pending, status, reason);
    }

    /// Responds with an error to a request that waited.
    pub(super) fn refuse_pending(
        &mut self,
        pending: &PendingRequest<RequestId>,
        status: u16,
        reason: &str,
    ) {
        self.sockjs.asking.remove(&pending.handle);
        let headers = headers(pending.origin.as_deref(), PLAIN, NEVER);
        let body = format!("{reason}\n");
        self.clients.respond(
            self.worker,
            pending.handle,
            &head(status, headers),
            body.as_bytes(),
        );
    }

    /// Responds with the origin's refusal of the WebSocket.
    pub(super) fn relay_refusal(
        &mut self,
        pending: &PendingRequest<RequestId>,
        head: Head,
        body: &[u8],
    ) {
        self.sockjs.asking.remove(&pending.handle);
        let mut head = head;
        for (name, value) in headers(pending.origin.as_deref(), PLAIN, NEVER) {
            let is_there = |(other, _): &(Vec<u8>, Vec<u8>)| other.eq_ignore_ascii_case(&name);
            if !head.headers.iter().any(is_there) {
                head.headers.push((name, value));
            }
        }
        self.clients
            .respond(self.worker, pending.handle, &head, body);
    }

    /// Responds with the page that clients of other hosts load in an iframe.
    pub(super) fn answer_page(&mut self, handle: RequestId, request: &ClientRequest) {
        let page = page(&self.sockjs.url);
        let origin = request.header("origin");
        let mut headers = headers(origin, "text/html; charset=UTF-8", PAGE_CACHE);
        // The tag depends only on the page, so all workers produce the same tag.
        let tag = format!("\"{:016x}\"", hash(page.as_bytes()));
        push(&mut headers, "ETag", tag.as_bytes());
        if request.header("if-none-match") == Some(tag.as_bytes()) {
            self.clients
                .respond(self.worker, handle, &head(304, headers), b"")
        } else {
            self.clients
                .respond(self.worker, handle, &head(200, headers), page.as_bytes())
        }
    }

    /// Responds to a preflight request.
    pub(super) fn answer_preflight(&mut self, handle: RequestId, request: &ClientRequest) {
        let mut headers = headers(request.header("origin"), PLAIN, NEVER);
        push(
            &mut headers,
            "Access-Control-Allow-Methods",
            b"OPTIONS, GET, POST",
        );
        if let Some(asked) = request.header("access-control-request-headers") {
            push(&mut headers, "Access-Control-Allow-Headers", asked);
        }
        push(
            &mut headers,
            "Access-Control-Max-Age",
            PREFLIGHT_AGE_S.as_bytes(),
        );
        self.clients
            .respond(self.worker, handle, &head(204, headers), b"");
    }

    /// Responds to the `info` request, which clients send first.
    pub(super) fn answer_info(&mut self, handle: RequestId, request: &ClientRequest) {
        let info = serde_json::json!({
            "websocket": true,
            "origins": ["*:*"],
            "cookie_needed": false,
            "entropy": fermata_io::random::u64() as u32,
        });
        let headers = headers(
            request.header("origin"),
            "application/json; charset=UTF-8",
            NEVER,
        );
        self.clients.respond(
            self.worker,
            handle,
            &head(200, headers),
            format!("{info}\n").as_bytes(),
        );
    }
}
