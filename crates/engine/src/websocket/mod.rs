//! WebSockets: a connection from its 101 to its end.
//!
//! `upgrade` answers handshakes, `input` makes messages of bytes, `output` queues frames, `close` ends
//! sockets in order and by time-out, `events` hands the program what concerns it, `channels` connects
//! sockets with the hub, `resume` brings them what they missed. The rules of the protocol are in `fermata_proto::ws`.
//!
//! A message that lies whole in the worker's input buffer is lent to the program from there, and frames
//! are written straight into the connection's output, which leaves in one write at the end of the turn.
//! An idle socket is its `Socket` and owns no buffer.

mod channels;
mod close;
mod events;
mod handshake;
mod input;
mod missing;
mod option_error;
mod output;
mod resume;
mod route;
mod silence;
mod tell;
mod upgrade;

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU16;

use fermata_config::Settings;
use fermata_proto::ws::Role;
use fermata_proto::ws::close::{self as close_frame, Closing};
use fermata_proto::ws::deflate::{Context, Decompressor};
use fermata_proto::ws::extension::Agreed;
use fermata_proto::ws::message::Reader;

use crate::channels::presence::Presence;
use crate::net::index::ExchangeIndex;

pub(crate) use channels::parse_id;
pub use channels::{Format, Join};
pub(crate) use events::Events;
pub use events::{SocketEvent, SocketInfo};
pub use handshake::AcceptError;
pub(crate) use handshake::{Accepted, Upgrade};
pub use option_error::OptionError;
pub use output::SendError;
pub(crate) use route::Served;
pub use route::{Callbacks, Compression, OriginPolicy, QueuePolicy, Route};
pub(crate) use silence::Silence;

/// Frames that one client sends in a row are looked at up to this number before others get their
/// turn: a whole read of small ones.
pub(crate) const FRAMES_MAX: u32 = 1024;

/// What a worker keeps for WebSockets, besides what each has of its own.
pub(crate) struct Sockets {
    /// The routes, by number. They are those of the start, so each socket finds its own.
    pub served: Vec<Served>,
    /// What the program has still to be told.
    pub events: Events,
    /// Handshakes that the program has to decide on, by connection.
    pub upgrades: HashMap<ExchangeIndex, Upgrade>,
    /// Clients that a trusted proxy has named, by connection.
    pub clients: HashMap<ExchangeIndex, IpAddr>,
    /// Decompresses what sockets send; allocates nothing until one does.
    pub inflater: Decompressor,
}

impl Sockets {
    pub fn new(settings: &Settings, routes: &[Route]) -> Sockets {
        Sockets {
            served: routes.iter().map(|route| route.served(settings)).collect(),
            events: Events::new(),
            upgrades: HashMap::new(),
            clients: HashMap::new(),
            inflater: Decompressor::new(),
        }
    }
}

/// `Socket::protocol` without one.
const PROTOCOL_NONE: u8 = u8::MAX;

/// `Socket::protocol` when it stands in `Busy::protocol`.
const PROTOCOL_OWN: u8 = u8::MAX - 1;

/// What a connection is besides since its 101 has been queued.
pub(crate) struct Socket {
    /// What most sockets do not need most of the time.
    busy: Option<Box<Busy>>,
    /// Its route: index into `Sockets::served`, plus one.
    route: NonZeroU16,
    /// What it has agreed on to compress messages.
    compresses: Compresses,
    /// Its subprotocol: index into the route's, or one of the constants above.
    protocol: u8,
    /// When its last message came, in seconds of the driver's clock.
    message_s: u32,
}

/// Whether messages to a client are compressed, and how: the bits of the window, and a mark where it
/// is kept from message to message. 0 = they are not.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Compresses(u8);

impl Compresses {
    const TAKEOVER: u8 = 0x80;

    fn new(agreed: Option<&Agreed>) -> Compresses {
        Compresses(agreed.map_or(0, |agreed| {
            let takeover = if agreed.server_no_context_takeover {
                0
            } else {
                Self::TAKEOVER
            };
            agreed.server_window_bits() | takeover
        }))
    }

    #[inline]
    fn is_agreed(self) -> bool {
        self.0 != 0
    }

    /// Each message may refer to those before: none can be shared with other sockets.
    fn refers_back(self) -> bool {
        self.0 & Self::TAKEOVER != 0
    }

    fn window_bits(self) -> u8 {
        self.0 & !Self::TAKEOVER
    }
}

