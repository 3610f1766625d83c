//! Requests of SockJS: selects the session and its worker.

use fermata_engine::{Event, RequestId, Wanted};

use crate::gateway::Gateway;
use crate::sockjs::session_path::{REFUSED, SessionPath, Transport, read};
use crate::sockjs::state::{HANDLER_WORKERS, Use};

const PLAIN: &[u8] = b"text/plain; charset=UTF-8";

/// This type is not plain text, because browsers would guess the type of such text, and would deliver the start of the stream only
/// after more bytes.
const SCRIPT: &[u8] = b"application/javascript; charset=UTF-8";

/// Lets pages of all origins read a response. The application's own origin check decides about the session.
const ANY_ORIGIN: (&[u8], &[u8]) = (b"Access-Control-Allow-Origin", b"*");
const NEVER: (&[u8], &[u8]) = (b"Cache-Control", b"no-store, no-transform");

/// The headers of all responses with frames.
pub(super) const HEADERS: [(&[u8], &[u8]); 2] = [ANY_ORIGIN, NEVER];

/// A request in the form in which it is forwarded.
pub(super) struct Request {
    pub handle: RequestId,
    pub target: String,
    pub origin: Option<String>,
    pub body: Vec<u8>,
}

impl Gateway<'_> {
    /// Handles the current request. Returns false if the request is not for SockJS.
    pub(crate) fn on_sockjs_request(&mut self) -> bool {
        let view = self.worker.request();
        let is_of_worker = view.handler() == HANDLER_WORKERS;
        let target = std::str::from_utf8(view.target()).unwrap_or_default();
        let Some(found) = read(target) else {
            if is_of_worker {
                let handle = view.handle();
                self.refuse_sockjs(handle, 404, "Not Found");
            }
            return is_of_worker;
        };
        let handle = view.handle();
        let session_path = match (view.method(), found) {
            // Requests have a JSON content type, so browsers send a preflight request for another origin.
            (b"OPTIONS", _) => {
                self.answer_preflight(handle);
                return true;
            }
            (b"POST", Some(session_path)) if self.hub.sockjs.is_some() => session_path,
            // After this response, pusher-js falls back to WebSockets. A `pusher:error` over SockJS would also end the connection
            // attempts of other transports.
            _ => {
                self.refuse_sockjs(handle, 404, REFUSED);
                return true;
            }
        };
        let owned = |it: &[u8]| std::str::from_utf8(it).ok().map(str::to_owned);
        let request = Request {
            handle,
            target: target.to_owned(),
            origin: view.header(b"origin", 0).and_then(owned),
            body: view.body().to_vec(),
        };
        let (key, session) = (session_path.key.to_owned(), session_path.session.to_owned());
        let session_path = SessionPath {
            key: &key,
            session: &session,
            transport: session_path.transport,
        };
        let sockjs = self.hub.sockjs.as_ref();
        let owner = sockjs.and_then(|it| it.owner_of(&session));
        match owner.filter(|_| !is_of_worker).map(ToOwned::to_owned) {
            Some(path) => self.pass_on(&path, &session_path, &request),
            None => self.on_session_request(&session_path, &request),
        }
        true
    }

    /// Handles an event of a wire or a request. Returns false if the event is not for SockJS.
    pub(crate) fn on_sockjs_event(&mut self, event: Event) -> bool {
        let Some(sockjs) = &self.hub.sockjs else {
            return false;
        };
        if let (Event::Wire, Some(wire)) = (event, self.worker.waiting.wire()) {
            let found = sockjs.wires.get(&wire.wire).copied();
            match found {
                Some(Use::Session(id)) => self.on_session_wire(id, wire),
                Some(Use::Passed(handle)) => self.on_passed_wire(handle, wire),
                None => return false,
            }
            return true;
        }
        let (Event::Gone(handle) | Event::Stream(handle) | Event::StreamEnd(handle)) = event else {
            return false;
        };
        let Some(found) = sockjs.requests.get(&handle).copied() else {
            // Not a request of SockJS.
            return false;
        };
        match (event, found) {
            (Event::Stream(_), Use::Session(id)) => self.on_session_taken(id, handle),
            (Event::Stream(_), Use::Passed(_)) => self.on_passed_taken(handle),
            (_, Use::Session(id)) => self.on_session_left(id, handle),
            (_, Use::Passed(_)) => self.forget_passed(handle),
        }
        if !matches!(event, Event::Stream(_)) {
            self.worker.drop_request(handle);
        }
        true
    }

    /// Responds to a polling request with a SockJS frame.
    pub(super) fn answer_frame(&mut self, handle: RequestId, frame: &str) {
        self.forget_waiting(handle);
        let body = format!("{frame}\n");
        // If the client has left, no response is needed, here and below.
        let _ = self.worker.respond(
            handle,
            200,
            Some(SCRIPT),
            HEADERS.iter().copied(),
            body.as_bytes(),
        );
    }

    /// Responds with an error.
    pub(super) fn refuse_sockjs(&mut self, handle: RequestId, status: u16, text: &str) {
        self.forget_waiting(handle);
        let headers = HEADERS.iter().copied();
        let body = format!("{text}\n");
        let _ = self
            .worker
            .respond(handle, status, Some(PLAIN), headers, body.as_bytes());
    }

    /// Confirms that messages were accepted.
    pub(super) fn answer_taken(&mut self, handle: RequestId) {
        self.forget_waiting(handle);
        let headers = HEADERS.iter().copied();
        let _ = self.worker.respond(handle, 204, None, headers, b"");
    }

    /// Starts a streaming response with a frame. Returns false if there are too many streams; the request was refused then.
    pub(super) fn begin_frames(&mut self, handle: RequestId, first: &[u8]) -> bool {
        match self.worker.stream_wanted(handle, 200) {
            Wanted::Pieces => {}
            Wanted::Refusal => {
                self.refuse_sockjs(handle, 503, "Too many sessions.");
                return false;
            }
            Wanted::Head | Wanted::Nothing => return false,
        }
        let headers = HEADERS.iter().copied();
        let begun = self
            .worker
            .begin_stream(handle, 200, Some(SCRIPT), headers, None, first);
        begun.is_ok()
    }

    fn answer_preflight(&mut self, handle: RequestId) {
        let headers: [(&[u8], &[u8]); 2] = [
            ANY_ORIGIN,
            (b"Access-Control-Allow-Headers", b"Content-Type"),
        ];
        let _ = self
            .worker
            .respond(handle, 204, None, headers.iter().copied(), b"");
    }

    fn forget_waiting(&mut self, handle: RequestId) {
        if let Some(sockjs) = &mut self.hub.sockjs {
            sockjs.requests.remove(&handle);
        }
    }

    /// Dispatches a request by its transport.
    fn on_session_request(&mut self, session_path: &SessionPath<'_>, request: &Request) {
        match session_path.transport {
            Transport::Send => self.take_messages(session_path, request),
            Transport::Stream | Transport::Poll => self.receive(session_path, request),
        }
    }
}
