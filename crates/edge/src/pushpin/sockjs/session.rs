//! A polling SockJS session: connects requests of a browser with a WebSocket of this worker.
//!
//! [`Session::handle`] receives bytes of the WebSocket; [`Session::take_replies`] returns responses to requests.

use fermata_engine::{RequestId, WireId};
use fermata_io::random::Masks;
use fermata_proto::response_reader::{RequestKind, ResponseReader};
use fermata_proto::ws::client::{Client, Received};
use fermata_proto::ws::message::Kind;
use fermata_sockjs::queue::{PendingRequest, Queue};

use crate::client::source::Source;
use crate::upstream::response::{Head, ResponsePart, of_http};

/// Maximum size of an origin's message, and of a response that refuses the WebSocket.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
const REFUSAL_BYTES_MAX: usize = 100_000;

/// Status of a successful handshake.
const SWITCHED: u16 = 101;

/// Close code of a session whose WebSocket ended without a close frame.
const AWAY: u16 = 1001;

/// A polling session.
pub(crate) struct Session {
    pub name: Name,
    /// Origin of the page that owns the session, from the first request with an `Origin`; `None` before that request.
    origin: Option<Vec<u8>>,
    /// The handshake; `None` after it was sent.
    pub source: Option<Source>,
    /// Connection of the WebSocket; `None` after it closed.
    pub wire: Option<WireId>,
    pub can_read: bool,
    /// Bytes not yet sent to the WebSocket.
    pub out: Vec<u8>,
    pub queue: Queue<RequestId>,
    /// Bytes of the queue that are included in the sum of all sessions.
    pub counted: usize,
    stage: Stage,
    /// Request whose messages are in `out`.
    sender: Option<PendingRequest<RequestId>>,
    /// Responses to send.
    replies: Vec<(PendingRequest<RequestId>, Reply)>,
}

/// State of a session's WebSocket.
enum Stage {
    Opening {
        reader: Box<ResponseReader>,
        refusal: Option<(Head, Vec<u8>)>,
    },
    Open(Box<Client>),
    Ended,
}

/// Response to a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A frame.
    Frame(String),
    /// The messages of the request were accepted.
    Taken,
    /// The session does not exist.
    NotFound,
    /// Another request of the client is sending.
    SendsAlready,
    /// The origin's refusal of the WebSocket.
    Refused(Head, Vec<u8>),
    /// The origin neither opened nor refused the WebSocket.
    Failed,
}

/// State of a session after bytes of its WebSocket were handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Goes,
    Over,
}

impl Session {
    /// Creates a session. The first request receives its response when the WebSocket is open.
    pub fn new(name: Name, source: Source, id: u64, wire: WireId, queue: Queue<RequestId>) -> Self {
        // The number identifies the session. The key may be constant, because the handshake never leaves the process.
        let out = format!(
            "GET /{id} HTTP/1.1\r\nHost: edge\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        Self {
            name,
            origin: source.request.header("origin").map(<[u8]>::to_vec),
            source: Some(source),
            wire: Some(wire),
            can_read: false,
            out: out.into_bytes(),
            queue,
            counted: 0,
            stage: Stage::Opening {
                reader: Box::new(ResponseReader::new(RequestKind {
                    is_head: false,
                    wants_upgrade: true,
                })),
                refusal: None,
            },
            sender: None,
            replies: Vec::new(),
        }
    }

    /// Returns false if a request comes from a page of a different origin than the session's. Browsers send no `Origin` with the
    /// GET of a script element.
    pub fn admits(&mut self, origin: Option<&[u8]>) -> bool {
        let Some(origin) = origin else {
            return true;
        };
        self.origin.get_or_insert_with(|| origin.to_vec()) == origin
    }

