//! Channel API of an embedder: publishing, history, messages to other workers, and clients held by
//! an edge.

use fermata_io::Driver;
use fermata_proto::sse;

use crate::channels::cluster::{Ack, History, HistoryError, HistoryReader, Publisher, Publishing};
use crate::channels::hold::{Hold, HoldError};
use crate::channels::opening::{Last, Opening};
use crate::channels::publish::{EventId, Message, Past, PublishFailure};
use crate::channels::resume::ReadNext;
use crate::channels::since::Since;
use crate::channels::views::{Past as ViewPast, ViewHold};
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::http::respond::Gone;
use crate::id::{PublishId, ReaderId, RequestId, SocketId};
use crate::misuse::Misuse;
use crate::net::Net;
use crate::websocket::parse_id;
use crate::worker::Worker;

impl<D: Driver> Net<D> {
    /// Returns true for a HEAD request, which cannot hold a client.
    pub fn is_head(&self, handle: RequestId) -> bool {
        self.open_request(handle)
            .ok()
            .and_then(|index| self.connections.exchange(index))
            .is_some_and(|it| it.is_head)
    }
}

impl Waiting {
    /// Returns the data of the last `Event::PeerMessage`.
    pub fn peer_message(&self) -> &[u8] {
        &self.peer_message
    }
}

impl<D: Driver> Worker<D> {
    /// Publishes a message to a channel. After the return, every subscriber of every worker
    /// receives the message or a gap event.
    pub fn publish(
        &mut self,
        channel: &[u8],
        message: Message<'_>,
    ) -> Result<EventId, PublishFailure> {
        self.publish_except(channel, message, None)
    }

    /// Publishes to all subscribers except a socket of this worker; `None` = all subscribers.
    pub fn publish_except(
        &mut self,
        channel: &[u8],
        message: Message<'_>,
        except: Option<SocketId>,
    ) -> Result<EventId, PublishFailure> {
        self.publish_acknowledged(channel, message, except, Ack::Cluster)
    }

    /// Publishes with a choice of the acknowledgement to wait for, which matters only in a cluster.
    /// Without waiting for the cluster log, the returned id is empty.
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

    /// Publishes to all subscribers except the socket with this id, of any worker. An invalid id
    /// excludes no socket.
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

    /// Starts to publish for a handler that waits. `publisher` is the acknowledgement, the
    /// publisher and the start time by the worker's clock. When the result is known,
    /// [`crate::Event::Wake`] follows, and [`Channels::next_published`] or
    /// [`Channels::next_published_beside`] returns the publisher's number.
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

    /// Starts to publish to all subscribers except the socket with this id, of any worker. An
    /// invalid id excludes no socket.
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

    /// Returns the result of a record whose publisher started at `began_ms`; `None` while it is
    /// unknown.
    ///
    /// # Errors
    /// The log refused it, or did not reply in time.
    pub fn end_publish(
        &mut self,
        record: PublishId,
        began_ms: u64,
    ) -> Option<Result<EventId, PublishFailure>> {
        let (channels, mut to) = self.clients();
        channels.end_publish(&mut to, record, began_ms)
    }

    /// Stops waiting for a record, which is still published.
    pub fn forget_publish(&mut self, record: PublishId) {
        self.channels.forget_publish(&mut self.http, record)
    }

    /// Sets the request whose handler is about to publish, if any. The default is the last
    /// delivered request, which is wrong for a handler that has waited.
    pub fn publish_for(&mut self, handle: Option<RequestId>) {
        if self.http.trace.has_spans() {
            self.http.publisher = Some(handle);
        }
    }

    /// Returns the newest messages of a channel, oldest first, at most `count_max`. Only messages
    /// after `since` are returned. If `since` is `None` or from another ring, all retained messages
    /// are returned. Blocks the worker if messages have to be read from the cluster log.
    pub fn history(
        &mut self,
        channel: &[u8],
        since: Option<&[u8]>,
        count_max: usize,
    ) -> Result<Vec<Past>, HistoryError> {
        let (channels, mut to) = self.clients();
        channels.history_now(&mut to, channel, since, count_max)
    }

