//! One connection. It starts with greeting and handshake, followed by messages in both directions.

use super::frame::{self, COMMAND, LONG, MORE};

/// Size of a greeting in bytes.
pub const GREETING_BYTES: usize = 64;
/// Maximum size of a command in bytes. The largest command is READY with its properties.
const COMMAND_BYTES_MAX: u64 = 4_096;
/// Maximum length of a peer's identity in bytes (RFC 28).
const IDENTITY_BYTES_MAX: usize = 255;

/// Type of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are ZeroMQ's own names")]
pub enum Socket {
    Push,
    Pull,
    Pub,
    Xpub,
    Sub,
    Xsub,
    Req,
    Rep,
    Dealer,
    Router,
}

impl Socket {
    const ALL: [(Self, &str); 10] = [
        (Self::Push, "PUSH"),
        (Self::Pull, "PULL"),
        (Self::Pub, "PUB"),
        (Self::Xpub, "XPUB"),
        (Self::Sub, "SUB"),
        (Self::Xsub, "XSUB"),
        (Self::Req, "REQ"),
        (Self::Rep, "REP"),
        (Self::Dealer, "DEALER"),
        (Self::Router, "ROUTER"),
    ];

    fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(socket, _)| *socket == self)
            .map_or("", |(_, name)| name)
    }

    fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, known)| known.as_bytes() == name)
            .map(|(socket, _)| *socket)
    }

    /// Returns true if two socket types are compatible (RFC 23).
    fn fits(self, other: Self) -> bool {
        use Socket::{Dealer, Pub, Pull, Push, Rep, Req, Router, Sub, Xpub, Xsub};
        match self {
            Push => other == Pull,
            Pull => other == Push,
            Pub | Xpub => matches!(other, Sub | Xsub),
            Sub | Xsub => matches!(other, Pub | Xpub),
            Req => matches!(other, Rep | Router),
            Rep => matches!(other, Req | Dealer),
            Dealer => matches!(other, Rep | Dealer | Router),
            Router => matches!(other, Req | Dealer | Router),
        }
    }

    fn takes_subscriptions(self) -> bool {
        matches!(self, Self::Pub | Self::Xpub)
    }
}

/// Limits of a connection. The owner takes each one from a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of one message in bytes, summed over all parts.
    pub message_bytes_max: usize,
    /// Maximum number of parts of one message.
    pub parts_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes_max: 1 << 20,
            parts_max: 16,
        }
    }
}

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete; messages may be sent.
    Ready(Socket),
    /// A message.
    Message(Vec<Vec<u8>>),
    /// The peer subscribes to messages with this prefix.
    Subscribed(Vec<u8>),
    /// The peer ends the subscription to messages with this prefix.
    Unsubscribed(Vec<u8>),
}

/// Reason why a connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZmtpError {
    /// The first bytes are not ZMTP.
    #[error("the peer does not use ZeroMQ")]
    Signature,
    /// ZMTP 1 or 2.
    #[error("the peer uses ZMTP {0}; ZeroMQ 4 or newer is needed")]
    Version(u8),
    /// PLAIN, CURVE or GSSAPI.
    #[error("the peer requires the security mechanism {0}; only NULL is supported")]
    Mechanism(String),
    /// An invalid frame, command or property.
    #[error("the peer breaks the protocol: {0}")]
    Protocol(&'static str),
    /// The peer's error message.
    #[error("the peer refuses the connection: {0}")]
    Refused(String),
    /// The socket types are incompatible.
    #[error("the peer is a {peer} socket, which cannot talk to {own}")]
    Socket {
        /// Socket type of the peer.
        peer: String,
        /// Socket type of this end.
        own: &'static str,
    },
    /// A limit is exceeded.
    #[error("a message is larger than the limit, or has too many parts")]
    TooLarge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    Handshake,
    Open,
}

/// One connection of a socket.
#[derive(Debug)]
pub struct Peer {
    socket: Socket,
    limits: Limits,
    state: State,
    /// Identity of the peer, which may be empty, and the identity that this end sends to the peer.
    identity: Vec<u8>,
    own_identity: Vec<u8>,
    /// Bytes of an incomplete greeting or frame.
    input: Vec<u8>,
    parts: Vec<Vec<u8>>,
    parts_bytes: usize,
}