    /// Sends messages of a request. Returns true if the request waits until they were sent.
    pub fn send(
        &mut self,
        pending: PendingRequest<RequestId>,
        messages: Vec<String>,
        masks: &mut Masks,
    ) -> bool {
        let refusal = match &mut self.stage {
            _ if self.sender.is_some() => Reply::SendsAlready,
            Stage::Opening { .. } => Reply::NotFound,
            Stage::Ended => Reply::Frame(self.queue.end().unwrap_or_default()),
            Stage::Open(client) => {
                for message in messages {
                    // Fails after the origin's close frame, which the next poll receives.
                    let mask = masks.next();
                    let _ = client.send(Kind::Text, message.as_bytes(), mask, &mut self.out);
                }
                self.sender = Some(pending);
                return true;
            }
        };
        self.replies.push((pending, refusal));
        false
    }

    /// Returns the request whose messages are being sent.
    pub fn sender(&self) -> Option<RequestId> {
        self.sender.as_ref().map(|it| it.handle)
    }

    /// Notes that all of `out` was sent.
    pub fn on_sent(&mut self) {
        if let Some(pending) = self.sender.take() {
            self.replies.push((pending, Reply::Taken));
        }
    }

    /// Handles bytes of the WebSocket. `out` may contain bytes to send afterwards.
    pub fn handle(&mut self, bytes: &mut [u8], masks: &mut Masks, now_ms: u64) -> Step {
        match &mut self.stage {
            Stage::Ended => Step::Goes,
            Stage::Open(_) => {
                self.handle_frames(bytes, masks);
                Step::Goes
            }
            Stage::Opening { reader, refusal } => {
                let mut events = Vec::new();
                let mut is_whole = reader.handle(bytes, &mut events).is_err();
                let mut rest = None;
                for part in events.into_iter().filter_map(of_http) {
                    match part {
                        ResponsePart::Head(head) if head.status == SWITCHED => {
                            rest = Some(Vec::new())
                        }
                        ResponsePart::Head(head) => *refusal = Some((head, Vec::new())),
                        ResponsePart::Body(piece) => {
                            if let Some((_, body)) = refusal {
                                body.extend_from_slice(&piece);
                                is_whole |= body.len() > REFUSAL_BYTES_MAX;
                            }
                        }
                        ResponsePart::Interim(_) | ResponsePart::Trailers(_) => {}
                        ResponsePart::Upgraded(bytes) => rest = Some(bytes),
                        ResponsePart::End { .. } => is_whole = true,
                    }
                }
                match rest {
                    Some(mut rest) => {
                        self.stage = Stage::Open(Box::new(Client::new(None, MESSAGE_BYTES_MAX)));
                        if let Some(pending) = self.queue.take_poll(now_ms) {
                            self.replies.push((pending, Reply::Frame("o".to_owned())));
                        }
                        self.handle_frames(&mut rest, masks);
                        Step::Goes
                    }
                    None if is_whole => self.refuse(now_ms),
                    None => Step::Goes,
                }
            }
        }
    }

    fn handle_frames(&mut self, bytes: &mut [u8], masks: &mut Masks) {
        let mut rest = bytes;
        while let Stage::Open(client) = &mut self.stage
            && !rest.is_empty()
        {
            let end = match client.handle(rest, masks.next(), &mut self.out) {
                Ok((consumed, received)) => {
                    let end = match received {
                        Some(Received::Message(_, message)) => {
                            let message = String::from_utf8_lossy(message).into_owned();
                            self.queue.push(message);
                            None
                        }
                        Some(Received::Closed { code, reason }) => Some((code, reason.to_owned())),
                        Some(Received::Ping(_) | Received::Pong(_)) | None => None,
                    };
                    rest = &mut rest[consumed..];
                    end
                }
                Err(_) => Some((AWAY, String::new())),
            };
            if let Some((code, reason)) = end {
                self.queue.close(code, &reason);
                self.stage = Stage::Ended;
            }
        }
    }

