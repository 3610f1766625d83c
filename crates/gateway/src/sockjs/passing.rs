//! Forwards requests of sessions to other workers, and forwards their responses to the clients.

use std::path::Path;

use fermata_config::LogLevel;
use fermata_engine::{RequestId, WireEvent};
use fermata_proto::response_reader::{Event, RequestKind, ResponseReader};

use crate::gateway::Gateway;
use crate::sockjs::requests::{HEADERS, Request};
use crate::sockjs::session_path::{SessionPath, Transport};
use crate::sockjs::state::{Answer, Passed, Use};

/// Maximum number of bytes per read.
const READ_BYTES: usize = 16 * 1024;

/// Maximum size of a response that is not a stream: the messages for a polling client.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum number of forwarded requests per session of this worker: one that receives, and some
/// that send.
const PASSED_PER_SESSION: usize = 4;

impl Gateway<'_> {
    pub(super) fn pass_on(
        &mut self,
        path: &Path,
        session_path: &SessionPath<'_>,
        request: &Request,
    ) {
        let handle = request.handle;
        let Some(sockjs) = &mut self.hub.sockjs else {
            return;
        };
        if sockjs.passed.len() >= sockjs.sessions_max * PASSED_PER_SESSION {
            return self.refuse_sockjs(handle, 503, "Too many sessions.");
        }
        if self.worker.defer(handle).is_err() {
            return;
        }
        let wire = match self.worker.net.connect_unix(path) {
            Ok(wire) => wire,
            Err(error) => {
                let line = format!("sockjs: cannot forward a request to its worker: {error}");
                self.worker.net.log_for_client(LogLevel::Warning, &line);
                return self.refuse_sockjs(handle, 503, "Try again.");
            }
        };
        let mut out = format!("POST {} HTTP/1.1\r\nHost: hub\r\n", request.target).into_bytes();
        if let Some(origin) = &request.origin {
            out.extend_from_slice(format!("Origin: {origin}\r\n").as_bytes());
        }
        out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", request.body.len()).as_bytes());
        out.extend_from_slice(&request.body);
        let passed = Passed {
            wire,
            out,
            reader: ResponseReader::new(RequestKind {
                is_head: false,
                wants_upgrade: false,
            }),
            can_read: false,
            is_stream: session_path.transport == Transport::Stream,
            answer: Answer::Whole {
                status: 0,
                body: Vec::new(),
            },
        };
        sockjs.passed.insert(handle, Box::new(passed));
        sockjs.wires.insert(wire, Use::Passed(handle));
        sockjs.requests.insert(handle, Use::Passed(handle));
        self.pump_passed(handle);
    }

    pub(super) fn on_passed_wire(&mut self, handle: RequestId, event: WireEvent) {
        if let Some(passed) = self.passed(handle) {
            passed.can_read |= event.readable || event.hangup;
        }
        self.pump_passed(handle);
    }

    /// The client has received the previous piece.
    pub(super) fn on_passed_taken(&mut self, handle: RequestId) {
        if let Some(passed) = self.passed(handle)
            && let Answer::Pieces { is_ready, .. } = &mut passed.answer
        {
            *is_ready = true;
        }
        self.pump_passed(handle);
        if let Some(passed) = self.passed(handle)
            && let Answer::Pieces { is_ready: true, .. } = &passed.answer
        {
            // No data to forward: watch for the client's disconnect until data arrives.
            let _ = self.worker.defer_stream(handle);
        }
    }

    /// Handles a client that has left, or whose response is complete.
    pub(super) fn forget_passed(&mut self, handle: RequestId) {
        let Some(sockjs) = &mut self.hub.sockjs else {
            return;
        };
        sockjs.requests.remove(&handle);
        if let Some(passed) = sockjs.passed.remove(&handle) {
            sockjs.wires.remove(&passed.wire);
            self.worker.net.close_wire(passed.wire);
        }
    }

    fn passed(&mut self, handle: RequestId) -> Option<&mut Passed> {
        let sockjs = self.hub.sockjs.as_mut()?;
        sockjs.passed.get_mut(&handle).map(|it| &mut **it)
    }

    /// Sends the rest of the request, and reads as much of the response as the client accepts.
    fn pump_passed(&mut self, handle: RequestId) {
        let mut buffer = [0; READ_BYTES];
        loop {
            self.give_passed(handle);
            let Some(sockjs) = &mut self.hub.sockjs else {
                return;
            };
            let Some(passed) = sockjs.passed.get_mut(&handle) else {
                // The response is complete, or the client has left.
                return;
            };
            if !passed.out.is_empty() {
                match self.worker.net.send_wire(passed.wire, &passed.out) {
                    Ok(Some(len)) => {
                        passed.out.drain(..len);
                    }
                    Ok(None) => {}
                    Err(_) => return self.fail_passed(handle),
                }
            }
            let may_read = match &passed.answer {
                Answer::Whole { .. } => true,
                Answer::Pieces { rest, .. } => rest.is_empty(),
            };
            if !may_read || !passed.can_read {
                return;
            }
            match self.worker.net.recv_wire(passed.wire, &mut buffer) {
                Ok(None) => {
                    passed.can_read = false;
                    return;
                }
                Ok(Some(0)) | Err(_) => return self.fail_passed(handle),
                Ok(Some(len)) => {
                    let mut events = Vec::new();
                    let read = passed.reader.handle(&buffer[..len], &mut events);
                    for event in events {
                        self.on_answer(handle, event);
                    }
                    if read.is_err() {
                        return self.fail_passed(handle);
                    }
                }
            }
        }
    }

    /// Handles a part of the response.
    fn on_answer(&mut self, handle: RequestId, event: Event) {
        let Some(passed) = self.passed(handle) else {
            return;
        };
        match (event, &mut passed.answer) {
            (Event::Head(head), Answer::Whole { status, .. }) => {
                *status = head.status;
                if passed.is_stream && head.status == 200 {
                    passed.answer = Answer::Pieces {
                        rest: Vec::new(),
                        is_begun: false,
                        is_ready: true,
                        has_ended: false,
                    };
                }
            }
            (Event::Body(piece), Answer::Whole { body, .. }) => {
                body.extend_from_slice(&piece);
                if body.len() > BODY_BYTES_MAX {
                    self.fail_passed(handle);
                }
            }
            (Event::Body(piece), Answer::Pieces { rest, .. }) => rest.extend_from_slice(&piece),
            (Event::End { .. }, Answer::Pieces { has_ended, .. }) => *has_ended = true,
            (Event::End { .. }, Answer::Whole { status, body }) => {
                let (status, body) = (*status, std::mem::take(body));
                self.forget_passed(handle);
                let media =
                    (status != 204).then_some(&b"application/javascript; charset=UTF-8"[..]);
                let headers = HEADERS.iter().copied();
                // If the client has left, no response is needed.
                let _ = self.worker.respond(handle, status, media, headers, &body);
            }
            _ => {}
        }
    }

    /// Passes received data to a stream's client, if the client has received the previous piece.
    fn give_passed(&mut self, handle: RequestId) {
        let Some(passed) = self.passed(handle) else {
            return;
        };
        let Answer::Pieces {
            rest,
            is_begun,
            is_ready,
            has_ended,
        } = &mut passed.answer
        else {
            return;
        };
        if !*is_ready {
            return;
        }
        if rest.is_empty() {
            if *has_ended {
                self.forget_passed(handle);
                let _ = self.worker.end_stream(handle);
            }
            return;
        }
        *is_ready = false;
        let mut piece = std::mem::take(rest);
        if !std::mem::replace(is_begun, true) {
            // Send the complete piece: it is at most one read.
            if !self.begin_frames(handle, &piece) {
                self.forget_passed(handle);
            }
            return;
        }
        match self.worker.net.write_stream(handle, &piece) {
            Ok(taken) => {
                piece.drain(..taken);
                if let Some(passed) = self.passed(handle)
                    && let Answer::Pieces { rest, .. } = &mut passed.answer
                {
                    *rest = piece;
                }
            }
            Err(_) => self.forget_passed(handle),
        }
    }

    /// Handles a worker that exited or sent an invalid response.
    fn fail_passed(&mut self, handle: RequestId) {
        let Some(passed) = self.passed(handle) else {
            return;
        };
        let is_begun = matches!(passed.answer, Answer::Pieces { is_begun: true, .. });
        self.forget_passed(handle);
        if is_begun {
            // The response must not look complete.
            self.worker.drop_stream(handle)
        } else {
            self.refuse_sockjs(handle, 503, "Try again.")
        }
    }
}
