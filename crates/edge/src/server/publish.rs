//! How items get into the ring, and what plain streams are sent of them.

use fermata_config::LogLevel;
use fermata_engine::{Message, PublishFailure};
use fermata_grip::item::{Item, StreamAction};
use fermata_grip::packet::Notation;
use fermata_grip::reliable::Verdict;

use super::edge::Edge;
use super::items;
use super::timers::Timer;
use crate::control::{self, Action, Answer, Request};

/// How soon the ring is tried again that had no room.
pub(super) const BACKLOG_MS: u64 = 50;

/// What the ring's records are to streams without wishes: content as it was published. False: it is no content.
pub(super) fn stream(data: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(item) = items::read(data) else {
        return true;
    };
    let Some(format) = item.http_stream else {
        return true;
    };
    // Content that filters were to change must not be seen unchanged.
    if format.content_filters.is_some_and(|it| !it.is_empty()) {
        return true;
    }
    match format.action {
        StreamAction::Send(content) => {
            out.extend_from_slice(&content);
            true
        }
        StreamAction::Refresh => true,
        StreamAction::Hint | StreamAction::Close => false,
    }
}

impl Edge {
    /// Appends an item to the ring, from which every worker reads it.
    fn append(&mut self, item: &Item) -> Result<(), PublishFailure> {
        let data = item.to_value(Notation::Json).to_json().to_string();
        let message = Message {
            name: None,
            data: data.as_bytes(),
        };
        self.worker.publish(&item.channel, message)?;
        self.stats_message(item);
        Ok(())
    }

    /// Publishes items, or takes none of them: in the order of their ids, each once.
    pub(super) fn publish(&mut self, items: Vec<Item>) -> Result<(), PublishFailure> {
        if self.is_behindhand() {
            // Before an id is remembered, or the publisher's next try would be taken for a duplicate.
            let text = "items published before wait for a worker that is behind; publish again in a second";
            return Err(PublishFailure::Backpressure(text.to_owned()));
        }
        self.take_items(items)
    }

    /// Whether items wait for room in the ring.
    pub(super) fn is_behindhand(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Publishes items, whatever port they came by. What the ring has no room for now waits, so nothing that is taken is lost.
    pub(super) fn take_items(&mut self, items: Vec<Item>) -> Result<(), PublishFailure> {
        let now_ms = self.worker.now_ms();
        let mut ready = Vec::new();
        for item in items {
            let channel = item.channel.clone();
            let verdict = self.intake.offer(now_ms, item, &mut ready);
            let reason = match verdict {
                Verdict::Delivered | Verdict::Waiting => continue,
                // Sending one thing several ways is what ids are for.
                Verdict::Duplicate => continue,
                Verdict::Rival => "another item waits for the same predecessor",
                Verdict::Full => "too many items wait for their predecessors",
            };
            let line = format!(
                "an item for {} is dropped: {reason}",
                channel.escape_ascii()
            );
            self.worker.log_for_client(LogLevel::Warning, &line);
        }
        let was_behindhand = self.is_behindhand();
        self.backlog.extend(ready);
        // Those before go first, when their timer says so.
        let outcome = match was_behindhand {
            true => Ok(()),
            false => self.append_backlog(),
        };
        self.watch_items();
        outcome
    }

    /// Appends what is ready, until the ring has no room. One that no ring would take is left out and told of.
    fn append_backlog(&mut self) -> Result<(), PublishFailure> {
        let mut outcome = Ok(());
        while let Some(item) = self.backlog.pop_front() {
            match self.append(&item) {
                Ok(()) => {}
                Err(PublishFailure::Backpressure(reason)) => {
                    let line = format!("publishing waits: {reason}");
                    self.worker.log_for_client(LogLevel::Warning, &line);
                    self.backlog.push_front(item);
                    break;
                }
                Err(failure) => {
                    let line = format!("an item is dropped: {failure}");
                    self.worker.log_for_client(LogLevel::Warning, &line);
                    outcome = outcome.and(Err(failure));
                }
            }
        }
        outcome
    }

    /// Publishes what has waited long enough, for its predecessor or for room.
    pub(super) fn on_items_due(&mut self) {
        let mut ready = Vec::new();
        let now_ms = self.worker.now_ms();
        self.intake.expire(now_ms, &mut ready);
        self.backlog.extend(ready);
        // Its publishers were answered long ago; the log has why.
        let _ = self.append_backlog();
        self.watch_items();
    }

    fn watch_items(&mut self) {
        let expires_ms = self.intake.next_deadline_ms();
        let again_ms = self
            .is_behindhand()
            .then(|| self.worker.now_ms() + BACKLOG_MS);
        if let Some(due_ms) = expires_ms.into_iter().chain(again_ms).min() {
            self.timers.at(due_ms, Timer::Items);
        }
    }

    /// A request to the control port.
    pub(super) fn on_control(&mut self) {
        let upload = self.worker.request().upload();
        let body = self.control_body(upload);
        let view = self.worker.request();
        let handle = view.handle();
        let (answer, action) = match &body {
            Some(body) => control::answer(&Request {
                method: view.method(),
                target: view.target(),
                accept: view.header(b"accept", 0),
                origin: view.header(b"origin", 0),
                body,
            }),
            None => (control::too_large(), Action::None),
        };
        if upload != 0 {
            self.worker.release_upload(upload);
        }
        let answer = match action {
            Action::None => answer,
            Action::Recover => {
                self.intake.recover();
                self.recover_streams();
                answer
            }
            Action::Publish(items) => match self.publish(items) {
                Ok(()) => answer,
                Err(failure) => refused(&failure),
            },
        };
        let headers = answer.headers.iter();
        let headers = headers.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        // Who has left needs no answer.
        let _ = self
            .worker
            .respond(handle, answer.status, None, headers, &answer.body);
    }
}

impl Edge {
    /// The body of the current control request; `None`: it is too large.
    fn control_body(&self, upload: u32) -> Option<Vec<u8>> {
        let spooled = self.worker.upload(upload);
        match spooled.and_then(|it| it.body.as_ref()) {
            Some((_, bytes)) if *bytes > self.control_body_bytes_max => None,
            // A file that cannot be read is as good as an empty body: the answer says what is missing.
            Some((file, _)) => Some(std::fs::read(file.path()).unwrap_or_default()),
            None => {
                let body = self.worker.request().body();
                (body.len() as u64 <= self.control_body_bytes_max).then(|| body.to_vec())
            }
        }
    }
}

fn refused(failure: &PublishFailure) -> Answer {
    let status = match failure {
        PublishFailure::Misuse(_) => 400,
        PublishFailure::Backpressure(_) => 503,
    };
    Answer {
        status,
        headers: vec![("Content-Type", "text/plain")],
        body: format!("{failure}\n").into_bytes(),
    }
}
