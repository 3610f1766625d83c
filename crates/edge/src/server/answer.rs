//! What becomes of an origin's response: passed on as it comes, or read whole because it is an instruction.

use fermata_config::LogLevel;
use fermata_engine::{RequestId, ResponseHead};
use fermata_grip::instruct;
use fermata_grip::instruct::{Hold, Instruct};
use fermata_proto::response::bodiless;

use crate::client::clients::Clients;
use crate::client::journal::Outcome;
use crate::client::over_http::RESPONSE_BYTES_MAX;
use crate::client::script::SCRIPT_BYTES_MAX;
use crate::client::source::{Asker, Engine, Owner};
use crate::routes::figures::Count;
use crate::server::edge::Edge;
use crate::upstream::reply::{
    FAILED, INSTRUCT_BYTES_MAX, Phase, RefusedInstruct, borrowed, passed, read_instruct,
};
use crate::upstream::response::{Head, ResponsePart};
use crate::upstream::talk::{Purpose, Step, Talk};

const TOO_LARGE: &str = "Request too large to accept GRIP instruct.";

impl Edge {
    /// Goes on with what the origin has said.
    pub(super) fn take(&mut self, talk: &mut Talk, parts: Vec<ResponsePart>) -> Step {
        let has_trailers = |part: &ResponsePart| matches!(part, ResponsePart::Trailers(_));
        let is_whole = matches!(parts.last(), Some(ResponsePart::End { .. }))
            && !parts.iter().any(has_trailers);
        for part in parts {
            let step = match part {
                ResponsePart::Head(head) => self.on_head(talk, head, is_whole),
                ResponsePart::Body(piece) if matches!(talk.phase, Phase::Socket { .. }) => {
                    self.on_frames(talk, piece)
                }
                ResponsePart::Body(piece) => self.on_body(talk, piece),
                ResponsePart::Trailers(trailers) => {
                    talk.trailers = trailers;
                    Step::Goes
                }
                ResponsePart::Upgraded(bytes) => self.on_frames(talk, bytes),
                ResponsePart::End { .. } if matches!(talk.phase, Phase::Socket { .. }) => {
                    self.clients.on_frames_end(&mut self.worker, talk)
                }
                ResponsePart::End { is_reusable } => {
                    self.outbound().release_wire(talk, is_reusable);
                    self.on_end(talk)
                }
            };
            if step == Step::Over {
                return Step::Over;
            }
        }
        Step::Goes
    }

    fn on_head(&mut self, talk: &mut Talk, head: Head, is_whole: bool) -> Step {
        self.upstream.targets.note_answered(&mut self.worker, talk);
        talk.noted.outcome = Outcome::Answered(head.status);
        self.route_figures.count_of_talk(
            &self.worker,
            talk,
            &[(Count::ServerHeadReceived, head.words_bytes())],
        );
        // Over HTTP/2 a success opens the WebSocket (RFC 8441, 5).
        let is_open = talk.is_socket_stream() && (200..300).contains(&head.status);
        if head.status == 101 || is_open {
            return self.on_switched(talk, &head);
        }
        let mut head = head;
        if !matches!(talk.purpose, Purpose::Events(_))
            && !instruct::is_instruct(&borrowed(&head.headers))
        {
            self.policy
                .add_cross_origin(&talk.source, &mut head.headers);
        }
        let is_events = matches!(talk.purpose, Purpose::Events(_));
        let is_instruct =
            !talk.source.is_plain() && instruct::is_instruct(&borrowed(&head.headers));
        let Owner::Client(handle) = talk.owner else {
            talk.phase = Phase::Whole {
                head,
                body: Vec::new(),
            };
            return Step::Goes;
        };
        let is_shared = talk.is_shared(&head);
        if is_instruct || is_whole || is_events || is_shared || self.clients.is_script(handle) {
            talk.phase = Phase::Whole {
                head,
                body: Vec::new(),
            };
            return Step::Goes;
        }
        self.begin_passing(talk, handle, &head, None)
    }