    /// Starts to read history for a handler that can wait for the log.
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

    /// Returns the history if the log has replied or the time limit is over; `None`: call again
    /// shortly.
    pub fn end_history(
        &mut self,
        reader: &mut HistoryReader,
    ) -> Option<Result<Vec<Past>, HistoryError>> {
        self.channels.end_history(reader)
    }

    /// Returns the newest messages of a channel that this worker has read. A client that subscribes
    /// now receives all later messages.
    pub fn history_read(&mut self, channel: &[u8], count_max: usize) -> Result<Vec<Past>, Misuse> {
        let unix_ms = self.net.driver.unix_ms();
        self.channels.history_read(channel, count_max, unix_ms)
    }

    /// Opens a reader of a channel, to be closed with [`Worker::close_reader`].
    ///
    /// # Errors
    /// The channel name is invalid, or [`READERS_MAX`](crate::READERS_MAX) is reached.
    pub fn open_reader(&mut self, channel: &[u8], since: Since<'_>) -> Result<ReaderId, Misuse> {
        self.channels.open_reader(channel, since)
    }

    /// Reads the next event of a reader's channel. After [`ReadNext::Wait`],
    /// [`Event::Read`](crate::Event::Read) follows when there may be more; `None` if the reader was
    /// closed.
    pub fn read_next(&mut self, reader: ReaderId) -> Option<ReadNext> {
        self.channels.read_next(&mut self.net, reader)
    }

    /// Closes a reader. [`Event::Read`](crate::Event::Read) may still follow for it.
    pub fn close_reader(&mut self, reader: ReaderId) {
        let channels = &mut self.channels;
        channels.readers.close(&mut channels.local, reader);
    }

    /// Sends a message to all other workers, which receive
    /// [`Event::PeerMessage`](crate::Event::PeerMessage). Returns the number of workers.
    ///
    /// # Errors
    /// The ring has no room; some workers may have received it.
    pub fn send_to_workers(&mut self, data: &[u8]) -> Result<usize, PublishFailure> {
        let (channels, mut to) = self.clients();
        channels.send_to_workers(&mut to, data)
    }

    /// Stores a note for the next worker.
    ///
    /// # Errors
    /// The ring has no room, or the note is larger than `event_bytes_max`.
    pub fn keep_note(&mut self, data: &[u8]) -> Result<(), PublishFailure> {
        let (channels, mut to) = self.clients();
        channels.keep_note(&mut to, data)
    }

    /// Returns the newest notes, oldest first.
    pub fn notes(&mut self, count_max: usize) -> Vec<Past> {
        self.channels.notes(count_max, self.net.driver.unix_ms())
    }

    /// Answers a request with an event stream that stays open (HTML, section 9.2, Server-sent
    /// events).
    pub fn hold(&mut self, handle: RequestId, hold: &Hold<'_>) -> Result<(), HoldError> {
        let (channels, mut to) = self.clients();
        channels.hold(&mut to, handle, hold)
    }

    /// Answers a request with an event stream of a view that stays open. `headers` is called when
    /// the extent of the past events is known.
    ///
    /// # Errors
    /// The client is not held, and its request needs a response.
    pub fn hold_view(
        &mut self,
        handle: RequestId,
        hold: &ViewHold<'_>,
        headers: impl FnOnce(ViewPast) -> Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Result<(), HoldError> {
        let (channels, mut to) = self.clients();
        channels.hold_view(&mut to, handle, hold, headers)
    }

    /// Builds the first bytes for a client held by an edge. An edge that already holds the client
    /// and misses events sends `lasts`; the result then contains only the missed events.
    ///
    /// # Errors
    /// As for `hold`.
    pub fn opening(&mut self, hold: &Hold<'_>, lasts: &[Last]) -> Result<Opening, HoldError> {
        let unix_ms = self.net.driver.unix_ms();
        let counts = &mut self.net.counts;
        self.channels.opening(hold, lasts, unix_ms, counts)
    }
}

impl Http {
    /// Answers a request with the first bytes for the client and the instruction to hold it.
    ///
    /// # Errors
    /// The request is not open.
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