impl Peer {
    /// Creates a connection for a socket of this type. Appends the bytes that have to be sent first.
    pub fn new(socket: Socket, limits: Limits, out: &mut Vec<u8>) -> Self {
        let mut greeting = [0; GREETING_BYTES];
        // The signature (`ff`, eight bytes, `7f`), version 3.1, and the mechanism.
        greeting[0] = 0xff;
        greeting[9] = 0x7f;
        greeting[10] = 3;
        greeting[11] = 1;
        greeting[12..16].copy_from_slice(b"NULL");
        out.extend_from_slice(&greeting);
        Self {
            socket,
            limits,
            state: State::Greeting,
            identity: Vec::new(),
            own_identity: Vec::new(),
            input: Vec::new(),
            parts: Vec::new(),
            parts_bytes: 0,
        }
    }

    /// Creates a connection for a socket with an identity, like [`Self::new`]. The identity has at most 255 bytes, and its first
    /// byte is not zero (RFC 28).
    pub fn named(socket: Socket, identity: &[u8], limits: Limits, out: &mut Vec<u8>) -> Self {
        let mut peer = Self::new(socket, limits, out);
        peer.own_identity = identity.to_vec();
        peer
    }

    /// Handles bytes from the peer. Appends the events in them to `events` and bytes to send to `out`.
    ///
    /// # Errors
    /// The connection has to be closed; events before the error are valid.
    pub fn handle(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), ZmtpError> {
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(used) = self.step(&input[at..], out, events)? {
            at += used;
        }
        input.drain(..at);
        self.input = input;
        Ok(())
    }

