//! What an embedder does with channels: publishing, history, notices to other workers, and clients that an edge holds.

use fermata_io::Driver;
use fermata_proto::sse;

use crate::channels::cluster::{Ack, History, HistoryError, HistoryReader, Publisher, Publishing};
use crate::channels::hold::{Hold, HoldError};
use crate::channels::opening::{Last, Opening};
use crate::channels::publish::{EventId, Message, Past, PublishFailure};
use crate::channels::views::{Past as ViewPast, ViewHold};
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::http::respond::Gone;
use crate::id::{PublishId, RequestId, SocketId};
use crate::misuse::Misuse;
use crate::net::Net;
use crate::websocket::parse_id;
use crate::worker::Worker;

impl<D: Driver> Net<D> {
    /// Whether a request is a HEAD, which holds nobody.
    pub fn is_head(&self, handle: RequestId) -> bool {
        self.open_request(handle)
            .ok()
            .and_then(|index| self.connections.exchange(index))
            .is_some_and(|it| it.is_head)
    }
}

impl Waiting {
    /// What another worker has sent, of the last `Event::PeerMessage`.
    pub fn peer_message(&self) -> &[u8] {
        &self.peer_message
    }
}

impl<D: Driver> Worker<D> {
    /// Appends a message to a channel. When it returns, the message has been appended: every
    /// subscriber in every worker gets it, or a gap event.
    pub fn publish(
        &mut self,
        channel: &[u8],
        message: Message<'_>,
    ) -> Result<EventId, PublishFailure> {
        self.publish_except(channel, message, None)
    }

    /// The same for all subscribers but one: a socket of this worker; `None` = nobody.
    pub fn publish_except(
        &mut self,
        channel: &[u8],
        message: Message<'_>,
        except: Option<SocketId>,
    ) -> Result<EventId, PublishFailure> {
        self.publish_acknowledged(channel, message, except, Ack::Cluster)
    }

    /// The same where the caller says what is waited for, which makes a difference only in a cluster. Without waiting the id is
    /// empty there.
    pub fn publish_acknowledged(
        &mut self,
        channel: &[u8],
        message: Message<'_>,
        except: Option<SocketId>,
        ack: Ack,
    ) -> Result<EventId, PublishFailure> {
        let (channels, mut to) = self.clients();
        let except = except.and_then(|socket| channels.excepted(to.net, socket));
        channels.publish_counted(&mut to, channel, message, except, ack)
    }

    /// The same for all subscribers but a socket of any worker, by its id; nobody is left out when it is no id.
    pub fn publish_except_id(
        &mut self,
        channel: &[u8],
        message: Message<'_>,
        id: &[u8],
    ) -> Result<EventId, PublishFailure> {
        let except = parse_id(id).map(|(_, subscriber)| subscriber);
        let (channels, mut to) = self.clients();
        channels.publish_counted(&mut to, channel, message, except, Ack::Cluster)
    }

    /// Begins to publish for one that waits. `publisher` is what it waits for, who it is, and when it has begun by the worker's
    /// clock; when the answer is there, [`crate::Event::Wake`] tells that [`Channels::next_published`] or
    /// [`Channels::next_published_beside`] has its number.
    ///
    /// # Errors
    /// The event is not published.
    pub fn begin_publish(
        &mut self,
        channel: &[u8],
        message: Message<'_>,
        except: Option<SocketId>,
        publisher: (Ack, Option<Publisher>, u64),
    ) -> Result<Publishing, PublishFailure> {
        let except = except.and_then(|socket| self.channels.excepted(&self.net, socket));
        let (channels, mut to) = self.clients();
        channels.begin_publish(&mut to, channel, message, except, publisher)
    }

    /// The same for all subscribers but a socket of any worker, by its id; nobody is left out when it is no id.
    ///
    /// # Errors
    /// The event is not published.
    pub fn begin_publish_except_id(
        &mut self,
        channel: &[u8],
        message: Message<'_>,
        id: &[u8],
        publisher: (Ack, Option<Publisher>, u64),
    ) -> Result<Publishing, PublishFailure> {
        let except = parse_id(id).map(|(_, subscriber)| subscriber);
        let (channels, mut to) = self.clients();
        channels.begin_publish(&mut to, channel, message, except, publisher)
    }

    /// What became of a record whose publisher has begun at `began_ms`; `None` while that is not known.
    ///
    /// # Errors
    /// The log has not taken it, or not said so in time.
    pub fn end_publish(
        &mut self,
        record: PublishId,
        began_ms: u64,
    ) -> Option<Result<EventId, PublishFailure>> {
        let (channels, mut to) = self.clients();
        channels.end_publish(&mut to, record, began_ms)
    }

    /// Stops waiting for a record, which is published all the same.
    pub fn forget_publish(&mut self, record: PublishId) {
        self.channels.forget_publish(&mut self.http, record)
    }

