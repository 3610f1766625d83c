//! WebSockets that are opened and closed again, each as one request on its own connection.
//!
//! A response is complete when the server accepted the upgrade, returned the Close frame and closed the connection.
//! RFC 6455, 7.1.1, requires the server to close first.

use fermata_proto::ws::Role;
use fermata_proto::ws::frame::Opcode;
use fermata_proto::ws::message::{Event, Reader, Rules};

use super::{Answer, Protocol};
use crate::error::Fault;
use crate::target::Values;
use crate::websocket::{Masks, Opening};

/// Maximum size of an unexpected message before the server closes.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Status 1000 as the payload of a Close frame.
const NORMAL: [u8; 2] = 1000_u16.to_be_bytes();

/// Protocol of the scenario `ws upgrade`.
#[derive(Debug)]
pub(crate) struct Upgrade {
    opening: Opening,
    /// Subprotocol that the server must select.
    subprotocol: Option<String>,
    rules: Rules,
    masks: Masks,
}

/// State of a connection.
#[derive(Debug, Default)]
pub(crate) enum Wire {
    /// No bytes of the handshake response were received. (`Head` holds an incomplete start of that response.)
    #[default]
    New,
    Head(Vec<u8>),
    /// The Close frame was sent.
    Closing(Reader),
    /// Close frame received from the server.
    Closed,
}

impl Upgrade {
    /// Creates the protocol. Offers `subprotocol`, if given, and no other subprotocol.
    pub fn new(mut opening: Opening, subprotocol: Option<String>) -> Self {
        if let Some(name) = &subprotocol {
            let line = format!("Sec-WebSocket-Protocol: {name}\r\n");
            opening.headers.extend_from_slice(line.as_bytes());
        }
        Self {
            opening,
            subprotocol,
            rules: Rules::new(
                Role::Client,
                MESSAGE_BYTES_MAX as u64,
                MESSAGE_BYTES_MAX,
                false,
            ),
            masks: Masks::new(),
        }
    }

    fn check_subprotocol(&self, head: &[u8]) -> Result<(), Fault> {
        let chosen = head.split(|&byte| byte == b'\n').find_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            line[..colon]
                .eq_ignore_ascii_case(b"sec-websocket-protocol")
                .then(|| String::from_utf8_lossy(line[colon + 1..].trim_ascii()).into_owned())
        });
        if chosen == self.subprotocol {
            return Ok(());
        }
        let name = |it: Option<&str>| it.unwrap_or("none").into();
        Err(Fault::Subprotocol {
            chosen: name(chosen.as_deref()),
            offered: name(self.subprotocol.as_deref()),
        })
    }

    /// Reads frames up to the server's Close frame; returns true after it.
    fn read_frames(reader: &mut Reader, rules: &Rules, input: &mut [u8]) -> Result<bool, Fault> {
        let mut used = 0;
        loop {
            let step = reader.handle(&mut input[used..], rules)?;
            used += step.consumed;
            match step.event {
                None => return Ok(false),
                Some(Event::Close { code, .. }) if code.is_none_or(|code| code == 1000) => {
                    return Ok(true);
                }
                Some(Event::Close { code, reason }) => {
                    let reason = reason.into();
                    return Err(Fault::Closed { code, reason });
                }
                // No frame may follow the Close frame that the client has sent, so the client does not respond.
                Some(Event::Ping(_) | Event::Pong(_) | Event::Message { .. }) => {}
            }
        }
    }
}

impl Protocol for Upgrade {
    type Wire = Wire;

    fn open(&mut self, wire: &mut Wire, _out: &mut Vec<u8>) -> bool {
        *wire = Wire::New;
        false
    }

    fn request(&mut self, wire: &mut Wire, number: u64, out: &mut Vec<u8>) {
        let values = Values {
            number,
            client: number,
            message: b"",
        };
        self.opening.write(values, out);
        *wire = Wire::Head(Vec::new());
    }