    /// Handles the end of the WebSocket without a close frame.
    pub fn handle_end(&mut self, now_ms: u64) -> Step {
        if let Stage::Opening { .. } = self.stage {
            return self.refuse(now_ms);
        }
        self.stage = Stage::Ended;
        self.queue.close(AWAY, "");
        if let Some(pending) = self.sender.take() {
            let end = self.queue.end().unwrap_or_default();
            self.replies.push((pending, Reply::Frame(end)));
        }
        Step::Goes
    }

    /// Ends a session whose WebSocket was not opened.
    fn refuse(&mut self, now_ms: u64) -> Step {
        let stage = std::mem::replace(&mut self.stage, Stage::Ended);
        let reply = match stage {
            Stage::Opening {
                refusal: Some((mut head, body)),
                ..
            } if body.len() <= REFUSAL_BYTES_MAX => {
                head.length = None;
                Reply::Refused(head, body)
            }
            _ => Reply::Failed,
        };
        // The first request waits for the result, unless its client has left.
        if let Some(pending) = self.queue.take_poll(now_ms) {
            self.replies.push((pending, reply));
        }
        Step::Over
    }

    /// Handles the disconnect of a request's client. If the request was the waiting one, returns true if the WebSocket was open.
    pub fn leave(&mut self, now_ms: u64, handle: RequestId) -> Option<bool> {
        self.sender.take_if(|it| it.handle == handle);
        if !self.queue.leave(now_ms, handle) {
            return None;
        }
        let stage = std::mem::replace(&mut self.stage, Stage::Ended);
        Some(matches!(stage, Stage::Open(_)))
    }

    /// Returns true if the WebSocket has closed. Its connection closes after the last bytes were sent.
    pub fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended)
    }

    /// Returns the responses that are due.
    pub fn take_replies(&mut self, now_ms: u64) -> Vec<(PendingRequest<RequestId>, Reply)> {
        let mut replies = std::mem::take(&mut self.replies);
        // The request that waits for the session is served first.
        if !matches!(self.stage, Stage::Opening { .. })
            && let Some((pending, frame)) = self.queue.answer(now_ms)
        {
            replies.push((pending, Reply::Frame(frame)));
        }
        replies
    }

    /// Ends the session. Returns the responses to its last requests.
    pub fn into_replies(mut self) -> Vec<(PendingRequest<RequestId>, Reply)> {
        let sender = self.sender.take();
        let sender = sender.map(|pending| (pending, Reply::NotFound));
        self.replies.into_iter().chain(sender).collect()
    }
}