/// The part of a socket that is there only while it is needed.
struct Busy {
    closing: Closing,
    /// Nothing has come since the last ping was sent.
    awaits_pong: bool,
    /// It was told what it did wrong: our side stays open until it has answered.
    awaits_answer: bool,
    /// The program has been told of its end, or need not be.
    is_told: bool,
    /// The beginning of a message or frame whose end has not come.
    reader: Reader,
    /// Where in `Connection::out` a frame begins of which nothing has been sent: not before `out_sent`
    /// unless everything is sent.
    unsent_frame: usize,
    /// What was said before, where compression may refer to it.
    context: Option<Box<Context>>,
    /// Its users in the presence of its channels: one channel each.
    presences: Vec<Presence>,
    /// Channels of which it has still to be sent what it missed.
    resume: Option<Box<missing::Resume>>,
    /// A subprotocol that the route does not list: the program has chosen it.
    protocol: Option<Box<[u8]>>,
}

impl Default for Busy {
    fn default() -> Busy {
        Busy {
            closing: Closing::new(Role::Server),
            awaits_pong: false,
            awaits_answer: false,
            is_told: false,
            reader: Reader::new(),
            unsent_frame: 0,
            context: None,
            presences: Vec::new(),
            resume: None,
            protocol: None,
        }
    }
}

impl Socket {
    fn new(route: u16, protocol: u8, agreed: Option<&Agreed>) -> Socket {
        let busy = agreed
            .filter(|agreed| agreed.keeps_context())
            .map(|agreed| {
                Box::new(Busy {
                    context: Some(Box::new(Context::new(Role::Server, agreed))),
                    ..Busy::default()
                })
            });
        Socket {
            busy,
            compresses: Compresses::new(agreed),
            route: NonZeroU16::MIN.saturating_add(route),
            protocol,
            message_s: 0,
        }
    }

    /// Whether frames may still be queued.
    pub fn can_send(&self) -> bool {
        self.busy
            .as_ref()
            .is_none_or(|busy| busy.closing.can_send())
    }

    /// Index into `Sockets::served`.
    #[inline]
    pub fn route(&self) -> usize {
        usize::from(self.route.get() - 1)
    }

    /// Whether frames of the client still count.
    #[inline]
    fn can_read(&self) -> bool {
        self.busy
            .as_ref()
            .is_none_or(|busy| busy.closing.can_read())
    }

    fn awaits_pong(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.awaits_pong)
    }

    /// The client has sent something, which may be its pong.
    pub fn note_alive(&mut self) {
        if let Some(busy) = &mut self.busy {
            busy.awaits_pong = false;
        }
    }

    /// Whether our side of the connection is kept open for its answer to our close frame.
    pub fn awaits_answer(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.awaits_answer)
    }

    /// Looks at bytes that do not count any more. Whether they bring the answer that was waited for.
    pub fn is_answered(&mut self, bytes: &[u8]) -> bool {
        let busy = self.busy.as_mut();
        let awaits =
            busy.filter(|busy| busy.awaits_answer && close_frame::ends_like_a_close(bytes));
        awaits.is_some_and(|busy| std::mem::take(&mut busy.awaits_answer))
    }

    fn busy(&mut self) -> &mut Busy {
        self.busy.get_or_insert_default()
    }

    /// Its users in the presence of channels, when it ends.
    pub fn take_presences(&mut self) -> Vec<Presence> {
        let busy = self.busy.as_mut();
        busy.map_or_else(Vec::new, |busy| std::mem::take(&mut busy.presences))
    }

    /// Whether each message to it is compressed for it alone.
    pub fn refers_back(&self) -> bool {
        self.compresses.refers_back()
    }

    /// Frees what is not needed any more.
    fn rest(&mut self) {
        self.busy.take_if(|busy| {
            busy.closing.can_send()
                && busy.closing.can_read()
                && !busy.awaits_pong
                && !busy.is_told
                && busy.reader.is_between_messages()
                && busy.unsent_frame == 0
                && busy.context.is_none()
                && busy.presences.is_empty()
                && busy.resume.is_none()
                && busy.protocol.is_none()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_socket_is_small() {
        assert_eq!(size_of::<Option<Socket>>(), 16);
        let mut socket = Socket::new(7, PROTOCOL_NONE, None);
        assert!(socket.can_send() && socket.can_read() && socket.busy.is_none());
        assert_eq!(socket.route(), 7);
        socket.busy().awaits_pong = true;
        socket.rest();
        assert!(socket.busy.is_some());
        socket.busy().awaits_pong = false;
        socket.rest();
        assert!(socket.busy.is_none());
    }
}
