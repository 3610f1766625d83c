//! Filters that ask a server about each item before its client gets it: `http-check` and `http-modify`.
//!
//! Requests go to the meta value `url` of the client, a few at a time; a server that fails, or is too slow, costs the item. What
//! does not fit into a queue is missed as what a slow client misses: whoever can asks its origin, and the others are
//! disconnected.

use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::stats::Counter;
use fermata_engine::{Left, RequestId};
use fermata_grip::item::Item;

use crate::client::delivery::{WAITING_BYTES_MAX, drop_item};
use crate::client::filtering::{
    Answer, Filtered, Taken, Unfiltered, Verdict, WAITING_MAX, json, read_answer,
};
use crate::client::socket::close_slow_socket;
use crate::client::source::Owner;
use crate::server::holds::Holds;
use crate::server::tasks::{Ask, Task};
use crate::upstream::response::Head;

/// The meta value that says where the server is.
const URL: &[u8] = b"url";

impl Holds<'_> {
    /// Takes an item for a client whose filters ask about it, or about one before it. `Some(true)`: the client is over;
    /// `None`: nobody is asked.
    pub(super) fn filter_item(
        &mut self,
        client: Left,
        channel: &[u8],
        item: &Rc<Item>,
    ) -> Option<bool> {
        if !self.clients.filtering.is_used() {
            return None;
        }
        let handle = client.request();
        let session = self.clients.sessions.get_mut(&handle)?;
        let serial = session.serial;
        match self.clients.filtering.take(client, session, channel, item) {
            Taken::Unasked => return None,
            Taken::LeftOut => return Some(false),
            Taken::Queued => {}
            Taken::Lost { is_first } => {
                self.worker.net.count(Counter::EdgeDroppedQueue, 1);
                if is_first {
                    let line = format!(
                        "more than {WAITING_MAX} items or {WAITING_BYTES_MAX} bytes wait for a client whose filters ask a server; it has missed something"
                    );
                    self.worker.net.log_for_client(LogLevel::Warning, &line);
                }
            }
        }
        self.resume_filtering(handle);
        let session = self.clients.sessions.get(&handle);
        Some(session.is_none_or(|it| it.serial != serial))
    }

    /// Goes on with the items of a client, as far as nobody has to be waited for.
    pub(super) fn resume_filtering(&mut self, handle: RequestId) {
        loop {
            let session = self.clients.sessions.get_mut(&handle).map(|it| &mut **it);
            match self.clients.filtering.judge(handle, session) {
                Verdict::Waits => break,
                Verdict::Over => {
                    let asked = self.clients.filtering.forget(handle);
                    break self.abandon_filter(asked);
                }
                Verdict::Empty => break self.end_filtering(handle),
                Verdict::LeftOut(None) | Verdict::Behind(Left::Socket(_)) => {}
                Verdict::LeftOut(Some(counter)) => self.worker.net.count(counter, 1),
                Verdict::Behind(Left::Request(handle)) => self.update(handle),
                Verdict::Behind(Left::Held(handle)) => self.on_missed(handle),
                Verdict::Unanswered(error) => drop_item(self.worker, &error.to_string()),
                Verdict::Failed(error) => drop_item(self.worker, &error.to_string()),
                Verdict::Deliver(filtered) => self.deliver_filtered(filtered),
                Verdict::Ask {
                    number,
                    item,
                    content,
                } => {
                    if let Err(reason) = self.ask_filter(handle, number, &item, content) {
                        let answer = Err(Unfiltered::Unanswered(reason.to_owned()));
                        self.clients.filtering.on_answer(number, answer);
                        self.tasks.add(Task::FilterTurns);
                    }
                }
            }
        }
    }

    /// The server of a filter has answered.
    pub(super) fn on_filter_answer(&mut self, number: u64, head: &Head, body: &[u8]) {
        let modifies = !self.clients.filtering.ignores_body(number);
        self.on_filtered(number, read_answer(head, body, modifies));
    }

    /// It could not be asked, or has not answered.
    pub(super) fn on_filter_failed(&mut self, number: u64, reason: &str) {
        self.on_filtered(number, Err(Unfiltered::Unanswered(reason.to_owned())));
    }

    fn on_filtered(&mut self, number: u64, answer: Result<Answer, Unfiltered>) {
        if let Some(handle) = self.clients.filtering.on_answer(number, answer) {
            self.resume_filtering(handle);
        }
        self.tasks.add(Task::FilterTurns);
    }

    /// Requests are over: as many clients ask as may.
    pub(super) fn give_turns(&mut self) {
        while let Some(handle) = self.clients.filtering.next_turn() {
            self.resume_filtering(handle);
        }
    }

    /// No item waits any more.
    fn end_filtering(&mut self, handle: RequestId) {
        match self.clients.filtering.end(handle) {
            Some((Left::Request(handle), true)) => self.update(handle),
            Some((Left::Request(handle), false)) => self.on_poll_due(handle),
            Some((Left::Held(handle), true)) if self.clients.has_link(handle) => {
                self.update(handle)
            }
            Some((Left::Held(handle), true)) => self.end_stream_of(handle),
            Some((Left::Socket(socket), true)) => {
                close_slow_socket(self.worker, socket.handshake())
            }
            Some((Left::Held(_) | Left::Socket(_), false)) | None => {}
        }
    }

    fn deliver_filtered(&mut self, filtered: Filtered) {
        match filtered {
            Filtered::Poll(handle, action) => {
                self.on_poll_item(handle, &action);
            }
            Filtered::Stream(handle, delivery) => {
                self.give_stream(handle, delivery);
            }
            Filtered::Socket(handle, action, content) => {
                self.give_socket(handle, &action, content);
            }
        }
    }

    /// Asks the server of a client's filter about an item. `Err`: why it cannot be asked.
    fn ask_filter(
        &mut self,
        handle: RequestId,
        number: u64,
        item: &Item,
        content: Vec<u8>,
    ) -> Result<(), &'static str> {
        let session = self.clients.sessions.get(&handle);
        let session = session.ok_or("the client has left")?;
        let last_ids = session.last_ids();
        let url = session.meta.get(URL).cloned().unwrap_or_default();
        if url.is_empty() {
            return Err(
                "a filter that asks a server needs the meta value url; set it with Grip-Set-Meta",
            );
        }
        let headers = vec![
            (b"Sub-Meta".to_vec(), json(&session.meta)),
            (b"Pub-Meta".to_vec(), json(&item.meta)),
        ];
        let source = session.source.clone();
        let source = self.routing.link_source(&source, &url);
        let mut source =
            source.ok_or("the meta value url, which a filter is to ask, leads nowhere")?;
        source.request = Rc::new(source.request.post(headers, content));
        let due_ms = self.worker.net.now_ms() + self.clients.filtering.timeout_ms;
        let ask = Ask::new(Owner::Filter(number), source).behind(last_ids);
        self.tasks.ask(Ask {
            deadline_ms: due_ms,
            ..ask
        });
        Ok(())
    }
}
