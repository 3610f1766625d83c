//! Filters that query a server about each item before it is delivered: `http-check` and `http-modify`.
//!
//! The edge sends the requests to the URL in the client's meta value `url`, a limited number at a time. If the server fails or is
//! too slow, the item is dropped. Items that do not fit into the client's queue count as missed, as for a slow client: the edge
//! requests the missed items from the client's origin if the client has a link or a long poll, and otherwise disconnects the
//! client.

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

/// Name of the meta value that contains the URL of the filter's server.
const URL: &[u8] = b"url";

impl Holds<'_> {
    /// Queues an item for a client whose filters query a server about this item or about an earlier one. Returns `Some(true)` if
    /// the client is no longer held, `None` if no filter needs a query.
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

    /// Filters and delivers the queued items of a client, until an item needs a query to the filter's server.
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

    /// Handles the response of a filter's server.
    pub(super) fn on_filter_answer(&mut self, number: u64, head: &Head, body: &[u8]) {
        let modifies = !self.clients.filtering.ignores_body(number);
        self.on_filtered(number, read_answer(head, body, modifies));
    }

    /// Handles a query that failed or timed out.
    pub(super) fn on_filter_failed(&mut self, number: u64, reason: &str) {
        self.on_filtered(number, Err(Unfiltered::Unanswered(reason.to_owned())));
    }

    fn on_filtered(&mut self, number: u64, answer: Result<Answer, Unfiltered>) {
        if let Some(handle) = self.clients.filtering.on_answer(number, answer) {
            self.resume_filtering(handle);
        }
        self.tasks.add(Task::FilterTurns);
    }

    /// Starts the queries of clients that wait because the limit of concurrent queries was reached.
    pub(super) fn give_turns(&mut self) {
        while let Some(handle) = self.clients.filtering.next_turn() {
            self.resume_filtering(handle);
        }
    }

    /// Handles a client whose queue of items is empty. If the client lost items or its poll is over, that is handled now.
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

    /// Queries the server of a client's filter about an item. Returns an error if that is impossible.
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
        let mut source = source.ok_or("the meta value url of a filter has no route")?;
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
