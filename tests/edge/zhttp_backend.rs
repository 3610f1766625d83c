//! A ZHTTP backend with sessions, as applications with PULL, ROUTER and PUB sockets implement it.

use fermata_grip::packet::{Notation, decode, encode};
use fermata_grip::value::Value;
use fermata_grip::zmtp::Socket;

use crate::subject::Subject;
use crate::zmq::Zmq;

/// The name of the backends in these tests.
pub const NAME: &[u8] = b"backend-of-tests";

/// A backend that serves one session at a time.
pub struct Backend {
    requests: Zmq,
    sessions: Zmq,
    responses: Zmq,
}

/// The backend's state of a session.
pub struct Session {
    from: Vec<u8>,
    id: Value,
    sequence: i64,
    /// The packet that opened the session.
    pub request: Value,
}

/// Returns the bytes of an entry.
pub fn bytes<'a>(packet: &'a Value, key: &str) -> &'a [u8] {
    packet.get(key).and_then(Value::bytes).unwrap_or_default()
}

/// Returns true if an entry is true.
pub fn is_on(packet: &Value, key: &str) -> bool {
    packet.get(key) == Some(&Value::Bool(true))
}

/// Returns the number of an entry.
pub fn number(packet: &Value, key: &str) -> Option<i64> {
    packet.get(key).and_then(Value::integer)
}

/// Builds a header of a response.
pub fn header(name: &str, value: &str) -> Value {
    Value::List(vec![name.into(), value.into()])
}

impl Backend {
    /// Connects to a target of the server under test.
    #[track_caller]
    pub fn of(subject: &Subject, name: &str) -> Self {
        let path = |ending: &str| subject.socket(&format!("{name}{ending}"));
        Self::new(
            Zmq::unix(&path("-in"), Socket::Pub),
            Zmq::unix_named(&path("-out-stream"), Socket::Router, NAME),
            || Zmq::unix(&path("-out"), Socket::Pull),
        )
    }

    /// Connects to three consecutive ports, the first of which is `port`.
    #[track_caller]
    pub fn tcp(port: u16) -> Self {
        Self::new(
            Zmq::tcp(port + 2, Socket::Pub),
            Zmq::tcp_named(port + 1, Socket::Router, NAME),
            || Zmq::tcp(port, Socket::Pull),
        )
    }

    /// Opens the socket for requests last. A response is lost if it is sent before the edge has subscribed, so no request
    /// may arrive earlier.
    fn new(mut responses: Zmq, sessions: Zmq, requests: impl FnOnce() -> Zmq) -> Self {
        responses.wait_until_wanted();
        Self {
            requests: requests(),
            sessions,
            responses,
        }
    }

    /// Returns the next session.
    #[track_caller]
    pub fn next(&mut self) -> Session {
        let mut parts = self.requests.receive();
        assert_eq!(parts.len(), 1, "{parts:?}");
        let payload = parts.pop().expect("a packet");
        let (request, _) = decode(&payload).expect("a packet");
        assert_eq!(number(&request, "seq"), Some(0), "{request:?}");
        Session {
            from: bytes(&request, "from").to_vec(),
            id: request.get("id").expect("an id").clone(),
            sequence: 0,
            request,
        }
    }

    /// Returns the next packet of open sessions, without keep-alives.
    #[track_caller]
    pub fn packet(&mut self) -> Value {
        loop {
            let parts = self.sessions.receive();
            let payload = parts.last().expect("a packet");
            let (packet, _) = decode(payload).expect("a packet");
            if bytes(&packet, "type") != b"keep-alive" {
                return packet;
            }
        }
    }

    /// Sends a packet in a session.
    #[track_caller]
    pub fn send_packet<const N: usize>(
        &mut self,
        session: &mut Session,
        entries: [(&str, Value); N],
    ) {
        let own = [
            ("from", Value::Bytes(NAME.to_vec())),
            ("id", session.id.clone()),
            ("seq", Value::Integer(session.sequence)),
        ];
        session.sequence += 1;
        let all = own.into_iter().chain(entries);
        let all = all.map(|(key, value)| (key.as_bytes().to_vec(), value));
        let mut message = [&session.from[..], b" "].concat();
        let packet = Value::Map(all.collect());
        encode(&mut message, &packet, Notation::Tnetstring);
        self.responses.send(&[&message]);
    }
}

impl Session {
    /// Skips a sequence number, as if a packet was lost.
    pub fn lose_one(&mut self) {
        self.sequence += 1;
    }
}
