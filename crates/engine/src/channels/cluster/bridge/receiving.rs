//! Copies records of the cluster log to the ring, in order, or to the workers they are addressed
//! to.

use std::time::Duration;

use fermata_cluster::{Content, Place, Received};
use fermata_config::LogLevel;
use fermata_hub::{Kind, LockError, LogBegin, Message, PublishError, Subscriber};
use fermata_io::{Driver, clock};

use super::{Process, log_place};
use crate::channels::cluster::direct::{self, Direct};
use crate::channels::cluster::identity::is_of;
use crate::channels::publish::{self, check_channel, check_message};

/// Pause before trying a full ring or a blocked socket again.
const RETRY: Duration = Duration::from_micros(500);
/// Tolerated lag of the log's clock behind this machine's, in milliseconds.
const CLOCK_MS_MAX: u64 = 5_000;
/// Time in milliseconds for which the ring may be full before a warning is logged.
const BEHIND_NOTICE_MS: u64 = 1_000;

impl Process {
    /// Handles the position of the log's last message, at the start of a connection.
    ///
    /// # Errors
    /// The ring is damaged.
    pub(super) fn on_log_end(
        &mut self,
        place: Place,
        stored_ms: Option<u64>,
    ) -> std::io::Result<()> {
        self.log_end = Some((place, stored_ms));
        let reached = self.ring.log_reached();
        // The ring has the history of a previous run, and the log may have newer messages. The
        // clients of this run connected later, so these messages are history for them, not live
        // events.
        if !self.state.has_been_ready() && reached.is_some_and(|it| it.epoch == place.epoch) {
            self.try_again(|process| process.ring.begin_past(&process.owner, place.seq))?;
        }
        Ok(())
    }

    /// Starts at a log position, and treats earlier records as missing: the log is a different one, or lost messages.
    ///
    /// # Errors
    /// The ring is damaged.
    pub(super) fn begin(&mut self, place: Place) -> std::io::Result<()> {
        let reached = self.ring.log_reached();
        let is_other = reached.is_none_or(|it| it.epoch != place.epoch);
        let end = self.log_end.filter(|(end, _)| end.epoch == place.epoch);
        let (past_until, stored_ms) = match end {
            Some((end, stored_ms)) if is_other => (end.seq, stored_ms),
            _ => (self.ring.past_until().unwrap_or(0), None),
        };
        // A starting server has missed only events that others published after its first clients
        // connected.
        let began_ms = self.state.began_unix_ms().saturating_sub(CLOCK_MS_MAX);
        let is_late = stored_ms.is_some_and(|stored_ms| stored_ms >= began_ms);
        let is_told = match reached {
            Some(_) => true,
            None => is_late && !self.state.has_been_ready() && past_until > 0,
        };
        self.figures.gaps += u64::from(reached.is_some());
        // Clear presence first. If the bridge is killed between the two steps, the ring still has
        // the old position, so the replacement of the bridge repeats both.
        self.try_again(|process| process.members.begin())?;
        self.begin_log(LogBegin {
            floor: log_place(place),
            past_until,
            is_told,
        })
    }

    /// Marks messages up to a position as unavailable to clients of this machine. Presence is not
    /// affected.
    fn leave_out(&mut self, place: Place) -> std::io::Result<()> {
        self.begin_log(LogBegin {
            floor: log_place(place),
            past_until: self.ring.past_until().unwrap_or(0),
            is_told: true,
        })
    }

    fn begin_log(&mut self, begin: LogBegin) -> std::io::Result<()> {
        self.try_again(|process| process.ring.begin_log(&process.owner, begin))?;
        self.has_published = true;
        Ok(())
    }

    /// Records that the log was read up to `place`. Ends the log's past if this was its last
    /// message.
    ///
    /// # Errors
    /// The ring is damaged.
    pub(super) fn pass(&mut self, place: Place) -> std::io::Result<()> {
        self.ring.note_read(place.seq);
        match self.ring.past_until() {
            Some(until) if place.seq >= until => self.end_past(until),
            _ => Ok(()),
        }
    }