    /// Names the request whose handler is about to publish, if one is. Without it that is the one that was handed out last, which
    /// is another one where handlers wait.
    pub fn publish_for(&mut self, handle: Option<RequestId>) {
        if self.http.trace.has_spans() {
            self.http.publisher = Some(handle);
        }
    }

    /// The newest messages of a channel, oldest first: those after `since` (all that are kept when
    /// it is `None` or of another server's life), at most `count_max`. What only the log of a cluster has holds the worker.
    pub fn history(
        &mut self,
        channel: &[u8],
        since: Option<&[u8]>,
        count_max: usize,
    ) -> Result<Vec<Past>, HistoryError> {
        let (channels, mut to) = self.clients();
        channels.history_now(&mut to, channel, since, count_max)
    }

    /// The same for a handler that waits for the log.
    pub fn begin_history(
        &mut self,
        channel: &[u8],
        since: Option<&[u8]>,
        count_max: usize,
    ) -> Result<History, Misuse> {
        let unix_ms = self.net.driver.unix_ms();
        self.channels
            .begin_history(channel, since, count_max, unix_ms)
    }

    /// What was begun, when the log has answered or its time is over; `None`: ask a little later.
    pub fn end_history(
        &mut self,
        reader: &mut HistoryReader,
    ) -> Option<Result<Vec<Past>, HistoryError>> {
        self.channels.end_history(reader)
    }

    /// The newest messages of a channel as far as this worker has read the ring: what comes later still comes to whoever
    /// subscribes now.
    pub fn history_read(&mut self, channel: &[u8], count_max: usize) -> Result<Vec<Past>, Misuse> {
        let unix_ms = self.net.driver.unix_ms();
        self.channels.history_read(channel, count_max, unix_ms)
    }

    /// Sends a message to all other workers: each has it as [`Event::PeerMessage`](crate::Event::PeerMessage). Returns how many
    /// they are.
    ///
    /// # Errors
    /// The ring has no room; those before may have it.
    pub fn send_to_workers(&mut self, data: &[u8]) -> Result<usize, PublishFailure> {
        let (channels, mut to) = self.clients();
        channels.send_to_workers(&mut to, data)
    }

    /// Keeps something for the worker that comes after this one.
    ///
    /// # Errors
    /// The ring has no room, or the note is larger than `event_bytes_max`.
    pub fn keep_note(&mut self, data: &[u8]) -> Result<(), PublishFailure> {
        let (channels, mut to) = self.clients();
        channels.keep_note(&mut to, data)
    }

    /// The newest notes, oldest first.
    pub fn notes(&mut self, count_max: usize) -> Vec<Past> {
        self.channels.notes(count_max, self.net.driver.unix_ms())
    }

    /// Answers a request by an event stream that stays open (HTML, 9.2, Server-sent events).
    pub fn hold(&mut self, handle: RequestId, hold: &Hold<'_>) -> Result<(), HoldError> {
        let (channels, mut to) = self.clients();
        channels.hold(&mut to, handle, hold)
    }

    /// Answers a request by an event stream of a view that stays open. `headers` are asked for when it is known what the
    /// client gets of the past.
    ///
    /// # Errors
    /// The client is not held, and its request has still to be answered.
    pub fn hold_view(
        &mut self,
        handle: RequestId,
        hold: &ViewHold<'_>,
        headers: impl FnOnce(ViewPast) -> Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Result<(), HoldError> {
        let (channels, mut to) = self.clients();
        channels.hold_view(&mut to, handle, hold, headers)
    }

    /// What a client gets first that is held elsewhere. `lasts` is what the edge says of a client that it holds already
    /// and that misses something: then only that is wanted.
    ///
    /// # Errors
    /// As `hold`.
    pub fn opening(&mut self, hold: &Hold<'_>, lasts: &[Last]) -> Result<Opening, HoldError> {
        let unix_ms = self.net.driver.unix_ms();
        let counts = &mut self.net.counts;
        self.channels.opening(hold, lasts, unix_ms, counts)
    }
}

impl Http {
    /// Answers a request with what its client gets first and the instruction to hold it.
    ///
    /// # Errors
    /// The request is gone.
    pub fn respond_elsewhere<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: RequestId,
        hold: &Hold<'_>,
        instruction: &[(&str, Vec<u8>)],
        body: &[u8],
    ) -> Result<(), Gone> {
        let index = net.open_request(handle)?;
        let instruction = instruction
            .iter()
            .map(|(name, value)| (name.as_bytes(), &value[..]));
        let headers: Vec<_> = hold.all_headers().chain(instruction).collect();
        self.answer(
            net,
            index,
            200,
            Some(sse::CONTENT_TYPE),
            headers.into_iter(),
            body,
        );
        Ok(())
    }
}
