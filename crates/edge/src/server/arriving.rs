//! Bodies of requests that are not here with their heads.
//!
//! One that a client may be held with is collected first: it is small, and the request may have to be asked again. The rest
//! goes to the origin while it arrives, and what the origin does not take stays with the client. Only a target that has to
//! know a length which the client has not told gets such a body from a temporary file.

use std::io;
use std::io::Write as _;
use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::{Read, ReadError};

use crate::client::body::Collecting;
use crate::client::request::Body;
use crate::client::source::{Owner, Source};
use crate::server::edge::Edge;
use crate::timers::Timer;
use crate::upstream::codec::{write_end, write_piece};
use crate::upstream::reply::INSTRUCT_BYTES_MAX;
use crate::upstream::talk::{Step, Talk};

/// What is read of a body at once, and how much in a row before others get their turn.
const PIECE_BYTES_MAX: usize = 64 * 1024;
const TURN_BYTES_MAX: usize = 512 * 1024;

impl Edge {
    /// Collects the body of a request, as long as its client may be held with it.
    pub(super) fn collect(&mut self, handle: u64, source: Source, sockjs: Option<usize>) {
        let collecting = Collecting {
            source,
            sockjs,
            body: Vec::new(),
            file: None,
        };
        if collecting.source.request.is_grpc() && collecting.may_stream() {
            // Its client may wait for the answer before it goes on.
            self.ask_collected(handle, collecting, false);
            return;
        }
        self.collecting.insert(handle, Box::new(collecting));
        self.collect_on(handle);
    }

    /// More of a body may be there.
    pub(super) fn on_body_arrived(&mut self, handle: u64) {
        if self.collecting.contains_key(&handle) {
            self.collect_on(handle);
        } else if let Some(id) = self.talks.of_handle(handle) {
            self.with_talk(id, |edge, talk| edge.pump(talk));
        }
    }

    fn collect_on(&mut self, handle: u64) {
        let Some(mut it) = self.collecting.remove(&handle) else {
            return;
        };
        let mut turn_bytes = 0;
        loop {
            let read = self.worker.read_body(handle, PIECE_BYTES_MAX);
            let is_last = match read {
                Ok(Read::Pending) => {
                    self.collecting.insert(handle, it);
                    return;
                }
                Ok(read) => read != Read::Piece,
                Err(ReadError::Gone) => {
                    self.forget_request(handle);
                    return;
                }
                Err(ReadError::Refused(status, reason)) => {
                    self.answer_text(handle, status, &format!("{reason}."));
                    return;
                }
            };
            let piece = match read {
                Ok(Read::Piece | Read::Last) => self.worker.http.body_piece(),
                _ => &[],
            };
            turn_bytes += piece.len();
            let stored = match &mut it.file {
                Some((file, _, bytes)) => {
                    *bytes += piece.len() as u64;
                    file.write_all(piece)
                }
                None => {
                    it.body.extend_from_slice(piece);
                    Ok(())
                }
            };
            if let Err(error) = stored.and_then(|()| self.make_room(&mut it, is_last)) {
                self.fail_to_store(handle, &error);
                return;
            }
            if is_last || it.is_to_stream() {
                self.ask_collected(handle, *it, is_last);
                return;
            }
            if turn_bytes >= TURN_BYTES_MAX {
                self.collecting.insert(handle, it);
                let now_ms = self.worker.net.now_ms();
                self.timers.at(now_ms, Timer::Body(handle));
                return;
            }
        }
    }

    /// Gives a body that is too large for memory a file, if no target takes it as it comes.
    fn make_room(&mut self, it: &mut Collecting, is_last: bool) -> io::Result<()> {
        if is_last || it.file.is_some() || it.body.len() <= INSTRUCT_BYTES_MAX || it.may_stream() {
            return Ok(());
        }
        let (mut file, temporary) = self.worker.http.new_temporary()?;
        let body = std::mem::take(&mut it.body);
        file.write_all(&body)?;
        it.file = Some((file, temporary, body.len() as u64));
        Ok(())
    }

    fn fail_to_store(&mut self, handle: u64, error: &io::Error) {
        let line = format!(
            "a body cannot be stored in the folder for temporary files: {error}; free space there"
        );
        self.worker.net.log_for_client(LogLevel::Error, &line);
        let text = "The server cannot store the body; its log tells why.";
        self.answer_text(handle, 507, text);
    }

    fn ask_collected(&mut self, handle: u64, it: Collecting, is_whole: bool) {
        let Collecting {
            mut source,
            sockjs,
            body,
            file,
        } = it;
        let length = source.request.said_length();
        let body = match file {
            Some((_, temporary, bytes)) => {
                let path = temporary.path().to_owned();
                self.temporaries.insert(handle, temporary);
                Body::File { path, bytes }
            }
            None if is_whole => Body::Memory(body),
            None => Body::Arriving {
                first: body,
                length,
            },
        };
        match Rc::get_mut(&mut source.request) {
            Some(request) => request.body = body,
            // Nobody else has it yet.
            None => return,
        }
        match sockjs {
            Some(at) => self.begin_sockjs(handle, source, at, false),
            None => self.ask_with_session(handle, source),
        }
    }

    /// Reads on in the body of a conversation's client, to be sent. False: there is nothing to send now.
    pub(super) fn read_on(&mut self, talk: &mut Talk, turn_bytes: &mut usize) -> bool {
        let Owner::Client(handle) = talk.owner else {
            return false;
        };
        let Some(arriving) = &mut talk.arriving else {
            return false;
        };
        if arriving.has_ended || arriving.failure.is_some() {
            return false;
        }
        if *turn_bytes >= TURN_BYTES_MAX {
            let now_ms = self.worker.net.now_ms();
            self.timers.at(now_ms, Timer::Body(handle));
            return false;
        }
        let read = self.worker.read_body(handle, PIECE_BYTES_MAX);
        let piece = match &read {
            Ok(Read::Pending) => return false,
            Err(failure) => {
                arriving.failure = Some(failure.clone());
                return false;
            }
            Ok(Read::Piece | Read::Last) => self.worker.http.body_piece(),
            Ok(Read::End) => &[],
        };
        arriving.has_begun = true;
        *turn_bytes += piece.len();
        talk.noted.body_bytes += piece.len() as u64;
        talk.out.clear();
        talk.sent = 0;
        let has_length = talk.source.request.said_length().is_some();
        write_piece(&talk.codec, has_length, piece, &mut talk.out);
        if read != Ok(Read::Piece) {
            arriving.has_ended = true;
            write_end(&talk.codec, has_length, &mut talk.out);
        }
        true
    }

    /// The rest of the body cannot be had: the origin is not told the end of it, and the client why.
    pub(super) fn on_body_failure(&mut self, talk: &mut Talk, failure: &ReadError) -> Step {
        let Owner::Client(handle) = talk.owner else {
            return Step::Over;
        };
        match failure {
            ReadError::Refused(status, reason) if !talk.has_begun_answer() => {
                self.answer_text(handle, *status, &format!("{reason}."));
            }
            _ => {
                self.worker.drop_stream(handle);
                self.forget_request(handle);
            }
        }
        Step::Over
    }
}