    /// Records that all messages were read that the log had when the connection started.
    ///
    /// # Errors
    /// The ring is damaged.
    pub(super) fn reach_log_end(&mut self) -> std::io::Result<()> {
        let epoch = self.ring.log_reached().map(|it| it.epoch);
        let end = self.log_end.filter(|(end, _)| Some(end.epoch) == epoch);
        self.end_past(end.map_or(0, |(end, _)| end.seq))
    }

    /// Ends the log's past, if the ring is in it, after every message up to `until` was read. The
    /// past may have been set by an earlier connection, so it may end before the last message that
    /// the log had at the start of the present connection.
    fn end_past(&mut self, until: u64) -> std::io::Result<()> {
        self.ring.note_read(until);
        if self.ring.past_until().is_some() {
            self.try_again(|process| process.ring.end_past(&process.owner))?;
        }
        // Clients may wait for the end of the past.
        self.has_published = true;
        Ok(())
    }

    /// Repeats an attempt until the ring's lock is available.
    ///
    /// # Errors
    /// The ring is damaged.
    fn try_again(
        &mut self,
        mut attempt: impl FnMut(&mut Process) -> Result<(), LockError>,
    ) -> std::io::Result<()> {
        while let Err(error) = attempt(self) {
            if error == LockError::Corrupt {
                return Err(std::io::Error::other(error));
            }
            self.log(LogLevel::Error, &format!("the ring: {error}; tried again"));
            self.state.beat(clock::monotonic_ms());
            std::thread::sleep(RETRY);
        }
        Ok(())
    }

    /// Appends a record of the log to the ring for this machine's clients.
    ///
    /// # Errors
    /// The ring is damaged.
    pub(super) fn publish(&mut self, received: &Received) -> std::io::Result<()> {
        if let Some(until) = self.ring.past_until()
            && received.place.seq > until
        {
            self.end_past(until)?;
        }
        match received.content {
            Content::Event => {}
            Content::Presence => return self.publish_presence(received),
            Content::Direct => return self.publish_direct(received),
            Content::Workers => return self.publish_to_workers(received),
        }
        let message = publish::Message {
            name: received.name.as_deref(),
            data: &received.data,
        };
        let checked = check_channel(&received.channel).and_then(|()| check_message(&message));
        if let Err(cause) = checked {
            let message = format!("skipped an entry of the log that is not an event: {cause}");
            self.log_limited(LogLevel::Warning, &message);
            return Ok(());
        }
        if let (Some(once), Some(name)) = (&mut self.once, message.name)
            && !once.is_first(&received.channel, name, received.unix_ms)
        {
            return Ok(());
        }
        let record = Message {
            channel: &received.channel,
            kind: Kind::Message,
            name: message.name,
            data: message.data,
        };
        self.append(received, &record)
    }