/// Key of a session: host, base path, and the name that the client has chosen.
pub(crate) type Name = (String, String, Vec<u8>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{request, wire};

    const FIRST: RequestId = request(1);
    const UPGRADE: &str =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";

    fn pending(handle: u64) -> PendingRequest<RequestId> {
        PendingRequest {
            handle: request(handle),
            callback: None,
            origin: None,
        }
    }

    fn session() -> (Session, Masks) {
        let name = (String::new(), String::new(), b"s".to_vec());
        let queue = Queue::new(pending(1), 25_000, 5_000);
        let session = Session::new(name, Source::of_get("/"), 7, wire(3), queue);
        (session, Masks::default())
    }

    fn replies(session: &mut Session) -> Vec<(RequestId, Reply)> {
        let replies = session.take_replies(0).into_iter();
        replies
            .map(|(pending, reply)| (pending.handle, reply))
            .collect()
    }

    fn frame(handle: u64, text: &str) -> (RequestId, Reply) {
        (request(handle), Reply::Frame(text.to_owned()))
    }

    fn ask(session: &mut Session, handle: u64) -> Option<(RequestId, Reply)> {
        let (pending, text) = session.queue.ask(0, pending(handle))?;
        Some((pending.handle, Reply::Frame(text)))
    }

    #[test]
    fn what_the_backend_says_is_answered_however_it_is_split() {
        let mut input = UPGRADE.as_bytes().to_vec();
        input.extend_from_slice(b"\x81\x01a\x81\x01b\x88\x05\x0f\xa0bye");
        for split in 1..input.len() {
            let (mut session, mut masks) = session();
            assert!(session.out.starts_with(b"GET /7 HTTP/1.1\r\n"));
            let (first, second) = input.split_at(split);
            let mut sent = Vec::new();
            for part in [first, second] {
                let step = session.handle(&mut part.to_vec(), &mut masks, 0);
                assert_eq!(step, Step::Goes);
                sent.extend(replies(&mut session));
            }
            assert!(session.has_ended());
            sent.extend(ask(&mut session, 2));
            sent.extend(ask(&mut session, 3));
            let expected = [
                frame(1, "o"),
                frame(2, "a[\"a\",\"b\"]"),
                frame(3, "c[4000,\"bye\"]"),
            ];
            assert_eq!(sent, expected, "{split}");
        }
    }

    #[test]
    fn messages_are_taken_when_they_are_sent_and_one_request_at_a_time() {
        let (mut session, mut masks) = session();
        assert!(!session.send(pending(2), vec!["a".to_owned()], &mut masks));
        assert_eq!(replies(&mut session), [(request(2), Reply::NotFound)]);
        session.out.clear();
        session.handle(&mut UPGRADE.as_bytes().to_vec(), &mut masks, 0);
        replies(&mut session);
        assert!(session.send(pending(3), vec!["a".to_owned()], &mut masks));
        assert_eq!((session.sender(), session.out.len()), (Some(request(3)), 7));
        assert!(!session.send(pending(4), Vec::new(), &mut masks));
        assert_eq!(replies(&mut session), [(request(4), Reply::SendsAlready)]);
        session.on_sent();
        assert_eq!(replies(&mut session), [(request(3), Reply::Taken)]);
        assert!(session.send(pending(5), vec!["b".to_owned()], &mut masks));
        assert_eq!(session.handle_end(0), Step::Goes);
        let end = "c[1001,\"Connection closed\"]";
        assert_eq!(replies(&mut session), [frame(5, end)]);
        assert!(!session.send(pending(6), Vec::new(), &mut masks));
        assert_eq!(replies(&mut session), [frame(6, end)]);
    }

    #[test]
    fn a_refusal_of_the_backend_is_the_answer_of_the_first_request() {
        let (mut session, mut masks) = session();
        let input = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno";
        assert_eq!(
            session.handle(&mut input.to_vec(), &mut masks, 0),
            Step::Over
        );
        let replies = replies(&mut session);
        let [(FIRST, Reply::Refused(head, body))] = &replies[..] else {
            panic!("{replies:?}");
        };
        assert_eq!((head.status, &body[..]), (403, &b"no"[..]));
        let (mut session, _) = self::session();
        assert_eq!(session.handle_end(0), Step::Over);
        assert_eq!(self::replies(&mut session), [(request(1), Reply::Failed)]);
    }

    #[test]
    fn admits_requests_of_its_own_origin_only() {
        let (mut session, _) = session();
        assert!(session.admits(None));
        assert!(session.admits(Some(b"https://page.example")));
        assert!(session.admits(None));
        assert!(!session.admits(Some(b"https://other.example")));
        assert!(!session.admits(Some(b"null")));
        assert!(session.admits(Some(b"https://page.example")));
    }

    #[test]
    fn a_client_that_leaves_ends_its_session() {
        let (mut session, mut masks) = session();
        session.handle(&mut UPGRADE.as_bytes().to_vec(), &mut masks, 0);
        replies(&mut session);
        assert_eq!(ask(&mut session, 2), None);
        assert_eq!(session.leave(0, request(9)), None);
        assert_eq!(session.leave(0, request(2)), Some(true));
        assert!(session.has_ended());
        let sent = ask(&mut session, 3);
        assert_eq!(
            sent,
            Some(frame(3, "c[3000,\"Client already closed connection\"]"))
        );
    }
}