    /// Passes a response on as it comes.
    fn begin_passing(
        &mut self,
        talk: &mut Talk,
        handle: RequestId,
        head: &Head,
        then: Option<Box<Instruct>>,
    ) -> Step {
        self.release_sharers(talk);
        let headers = passed(&head.headers);
        let response = ResponseHead {
            status: head.status,
            reason: &head.reason,
            headers: &headers,
            length: head.length,
        };
        let begun = self
            .worker
            .begin_relayed_stream(handle, &response, head.length);
        if begun != Ok(true) {
            // The client has left, or its answer has no body: nobody would ask for what the program still says, and a
            // FastCGI connection that nobody reads keeps its process.
            self.clients.forget_request(&mut self.worker, handle);
            return Step::Over;
        }
        self.route_figures.count_route(
            &self.worker,
            &talk.source,
            &[(Count::ClientHeadSent, head.words_bytes())],
        );
        talk.phase = Phase::Streaming {
            pending: Vec::new(),
            // The head goes first; when the client has taken it, it asks.
            wants: false,
            has_ended: false,
            then,
        };
        Step::Goes
    }

    fn on_body(&mut self, talk: &mut Talk, piece: Vec<u8>) -> Step {
        talk.noted.bytes += piece.len() as u64;
        match &mut talk.phase {
            Phase::AwaitingHead | Phase::Socket { .. } => Step::Goes,
            Phase::Streaming { pending, .. } => {
                if pending.is_empty() {
                    *pending = piece;
                } else {
                    pending.extend_from_slice(&piece);
                }
                self.pass_on(talk)
            }
            // What it says besides its status nobody wants to know.
            Phase::Whole { .. } if matches!(talk.owner, Owner::Check(..)) => Step::Goes,
            Phase::Whole { .. } if self.clients.ignores_body(talk.owner) => Step::Goes,
            Phase::Linked(body) => {
                body.pending.extend_from_slice(&piece);
                self.pass_link(talk)
            }
            Phase::Whole { body, .. } => {
                body.extend_from_slice(&piece);
                let (bytes, is_events) = (body.len(), matches!(talk.purpose, Purpose::Events(_)));
                match is_events {
                    true if bytes <= RESPONSE_BYTES_MAX => Step::Goes,
                    true => self.fail(talk, 502, "the response has too many events"),
                    false if bytes <= INSTRUCT_BYTES_MAX => Step::Goes,
                    false => self.on_large_body(talk),
                }
            }
        }
    }

    /// The body is larger than an instruction may be. A stream is held all the same, behind its body.
    fn on_large_body(&mut self, talk: &mut Talk) -> Step {
        let handle = match talk.owner {
            Owner::Client(handle) => handle,
            Owner::Link(handle) => return self.begin_link_body(talk, handle),
            Owner::Socket(_) | Owner::GoneNotice(_) | Owner::Filter(_) | Owner::Check(..) => {
                return self.fail(talk, 502, "the response is too large");
            }
        };
        if self.clients.is_script(handle) {
            let reason = format!("a script has no room for more than {SCRIPT_BYTES_MAX} bytes");
            return self.fail(talk, 502, &reason);
        }
        let Phase::Whole { head, body } = std::mem::replace(&mut talk.phase, Phase::AwaitingHead)
        else {
            return Step::Goes;
        };
        let mut head = head;
        let is_instruct =
            !talk.source.is_plain() && instruct::is_instruct(&borrowed(&head.headers));
        let mut then = None;
        if is_instruct {
            let instruct = match read_instruct(&head, None) {
                Some(Ok(mut instruct)) if instruct.hold != Hold::Response => {
                    self.settle_session(&mut talk.source, &mut instruct);
                    instruct
                }
                Some(Err(error)) => return self.fail(talk, 502, &error.to_string()),
                _ => return self.fail(talk, 502, &RefusedInstruct::TooLarge.to_string()),
            };
            head.status = instruct.answer.status;
            head.reason = instruct.answer.reason.clone();
            head.headers = instruct.answer.headers.clone();
            let is_too_large = talk.source.request.body.bytes() > INSTRUCT_BYTES_MAX as u64;
            if instruct.hold == Hold::Stream && is_too_large {
                self.clients
                    .answer_text(&mut self.worker, handle, 400, TOO_LARGE);
                return Step::Over;
            }
            self.policy
                .add_cross_origin(&talk.source, &mut head.headers);
            // What its link leads to follows the body, too.
            if instruct.hold == Hold::Stream || instruct.next.is_some() {
                head.length = None;
                then = Some(Box::new(instruct));
            }
        }
        if self.begin_passing(talk, handle, &head, then) == Step::Over {
            return Step::Over;
        }
        if let Phase::Streaming { pending, .. } = &mut talk.phase {
            *pending = body;
        }
        Step::Goes
    }

