//! What the log has goes into the ring, in its order, or to those workers whom it is for.

use std::time::Duration;

use fermata_cluster::{Content, Place, Received};
use fermata_config::LogLevel;
use fermata_hub::{Kind, LockError, Message, PublishError, Subscriber};
use fermata_io::{Driver, clock};

use super::{Process, log_place};
use crate::channels::cluster::direct::{self, Direct};
use crate::channels::cluster::identity::is_of;
use crate::channels::publish::{self, check_channel, check_message};

/// Before another look at a ring without room, or at a socket that takes nothing.
const RETRY: Duration = Duration::from_micros(500);
/// How long the ring may have no room before the log says so.
const BEHIND_NOTICE_MS: u64 = 1_000;

impl Process {
    /// What follows is from another log, or something before it is missing.
    ///
    /// # Errors
    /// The ring is damaged.
    pub(super) fn begin(&mut self, place: Place) -> std::io::Result<()> {
        // A server that begins misses nothing.
        self.figures.gaps += u64::from(self.ring.log_reached().is_some());
        // In this order: a bridge that goes on after a death in between does both.
        self.try_again(|process| process.members.begin())?;
        self.leave_out(place)
    }

    /// Messages up to a place cannot be had for clients of this machine. Presence is not concerned.
    fn leave_out(&mut self, place: Place) -> std::io::Result<()> {
        let place = log_place(place);
        self.try_again(|process| process.ring.begin_log(&process.owner, place))?;
        self.has_published = true;
        Ok(())
    }

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

    /// Brings a record of the log to this machine's clients.
    ///
    /// # Errors
    /// The ring is damaged.
    pub(super) fn publish(&mut self, received: &Received) -> std::io::Result<()> {
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
            let message =
                format!("something else than an event is in the log, and left out: {cause}");
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

    /// Takes what servers tell each other of who is present, and tells clients who comes and who goes.
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
        self.members.set_applied(*place);
        Ok(())
    }

    /// Brings a message for one socket to the worker that has it. Of those for other machines nothing is kept.
    ///
    /// # Errors
    /// The ring is damaged.
    fn publish_direct(&mut self, received: &Received) -> std::io::Result<()> {
        let about = received.except.filter(|it| it.1 != Subscriber::WORKER.key);
        let (Some((worker, _)), Some(direct)) = (about, Direct::read(&received.data)) else {
            let message = "something else than a message for a socket is in the log, and left out";
            self.log_limited(LogLevel::Warning, message);
            return Ok(());
        };
        if !is_of(worker, self.node) {
            return Ok(());
        }
        if !self.fits("a socket", direct.data.len()) {
            return Ok(());
        }
        let channel = direct::channel_of(&direct);
        self.append(received, &direct::record(&channel, &direct))
    }

    /// Brings a message for the workers of all servers but its sender's to ours.
    ///
    /// # Errors
    /// The ring is damaged.
    fn publish_to_workers(&mut self, received: &Received) -> std::io::Result<()> {
        let Some((sender, _)) = received.except else {
            let message = "something else than a message for workers is in the log, and left out";
            self.log_limited(LogLevel::Warning, message);
            return Ok(());
        };
        let is_for_us = !self.is_new && !is_of(sender, self.node);
        if !is_for_us || !self.fits("workers", received.data.len()) {
            return Ok(());
        }
        let record = direct::workers_record(&received.data);
        self.append_about(received, &record, Some(Subscriber::WORKER))
    }

    /// Whether a message is none too large for this server's ring.
    fn fits(&mut self, whom: &str, bytes: usize) -> bool {
        let max = self.event_bytes_max;
        if bytes > max {
            let message = format!(
                "a message of {bytes} bytes for {whom} is left out: event_bytes_max is {max} here, another machine allows more"
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
                    self.has_published = true;
                    return Ok(());
                }
                Err(PublishError::Lock(error @ LockError::Corrupt)) => {
                    return Err(std::io::Error::other(error));
                }
                Err(error @ (PublishError::TooLarge { .. } | PublishError::ChannelName { .. })) => {
                    let message = format!(
                        "{error} (event_bytes_max), another machine allows more; clients are told that messages may be missing"
                    );
                    self.log_limited(LogLevel::Error, &message);
                    return self.leave_out(received.place);
                }
                // A worker is a whole ring behind. It reads on, or its master ends it.
                Err(error) => {
                    self.has_published = true;
                    self.wake_workers();
                    self.state.beat(clock::monotonic_ms());
                    let waited_ms = self.driver.refresh_now() - began_ms;
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