    fn handle(
        &mut self,
        wire: &mut Wire,
        input: &mut [u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Answer>), Fault> {
        let mut rest = &mut *input;
        let whole = rest.len();
        if let Wire::Head(head) = wire {
            let before = head.len();
            head.extend_from_slice(rest);
            let Some(bytes) = self.opening.check(head)? else {
                return Ok((whole, None));
            };
            self.check_subprotocol(&head[..bytes])?;
            self.masks.write(Opcode::Close, &NORMAL, out);
            *wire = Wire::Closing(Reader::new());
            rest = &mut rest[bytes - before..];
        }
        if let Wire::Closing(reader) = wire
            && Self::read_frames(reader, &self.rules, rest)?
        {
            *wire = Wire::Closed;
        }
        Ok((whole, None))
    }

    fn handle_end(&mut self, wire: &mut Wire) -> Option<Answer> {
        matches!(wire, Wire::Closed).then_some(Answer::Response {
            good: true,
            keep_alive: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use fermata_proto::ws::accept::accept_key;
    use fermata_proto::ws::frame::{self, Reserved};

    use super::*;
    use crate::target::Template;

    /// Simulates the server side of one connection, in pieces of `split` bytes.
    fn upgraded(
        offered: Option<&str>,
        headers: &str,
        close: &[u8],
        split: usize,
    ) -> Option<Answer> {
        let opening = Opening::new("h", &Template::parse(b"/"), Vec::new());
        let mut upgrade = Upgrade::new(opening, offered.map(str::to_string));
        let mut wire = Wire::default();
        let mut out = Vec::new();
        upgrade.open(&mut wire, &mut out);
        upgrade.request(&mut wire, 0, &mut out);
        let request = String::from_utf8(std::mem::take(&mut out)).expect("text");
        let key = request.split("Sec-WebSocket-Key: ").nth(1).expect("a key");
        let key: &[u8; 24] = key.as_bytes()[..24].try_into().expect("its length");
        let accept = String::from_utf8(accept_key(key).to_vec()).expect("text");
        let mut bytes =
            format!("HTTP/1.1 101 S\r\nSec-WebSocket-Accept: {accept}\r\n{headers}\r\n")
                .into_bytes();
        frame::write(&mut bytes, Opcode::Close, true, Reserved::NONE, None, close);
        for piece in bytes.chunks_mut(split) {
            let whole = piece.len();
            match upgrade.handle(&mut wire, piece, &mut out) {
                Ok(handled) => assert_eq!(handled, (whole, None)),
                Err(_) => return None,
            }
        }
        assert_eq!(out[..2], [0x88, 0x82], "one masked Close frame");
        upgrade.handle_end(&mut wire)
    }

    #[test]
    fn an_upgrade_counts_when_both_have_closed() {
        let good = Some(Answer::Response {
            good: true,
            keep_alive: false,
        });
        for split in [1, 7, 1000] {
            assert_eq!(upgraded(None, "", &NORMAL, split), good);
            assert_eq!(upgraded(None, "", &[], split), good);
            let chosen = "sec-websocket-protocol: chat\r\n";
            assert_eq!(upgraded(Some("chat"), chosen, &NORMAL, split), good);
            assert_eq!(upgraded(Some("chat"), "", &NORMAL, split), None);
            assert_eq!(upgraded(None, chosen, &NORMAL, split), None);
            assert_eq!(upgraded(None, "", &1011_u16.to_be_bytes(), split), None);
        }
    }

    #[test]
    fn a_connection_that_ends_early_is_no_answer() {
        let opening = Opening::new("h", &Template::parse(b"/"), Vec::new());
        let mut upgrade = Upgrade::new(opening, None);
        let mut wire = Wire::default();
        upgrade.request(&mut wire, 0, &mut Vec::new());
        assert_eq!(upgrade.handle_end(&mut wire), None);
    }
}
