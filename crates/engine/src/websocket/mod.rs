//! WebSockets, from the 101 response to the close.
//!
//! `upgrade` handles handshakes, `input` parses messages, `output` queues frames, `close` closes
//! sockets, `events` delivers events to the application, `channels` connects sockets with channels,
//! `resume` sends missed messages. The protocol rules are in `fermata_proto::ws`.
//!
//! A message that is complete in the worker's input buffer is lent to the application. Frames are
//! written directly into the connection's output, which is sent in one write at the end of the
//! turn. An idle socket consists of its `Socket` and has no buffer.

mod channels;
mod close;
mod delivery;
mod events;
mod handshake;
mod input;
mod missing;
mod option_error;
mod output;
mod resume;
mod route;
mod silence;
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

/// Maximum number of frames of one client processed in a row before other clients are served: the
/// frames of a full read of small messages.
pub(crate) const FRAMES_MAX: u32 = 1024;

/// A worker's WebSocket state, besides the state of each socket.
pub(crate) struct Sockets {
    /// Routes, by number. They never change after the start.
    pub served: Vec<Served>,
    /// Undelivered events.
    pub events: Events,
    /// Handshakes that wait for the application, by connection.
    pub upgrades: HashMap<ExchangeIndex, Upgrade>,
    /// Client addresses named by trusted proxies, by connection.
    pub clients: HashMap<ExchangeIndex, IpAddr>,
    /// Decompressor for all sockets of the worker; allocates nothing until the first use.
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

/// `Socket::protocol` without a subprotocol.
const PROTOCOL_NONE: u8 = u8::MAX;

/// Value of `Socket::protocol` if the protocol is in `Busy::protocol`.
const PROTOCOL_OWN: u8 = u8::MAX - 1;

/// WebSocket state of a connection after its 101 response.
pub(crate) struct Socket {
    /// State that most sockets rarely need.
    busy: Option<Box<Busy>>,
    /// Route: index into `Sockets::served`, plus 1.
    route: NonZeroU16,
    /// Negotiated compression.
    compresses: Compresses,
    /// Subprotocol: index into the route's list, or one of the constants above.
    protocol: u8,
    /// Time of the last message, in seconds of the driver's clock.
    message_s: u32,
}

/// Compression of sent messages: window bits, and a flag for context takeover. 0 = none.
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

    /// Returns true if messages may refer to earlier messages. Frames then cannot be shared between
    /// sockets.
    fn refers_back(self) -> bool {
        self.0 & Self::TAKEOVER != 0
    }

    fn window_bits(self) -> u8 {
        self.0 & !Self::TAKEOVER
    }
}

/// State of a socket that exists only while it is needed.
struct Busy {
    closing: Closing,
    /// True if no bytes have arrived since the last ping.
    awaits_pong: bool,
    /// True after a close frame because of a violation was sent: the server's sending side stays
    /// open until the reply.
    awaits_answer: bool,
    /// The close event was delivered or is not needed.
    is_close_queued: bool,
    /// The start of an incomplete message or frame.
    reader: Reader,
    /// Offset in `Connection::out` of the first frame of which no byte was sent; below `out_sent`
    /// only if all bytes were sent.
    unsent_frame: usize,
    /// Compression context with earlier messages, if takeover was negotiated.
    context: Option<Box<Context>>,
    /// Users of the socket in the presence of channels, one channel each.
    presences: Vec<Presence>,
    /// Channels with missed messages to send.
    resume: Option<Box<missing::Resume>>,
    /// A subprotocol selected by the application that the route does not list.
    protocol: Option<Box<[u8]>>,
}

impl Default for Busy {
    fn default() -> Busy {
        Busy {
            closing: Closing::new(Role::Server),
            awaits_pong: false,
            awaits_answer: false,
            is_close_queued: false,
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

    /// Returns true if frames may still be queued.
    pub fn can_send(&self) -> bool {
        self.busy
            .as_ref()
            .is_none_or(|busy| busy.closing.can_send())
    }

    /// Returns the index into `Sockets::served`.
    #[inline]
    pub fn route(&self) -> usize {
        usize::from(self.route.get() - 1)
    }

    /// Returns true if frames of the client are still processed.
    #[inline]
    fn can_read(&self) -> bool {
        self.busy
            .as_ref()
            .is_none_or(|busy| busy.closing.can_read())
    }

    fn awaits_pong(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.awaits_pong)
    }

    /// Notes that the client has sent bytes, possibly its pong.
    pub fn note_alive(&mut self) {
        if let Some(busy) = &mut self.busy {
            busy.awaits_pong = false;
        }
    }

    /// Returns true if the server's sending side stays open until the client replies to the close
    /// frame.
    pub fn awaits_answer(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.awaits_answer)
    }

    /// Searches ignored input for the client's close frame. Returns true if it was found.
    pub fn is_answered(&mut self, bytes: &[u8]) -> bool {
        let busy = self.busy.as_mut();
        let awaits =
            busy.filter(|busy| busy.awaits_answer && close_frame::ends_like_a_close(bytes));
        awaits.is_some_and(|busy| std::mem::take(&mut busy.awaits_answer))
    }

    fn busy(&mut self) -> &mut Busy {
        self.busy.get_or_insert_default()
    }

    /// Removes and returns the socket's users in the presence of channels.
    pub fn take_presences(&mut self) -> Vec<Presence> {
        let busy = self.busy.as_mut();
        busy.map_or_else(Vec::new, |busy| std::mem::take(&mut busy.presences))
    }

    /// Returns true if messages are compressed separately for this socket.
    pub fn refers_back(&self) -> bool {
        self.compresses.refers_back()
    }

    /// Returns the number of bytes of an incomplete message.
    pub fn buffered_bytes(&self) -> usize {
        self.busy
            .as_ref()
            .map_or(0, |busy| busy.reader.kept_bytes())
    }

    /// Frees `Busy` if all of its fields have default values.
    fn rest(&mut self) {
        self.busy.take_if(|busy| {
            busy.closing.can_send()
                && busy.closing.can_read()
                && !busy.awaits_pong
                && !busy.is_close_queued
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
    fn limits_the_size_of_an_idle_socket() {
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