    fn on_end(&mut self, talk: &mut Talk) -> Step {
        match std::mem::replace(&mut talk.phase, Phase::AwaitingHead) {
            Phase::AwaitingHead | Phase::Socket { .. } => {
                self.fail(talk, 502, "the origin has said nothing")
            }
            Phase::Whole { head, body } => {
                self.on_whole(talk, head, body);
                Step::Over
            }
            Phase::Linked(mut body) => {
                body.has_ended = true;
                talk.phase = Phase::Linked(body);
                self.pass_link(talk)
            }
            Phase::Streaming {
                pending,
                wants,
                then,
                ..
            } => {
                talk.phase = Phase::Streaming {
                    pending,
                    wants,
                    has_ended: true,
                    then,
                };
                self.pass_on(talk)
            }
        }
    }

    /// A response is here whole.
    pub(super) fn on_whole(&mut self, talk: &mut Talk, head: Head, body: Vec<u8>) {
        self.share_answer(talk, &head, &body);
        let handle = match talk.owner {
            Owner::Client(handle) => handle,
            Owner::Check(..) => {
                self.upstream.on_checked(
                    self.routing.table.generation,
                    &mut self.worker,
                    talk,
                    Ok(head.status),
                );
                return;
            }
            Owner::Link(handle) => {
                self.on_link(talk, handle, head, body);
                return;
            }
            Owner::Socket(handle) => {
                self.upstream.talks.forget(Asker::Client(handle));
                self.on_events(handle, &head, &body);
                return;
            }
            Owner::GoneNotice(_) => {
                self.clients.on_gone(&mut self.worker, &head, &body);
                return;
            }
            Owner::Filter(number) => {
                self.on_filter_answer(number, &head, &body);
                return;
            }
        };
        if let Purpose::Events(_) = talk.purpose {
            self.upstream.talks.forget(Asker::Client(handle));
            self.on_opening(talk, handle, &head, &body);
            return;
        }
        if talk.source.is_plain() || !instruct::is_instruct(&borrowed(&head.headers)) {
            self.route_figures.count_route(
                &self.worker,
                &talk.source,
                &[(Count::ClientHeadSent, head.words_bytes())],
            );
            self.clients.respond(&mut self.worker, handle, &head, &body);
            return;
        }
        match read_instruct(&head, Some(&body)) {
            Some(Ok(mut instruct)) => {
                self.settle_session(&mut talk.source, &mut instruct);
                self.follow(talk, handle, instruct, body);
            }
            Some(Err(error)) => {
                self.fail(talk, 502, &error.to_string());
            }
            None => {}
        }
    }