    /// Applies a presence message of a server, and reports joins and leaves to clients.
    ///
    /// # Errors
    /// The ring is damaged.
    fn publish_presence(&mut self, received: &Received) -> std::io::Result<()> {
        let Received {
            place,
            channel,
            data,
            ..
        } = received;
        let now_ms = clock::monotonic_ms();
        let event = match check_channel(channel) {
            Ok(()) => self.members.take(*place, channel, data, now_ms),
            Err(cause) => Err(cause.into()),
        };
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(()),
            Err(cause) => {
                self.members.set_applied(*place);
                self.log_limited(LogLevel::Warning, &cause.to_string());
                return Ok(());
            }
        };
        let record = Message {
            channel,
            kind: event.kind,
            name: None,
            data: &event.data,
        };
        self.append(received, &record)?;
        // Only now: if the bridge is killed before, its replacement applies the message again.
        self.members.set_applied(*place);
        Ok(())
    }

    /// Delivers a message for one socket to its worker; drops those for other machines.
    ///
    /// # Errors
    /// The ring is damaged.
    fn publish_direct(&mut self, received: &Received) -> std::io::Result<()> {
        let about = received.except.filter(|it| it.1 != Subscriber::WORKER.key);
        let (Some((worker, _)), Some(direct)) = (about, Direct::read(&received.data)) else {
            let message = "skipped an entry of the log that is not a message for a socket";
            self.log_limited(LogLevel::Warning, message);
            return Ok(());
        };
        // The sockets of messages from before this server started no longer exist.
        if !is_of(worker, self.node) || self.ring.past_until().is_some() {
            return Ok(());
        }
        if !self.fits("a socket", direct.data.len()) {
            return Ok(());
        }
        let channel = direct::channel_of(&direct);
        self.append(received, &direct::record(&channel, &direct))
    }

    /// Delivers a message for workers to this machine's workers, unless this machine sent it.
    ///
    /// # Errors
    /// The ring is damaged.
    fn publish_to_workers(&mut self, received: &Received) -> std::io::Result<()> {
        let Some((sender, _)) = received.except else {
            let message = "skipped an entry of the log that is not a message for workers";
            self.log_limited(LogLevel::Warning, message);
            return Ok(());
        };
        // Messages to workers from before this server started do not concern its workers.
        let is_for_us = self.ring.past_until().is_none() && !is_of(sender, self.node);
        if !is_for_us || !self.fits("workers", received.data.len()) {
            return Ok(());
        }
        let record = direct::workers_record(&received.data);
        self.append_about(received, &record, Some(Subscriber::WORKER))
    }

    /// Returns true if this server's ring accepts a message of this size; otherwise logs that the message is skipped.
    fn fits(&mut self, whom: &str, bytes: usize) -> bool {
        let max = self.event_bytes_max;
        if bytes > max {
            let message = format!(
                "dropped a message of {bytes} bytes for {whom}: event_bytes_max is {max} here, another machine allows more"
            );
            self.log_limited(LogLevel::Error, &message);
        }
        bytes <= max
    }

    /// # Errors
    /// The ring is damaged.
    fn append(&mut self, received: &Received, record: &Message<'_>) -> std::io::Result<()> {
        let about = received
            .except
            .map(|(worker, key)| Subscriber { worker, key });
        self.append_about(received, record, about)
    }

    /// # Errors
    /// The ring is damaged.
    fn append_about(
        &mut self,
        received: &Received,
        record: &Message<'_>,
        about: Option<Subscriber>,
    ) -> std::io::Result<()> {
        let place = log_place(received.place);
        let began_ms = self.driver.refresh_now();
        let mut is_noticed = false;
        loop {
            match self
                .ring
                .publish_logged(&self.owner, record, about, place, received.unix_ms)
            {
                Ok(_) => {
                    if is_noticed {
                        self.state.set_blocked(None);
                    }
                    self.has_published = true;
                    return Ok(());
                }
                Err(PublishError::Lock(error @ LockError::Corrupt)) => {
                    return Err(std::io::Error::other(error));
                }
                Err(error @ (PublishError::TooLarge { .. } | PublishError::ChannelName { .. })) => {
                    let message = format!(
                        "{error} (event_bytes_max), another machine allows more; clients receive a gap event"
                    );
                    self.log_limited(LogLevel::Error, &message);
                    return self.leave_out(received.place);
                }
                // The ring is full of records that a worker has not read, or its lock is held. The
                // worker reads them, or the master kills it after `stall_timeout_ms`.
                Err(error) => {
                    self.has_published = true;
                    self.wake_workers();
                    self.state.beat(clock::monotonic_ms());
                    let waited_ms = self.driver.refresh_now() - began_ms;
                    if let PublishError::Behind { slot } = error
                        && waited_ms >= BEHIND_NOTICE_MS
                    {
                        self.state.set_blocked(Some(slot));
                    }
                    if waited_ms >= BEHIND_NOTICE_MS && !std::mem::replace(&mut is_noticed, true) {
                        self.log(
                            LogLevel::Warning,
                            &format!("the log of the cluster waits: {error}"),
                        );
                    }
                    std::thread::sleep(RETRY);
                }
            }
        }
    }
}