    /// Returns the peer's identity; empty: the peer sent no identity.
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }

    /// Returns true if messages may be sent.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Reads one greeting or frame and returns its size. `None`: the bytes are incomplete.
    fn step(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<Option<usize>, ZmtpError> {
        if self.state == State::Greeting {
            return self.greeting(input, out);
        }
        let Some((flags, len, head_bytes)) = frame::head(input) else {
            // Refuse invalid flags now instead of waiting for the length.
            return match input.first() {
                Some(&flags) => check_flags(flags).map(|()| None),
                None => Ok(None),
            };
        };
        check_flags(flags)?;
        // A subscription may have a topic as long as a message, so the limit of messages also applies to commands.
        let room = match flags & COMMAND {
            0 => (self.limits.message_bytes_max - self.parts_bytes) as u64,
            _ => COMMAND_BYTES_MAX.max(self.limits.message_bytes_max as u64),
        };
        if len > room {
            return Err(ZmtpError::TooLarge);
        }
        let end = head_bytes + len as usize;
        let Some(body) = input.get(head_bytes..end) else {
            // The frame has not arrived completely.
            return Ok(None);
        };
        match (flags & COMMAND != 0, self.state) {
            (true, _) => self.command(body, out, events)?,
            (false, State::Open) => self.part(body, flags & MORE != 0, events)?,
            (false, _) => return Err(ZmtpError::Protocol("a message before READY")),
        }
        Ok(Some(end))
    }

    fn greeting(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, ZmtpError> {
        // Check each byte when it arrives. A peer with another protocol may send no complete greeting.
        if input.first().is_some_and(|&byte| byte != 0xff)
            || input.get(9).is_some_and(|byte| byte & 1 == 0)
        {
            return Err(ZmtpError::Signature);
        }
        if let Some(&major) = input.get(10)
            && major < 3
        {
            return Err(ZmtpError::Version(major));
        }
        let Some(greeting) = input.first_chunk::<GREETING_BYTES>() else {
            return Ok(None);
        };
        let mechanism = greeting[12..32]
            .split(|&byte| byte == 0)
            .next()
            .unwrap_or_default();
        if mechanism != b"NULL" {
            return Err(ZmtpError::Mechanism(mechanism.escape_ascii().to_string()));
        }
        let mut properties = Vec::new();
        property(
            &mut properties,
            "Socket-Type",
            self.socket.name().as_bytes(),
        );
        if matches!(self.socket, Socket::Req | Socket::Dealer | Socket::Router) {
            property(&mut properties, "Identity", &self.own_identity);
        }
        frame::command(out, "READY", &properties);
        self.state = State::Handshake;
        Ok(Some(GREETING_BYTES))
    }

    fn command(
        &mut self,
        body: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), ZmtpError> {
        let (name, data) = short(body).ok_or(ZmtpError::Protocol("a command without name"))?;
        match (name, self.state) {
            (b"READY", State::Handshake) => {
                let peer = read_property(data, b"Socket-Type")?
                    .ok_or(ZmtpError::Protocol("a READY without Socket-Type"))?;
                let identity = read_property(data, b"Identity")?.unwrap_or_default();
                if identity.len() > IDENTITY_BYTES_MAX {
                    return Err(ZmtpError::Protocol("a long Identity"));
                }
                let socket = Socket::from_name(peer).filter(|&peer| self.socket.fits(peer));
                let socket = socket.ok_or_else(|| ZmtpError::Socket {
                    peer: peer.escape_ascii().to_string(),
                    own: self.socket.name(),
                })?;
                self.state = State::Open;
                self.identity = identity.to_vec();
                events.push(Event::Ready(socket));
            }
            (b"ERROR", _) => {
                let reason = short(data).map_or(data, |(reason, _)| reason);
                return Err(ZmtpError::Refused(reason.escape_ascii().to_string()));
            }
            (_, State::Handshake) => return Err(ZmtpError::Protocol("another command than READY")),
            (b"PING", _) => {
                // A two-byte time to live, followed by a context to return.
                let context = data.get(2..).filter(|context| context.len() <= 16);
                let context = context.ok_or(ZmtpError::Protocol("a malformed PING"))?;
                frame::command(out, "PONG", context);
            }
            (b"SUBSCRIBE", _) if self.socket.takes_subscriptions() => {
                events.push(Event::Subscribed(data.to_vec()))
            }
            (b"CANCEL", _) if self.socket.takes_subscriptions() => {
                events.push(Event::Unsubscribed(data.to_vec()))
            }
            // Ignore unknown commands of newer peers.
            _ => {}
        }
        Ok(())
    }

    fn part(
        &mut self,
        body: &[u8],
        has_more: bool,
        events: &mut Vec<Event>,
    ) -> Result<(), ZmtpError> {
        if self.parts.len() >= self.limits.parts_max {
            return Err(ZmtpError::TooLarge);
        }
        self.parts_bytes += body.len();
        self.parts.push(body.to_vec());
        if has_more {
            return Ok(());
        }
        self.parts_bytes = 0;
        let parts = std::mem::take(&mut self.parts);
        if !self.socket.takes_subscriptions() {
            events.push(Event::Message(parts));
            return Ok(());
        }
        // In ZMTP 3.0, a subscription is a message of one part: 1 and the topic, or 0 and the topic to unsubscribe.
        if let [part] = &parts[..] {
            match part.split_first() {
                Some((1, topic)) => events.push(Event::Subscribed(topic.to_vec())),
                Some((0, topic)) => events.push(Event::Unsubscribed(topic.to_vec())),
                // XSUB sockets may send messages to XPUB sockets. The edge ignores them.
                _ => {}
            }
        }
        Ok(())
    }
}

fn check_flags(flags: u8) -> Result<(), ZmtpError> {
    // A command has only one frame, so MORE is invalid with it.
    if flags & !(MORE | LONG | COMMAND) == 0 && flags & (MORE | COMMAND) != MORE | COMMAND {
        Ok(())
    } else {
        Err(ZmtpError::Protocol("unknown flags"))
    }
}

/// Splits off a text with a leading length byte.
fn short(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    rest.split_at_checked(len.into())
}

fn property(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}

/// Returns the value of the last property with this name.
fn read_property<'a>(
    mut properties: &'a [u8],
    wanted: &[u8],
) -> Result<Option<&'a [u8]>, ZmtpError> {
    const MALFORMED: ZmtpError = ZmtpError::Protocol("malformed properties");
    let mut found = None;
    while !properties.is_empty() {
        let (name, rest) = short(properties).ok_or(MALFORMED)?;
        let (len, rest) = rest.split_first_chunk::<4>().ok_or(MALFORMED)?;
        let len = u32::from_be_bytes(*len) as usize;
        let (value, rest) = rest.split_at_checked(len).ok_or(MALFORMED)?;
        if name.eq_ignore_ascii_case(wanted) {
            found = Some(value);
        }
        properties = rest;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::zmtp::{envelope_len, message, subscription};

    fn pair(one: Socket, other: Socket) -> Result<(Peer, Peer), ZmtpError> {
        let (mut to_other, mut to_one) = (Vec::new(), Vec::new());
        let mut one = Peer::new(one, Limits::default(), &mut to_other);
        let mut other = Peer::new(other, Limits::default(), &mut to_one);
        let mut events = Vec::new();
        for _ in 0..2 {
            other.handle(&std::mem::take(&mut to_other), &mut to_one, &mut events)?;
            one.handle(&std::mem::take(&mut to_one), &mut to_other, &mut events)?;
        }
        assert_eq!(events.len(), 2);
        assert!(one.is_open() && other.is_open());
        Ok((one, other))
    }

    fn feed(peer: &mut Peer, bytes: &[u8]) -> Result<(Vec<Event>, Vec<u8>), ZmtpError> {
        let (mut out, mut events) = (Vec::new(), Vec::new());
        peer.handle(bytes, &mut out, &mut events)?;
        Ok((events, out))
    }

    #[test]
    fn rejects_incompatible_socket_types() {
        for (one, other, expected) in [
            (Socket::Push, Socket::Pull, true),
            (Socket::Pub, Socket::Sub, true),
            (Socket::Xpub, Socket::Sub, true),
            (Socket::Req, Socket::Rep, true),
            (Socket::Dealer, Socket::Rep, true),
            (Socket::Push, Socket::Sub, false),
            (Socket::Req, Socket::Pull, false),
        ] {
            assert_eq!(pair(one, other).is_ok(), expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn exchanges_identities() {
        let (mut to_other, mut to_one) = (Vec::new(), Vec::new());
        let mut one = Peer::named(Socket::Router, b"a", Limits::default(), &mut to_other);
        let mut other = Peer::new(Socket::Dealer, Limits::default(), &mut to_one);
        for _ in 0..2 {
            let (bytes, back) = (std::mem::take(&mut to_other), std::mem::take(&mut to_one));
            other
                .handle(&bytes, &mut to_one, &mut Vec::new())
                .expect("valid");
            one.handle(&back, &mut to_other, &mut Vec::new())
                .expect("valid");
        }
        assert_eq!((one.identity(), other.identity()), (&b""[..], &b"a"[..]));
        let mut properties = Vec::new();
        property(&mut properties, "Socket-Type", b"DEALER");
        property(&mut properties, "Identity", &[7; 256]);
        let mut wire = Vec::new();
        Peer::new(Socket::Dealer, Limits::default(), &mut wire);
        frame::command(&mut wire, "READY", &properties);
        let mut fresh = Peer::new(Socket::Router, Limits::default(), &mut Vec::new());
        assert_eq!(
            feed(&mut fresh, &wire),
            Err(ZmtpError::Protocol("a long Identity"))
        );
    }

    #[test]
    fn messages_keep_their_parts() {
        let (_, mut pull) = pair(Socket::Push, Socket::Pull).expect("they fit");
        let mut wire = Vec::new();
        message(&mut wire, &[b"", b"a", &[7; 300]]);
        message(&mut wire, &[b"b"]);
        let (events, _) = feed(&mut pull, &wire).expect("valid");
        let expected = [
            vec![vec![], b"a".to_vec(), vec![7; 300]],
            vec![b"b".to_vec()],
        ];
        assert_eq!(events, expected.map(Event::Message));
    }

    #[test]
    fn accepts_subscriptions_as_message_or_command() {
        let (mut publisher, _) = pair(Socket::Pub, Socket::Sub).expect("they fit");
        let mut wire = Vec::new();
        subscription(&mut wire, b"a", true);
        subscription(&mut wire, b"", false);
        frame::command(&mut wire, "SUBSCRIBE", b"b");
        frame::command(&mut wire, "CANCEL", b"c");
        let (events, _) = feed(&mut publisher, &wire).expect("valid");
        assert_eq!(
            events,
            [
                Event::Subscribed(b"a".to_vec()),
                Event::Unsubscribed(b"".to_vec()),
                Event::Subscribed(b"b".to_vec()),
                Event::Unsubscribed(b"c".to_vec()),
            ]
        );
    }

    #[test]
    fn pings_are_answered() {
        let (mut pull, _) = pair(Socket::Pull, Socket::Push).expect("they fit");
        let mut ping = Vec::new();
        frame::command(&mut ping, "PING", b"\0\x0acontext");
        let (events, out) = feed(&mut pull, &ping).expect("valid");
        assert_eq!(events, []);
        assert_eq!(out, b"\x04\x0c\x04PONGcontext");
    }

    #[test]
    fn envelope_ends_at_the_empty_part() {
        let parts = [b"id".to_vec(), Vec::new(), b"body".to_vec()];
        assert_eq!(envelope_len(&parts), Some(2));
        assert_eq!(envelope_len(&parts[2..]), None);
    }

    #[test]
    fn rejects_protocol_violations() {
        let mut old = [0; 11];
        (old[0], old[9], old[10]) = (0xff, 0x7f, 1);
        let fresh = |bytes: &[u8]| {
            feed(
                &mut Peer::new(Socket::Pull, Limits::default(), &mut Vec::new()),
                bytes,
            )
            .map(drop)
        };
        assert_eq!(fresh(b"GET / HTTP/1.1\r\n"), Err(ZmtpError::Signature));
        assert_eq!(fresh(&old), Err(ZmtpError::Version(1)));
        let mut curve = Vec::new();
        Peer::new(Socket::Push, Limits::default(), &mut curve);
        curve[12..17].copy_from_slice(b"CURVE");
        assert_eq!(fresh(&curve), Err(ZmtpError::Mechanism("CURVE".into())));

        let open = |bytes: &[u8]| {
            feed(
                &mut pair(Socket::Pull, Socket::Push).expect("they fit").0,
                bytes,
            )
            .map(drop)
        };
        assert_eq!(open(&[8]), Err(ZmtpError::Protocol("unknown flags")));
        assert_eq!(
            open(&[COMMAND | MORE, 1]),
            Err(ZmtpError::Protocol("unknown flags"))
        );
        assert_eq!(
            open(&[LONG, 0, 0, 0, 0, 0, 0x20, 0, 0]),
            Err(ZmtpError::TooLarge)
        );
        assert_eq!(open(&[0xff; 9]), Err(ZmtpError::Protocol("unknown flags")));
        assert_eq!(open(&[MORE, 0].repeat(17)), Err(ZmtpError::TooLarge));
        assert_eq!(
            open(b"\x04\x08\x05ERROR\x01x"),
            Err(ZmtpError::Refused("x".into()))
        );
        assert_eq!(
            open(b"\x04\x01\x05"),
            Err(ZmtpError::Protocol("a command without name"))
        );
    }

    proptest! {
        #[test]
        fn result_is_independent_of_the_split(messages in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..4), 0..5), len in 1usize..40) {
            let mut wire = Vec::new();
            Peer::new(Socket::Push, Limits::default(), &mut wire);
            let mut properties = Vec::new();
            property(&mut properties, "Socket-Type", b"PUSH");
            frame::command(&mut wire, "READY", &properties);
            for parts in &messages {
                let parts: Vec<_> = parts.iter().map(Vec::as_slice).collect();
                message(&mut wire, &parts);
            }
            let mut peer = Peer::new(Socket::Pull, Limits::default(), &mut Vec::new());
            let mut events = Vec::new();
            for piece in wire.chunks(len) {
                events.extend(feed(&mut peer, piece).expect("valid").0);
            }
            let mut expected = vec![Event::Ready(Socket::Push)];
            expected.extend(messages.into_iter().map(Event::Message));
            prop_assert_eq!(events, expected);
        }
    }
}