    /// Does what an instruction says.
    fn follow(&mut self, talk: &mut Talk, handle: RequestId, instruct: Instruct, body: Vec<u8>) {
        let mut instruct = instruct;
        let body = instruct.answer.body.take().unwrap_or(body);
        let is_too_large = talk.source.request.body.bytes() > INSTRUCT_BYTES_MAX as u64;
        if instruct.hold != Hold::Answered && is_too_large {
            self.clients
                .answer_text(&mut self.worker, handle, 400, TOO_LARGE);
            return;
        }
        self.policy
            .add_cross_origin(&talk.source, &mut instruct.answer.headers);
        // A response that has no body cannot go on with one: a 304 of a framework that knows nothing of the hold.
        if bodiless(instruct.answer.status) && instruct.hold == Hold::Stream {
            instruct.hold = Hold::Answered;
        }
        let goes_on = instruct.hold == Hold::Stream || instruct.next.is_some();
        if goes_on && instruct.hold != Hold::Response && self.clients.is_script(handle) {
            self.fail(talk, 502, "a script cannot go on: hold it as a response");
            return;
        }
        let has_body = !bodiless(instruct.answer.status) && !talk.source.request.is_head();
        match instruct.hold {
            // The response goes on with what its link leads to.
            Hold::Answered if instruct.next.is_some() && has_body => {
                self.begin_hold(talk, handle, instruct, &body);
                self.ask_link(handle);
            }
            Hold::Answered => {
                let answer = &instruct.answer;
                let head = Head {
                    status: answer.status,
                    reason: answer.reason.clone(),
                    headers: answer.headers.clone(),
                    length: None,
                };
                self.route_figures.count_route(
                    &self.worker,
                    &talk.source,
                    &[(Count::ClientHeadSent, head.words_bytes())],
                );
                self.clients.respond(&mut self.worker, handle, &head, &body);
            }
            Hold::Response => self.begin_poll(talk, handle, instruct, body),
            Hold::Stream => self.begin_hold(talk, handle, instruct, &body),
        }
    }

    /// The response is not to be had: the client is told, as far as it has not been told another thing already.
    pub(super) fn fail(&mut self, talk: &mut Talk, status: u16, reason: &str) -> Step {
        if let Owner::Check(..) = talk.owner {
            self.upstream.on_checked(
                self.routing.table.generation,
                &mut self.worker,
                talk,
                Err(reason),
            );
            return Step::Over;
        }
        self.share_failure(talk, status, reason);
        talk.noted.outcome = Outcome::Failed;
        let request = &talk.source.request;
        let line = format!(
            "{} {}: {status}: {reason}",
            String::from_utf8_lossy(&request.method),
            String::from_utf8_lossy(&request.target).escape_debug(),
        );
        self.worker.net.log_for_client(LogLevel::Warning, &line);
        let is_debug = self.policy.is_debug || talk.source.rule().is_some_and(|rule| rule.debug);
        match talk.owner {
            // Told before.
            Owner::Check(..) => {}
            Owner::Link(handle) => self.on_link_failed(handle, reason),
            Owner::GoneNotice(_) => self.clients.on_gone_unheard(&mut self.worker, reason),
            Owner::Filter(number) => self.on_filter_failed(number, reason),
            Owner::Socket(handle) if talk.may_be_unheard() => {
                self.clients
                    .on_events_failed(&mut self.timers, &mut self.worker, handle, reason);
            }
            // The origin may have acted on the events: they are not said twice.
            Owner::Socket(handle) => self.clients.end_events(&mut self.worker, handle, reason),
            Owner::Client(handle) if matches!(talk.phase, Phase::Streaming { .. }) => {
                // Only a cut tells that this is not all.
                self.worker.drop_stream(handle);
                self.clients.forget_request(&mut self.worker, handle);
            }
            Owner::Client(handle) => {
                let text = match is_debug && !reason.is_empty() {
                    true => format!("{FAILED} ({reason})"),
                    false => FAILED.to_owned(),
                };
                self.clients
                    .answer_text(&mut self.worker, handle, status, &text);
            }
        }
        Step::Over
    }

    /// Gives the client what it takes.
    fn pass_on(&mut self, talk: &mut Talk) -> Step {
        let Owner::Client(handle) = talk.owner else {
            return Step::Over;
        };
        let Phase::Streaming {
            pending,
            wants,
            has_ended,
            then,
        } = &mut talk.phase
        else {
            return Step::Goes;
        };
        if !pending.is_empty() && *wants {
            match self.worker.pass_stream(handle, pending) {
                Ok(taken) if taken == pending.len() => pending.clear(),
                Ok(taken) => {
                    pending.drain(..taken);
                }
                Err(_) => return self.clients.cut_stream(&mut self.worker, handle),
            }
            *wants = false;
        }
        if *has_ended && pending.is_empty() {
            match then.take() {
                Some(instruct) => {
                    let is_answered = instruct.hold == Hold::Answered;
                    self.hold_passed(talk, handle, *instruct);
                    if is_answered {
                        self.ask_link(handle);
                    }
                }
                None => {
                    let trailers = std::mem::take(&mut talk.trailers);
                    let ended = match trailers.is_empty() {
                        true => self.worker.end_stream(handle),
                        false => self.worker.end_stream_with(handle, trailers),
                    };
                    if ended.is_err() {
                        self.worker.drop_stream(handle);
                    }
                    self.clients.forget_request(&mut self.worker, handle);
                }
            }
            return Step::Over;
        }
        Step::Goes
    }

    /// The client of a stream has taken everything and wants more.
    pub(super) fn on_stream_wanted(&mut self, handle: RequestId) {
        let Some(id) = self.upstream.talks.of(Asker::Client(handle)) else {
            return;
        };
        self.with_talk(id, |edge, talk| {
            if let Phase::Streaming { wants, .. } = &mut talk.phase {
                *wants = true;
            }
            talk.due_ms = edge.worker.net.now_ms() + edge.policy.limits.idle_ms;
            let step = match edge.pass_on(talk) {
                Step::Goes => edge.pump(talk),
                Step::Over => return Step::Over,
            };
            if step == Step::Goes && matches!(talk.phase, Phase::Streaming { wants: true, .. }) {
                // Nothing is written to the client until the origin says more, so nothing but this tells that it leaves.
                let _ = edge.worker.defer_stream(handle);
            }
            step
        });
    }
}

impl Clients {
    /// Gives the client a piece of a body from where it was received: what it does not take is all that is copied for later.
    pub(super) fn pass_at_once(
        &mut self,
        worker: &mut Engine,
        talk: &mut Talk,
        piece: &[u8],
    ) -> Step {
        let Owner::Client(handle) = talk.owner else {
            return Step::Over;
        };
        let Phase::Streaming { pending, wants, .. } = &mut talk.phase else {
            return Step::Goes;
        };
        talk.noted.bytes += piece.len() as u64;
        match worker.pass_stream(handle, piece) {
            Ok(taken) => {
                pending.extend_from_slice(&piece[taken..]);
                *wants = false;
                Step::Goes
            }
            Err(_) => self.cut_stream(worker, handle),
        }
    }

    /// The client of a stream has left, or the origin says more than it has promised.
    fn cut_stream(&mut self, worker: &mut Engine, handle: RequestId) -> Step {
        worker.drop_stream(handle);
        self.forget_request(worker, handle);
        Step::Over
    }

    /// Whether what an origin says besides its status and headers is of no use.
    fn ignores_body(&self, owner: Owner) -> bool {
        matches!(owner, Owner::Filter(number) if self.filtering.ignores_body(number))
    }

    /// Answers a client with a response that is here whole.
    pub(super) fn respond(
        &mut self,
        worker: &mut Engine,
        handle: RequestId,
        head: &Head,
        body: &[u8],
    ) {
        if let Some(script) = self.scripts.remove(&handle) {
            let (head, body) = script.wrap(head, body);
            self.respond(worker, handle, &head, &body);
            return;
        }
        let headers = passed(&head.headers);
        let response = ResponseHead {
            status: head.status,
            reason: &head.reason,
            headers: &headers,
            length: head.length,
        };
        // A client that has left needs no answer.
        let _ = worker.respond_relayed(handle, &response, body);
        self.forget_request(worker, handle);
    }

    /// A line of text from the edge itself.
    pub(super) fn answer_text(
        &mut self,
        worker: &mut Engine,
        handle: RequestId,
        status: u16,
        text: &str,
    ) {
        let head = Head {
            status,
            headers: vec![(b"Content-Type".to_vec(), b"text/plain".to_vec())],
            ..Head::default()
        };
        self.respond(worker, handle, &head, format!("{text}\n").as_bytes());
    }
}
