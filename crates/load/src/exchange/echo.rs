//! WebSocket messages to a server that sends each one back.

use fermata_proto::ws::Role;
use fermata_proto::ws::frame::Opcode;
use fermata_proto::ws::message::{Event, Reader, Rules};

use super::{Answer, Protocol};
use crate::error::Fault;
use crate::target::Values;
use crate::websocket::{Masks, Opening};

/// Length of the number at the start of a message, and minimum length of a message.
pub(crate) const BYTES_MIN: usize = 8;

/// Protocol of the scenario `ws echo`.
#[derive(Debug)]
pub(crate) struct Echo {
    opening: Opening,
    opcode: Opcode,
    rules: Rules,
    masks: Masks,
    /// The message. A number replaces its first [`BYTES_MIN`] bytes.
    message: Vec<u8>,
    connections: u64,
}

/// State of one connection.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// Start of the incomplete handshake response.
    head: Vec<u8>,
    reader: Option<Reader>,
    sent: u32,
    echoed: u32,
}

impl Echo {
    pub fn new(opening: Opening, message_bytes: usize, binary: bool) -> Self {
        Self {
            opening,
            opcode: if binary { Opcode::Binary } else { Opcode::Text },
            rules: Rules::new(Role::Client, message_bytes as u64, message_bytes, false),
            masks: Masks::new(),
            message: text(message_bytes),
            connections: 0,
        }
    }
}

/// Returns a text of this length.
pub(crate) fn text(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| b'a' + (at % 26) as u8).collect()
}

/// Writes the number of a message into its first bytes.
pub(crate) fn write_number(message: &mut [u8], number: u32) {
    for (at, byte) in message[..BYTES_MIN].iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[(number >> (28 - 4 * at)) as usize & 15];
    }
}

impl Protocol for Echo {
    type Wire = Wire;

    fn open(&mut self, wire: &mut Wire, out: &mut Vec<u8>) -> bool {
        *wire = Wire::default();
        let values = Values {
            number: self.connections,
            client: self.connections,
            message: b"",
        };
        self.connections += 1;
        self.opening.write(values, out);
        true
    }

    fn request(&mut self, wire: &mut Wire, _number: u64, out: &mut Vec<u8>) {
        write_number(&mut self.message, wire.sent);
        wire.sent = wire.sent.wrapping_add(1);
        self.masks.write(self.opcode, &self.message, out);
    }

    fn handle(
        &mut self,
        wire: &mut Wire,
        input: &mut [u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Answer>), Fault> {
        let Some(reader) = &mut wire.reader else {
            let before = wire.head.len();
            wire.head.extend_from_slice(input);
            let Some(bytes) = self.opening.check(&wire.head)? else {
                return Ok((input.len(), None));
            };
            wire.head = Vec::new();
            wire.reader = Some(Reader::new());
            return Ok((bytes - before, Some(Answer::Welcome)));
        };
        let mut used = 0;
        loop {
            let step = reader.handle(&mut input[used..], &self.rules)?;
            used += step.consumed;
            match step.event {
                None => return Ok((used, None)),
                Some(Event::Message { payload, .. }) => {
                    let number = wire.echoed;
                    wire.echoed = number.wrapping_add(1);
                    let payload = payload.as_ref();
                    write_number(&mut self.message, number);
                    let good = payload == self.message;
                    let keep_alive = true;
                    return Ok((used, Some(Answer::Response { good, keep_alive })));
                }
                Some(Event::Ping(payload)) => self.masks.write(Opcode::Pong, &payload, out),
                Some(Event::Pong(_)) => {}
                Some(Event::Close { code, reason }) => {
                    let reason = reason.into();
                    return Err(Fault::Closed { code, reason });
                }
            }
        }
    }

    fn handle_end(&mut self, _wire: &mut Wire) -> Option<Answer> {
        None
    }
}

#[cfg(test)]
mod tests {
    use fermata_proto::ws::frame::{self, Reserved};

    use super::*;
    use crate::target::Template;

    #[test]
    fn an_echo_is_compared_byte_by_byte() {
        let opening = Opening::new("h", &Template::parse(b"/"), Vec::new());
        let mut echo = Echo::new(opening, 10, false);
        let mut wire = Wire {
            reader: Some(Reader::new()),
            ..Wire::default()
        };
        let answer = |echo: &mut Echo, wire: &mut Wire, payload: &[u8]| {
            let (mut bytes, mut out) = (Vec::new(), Vec::new());
            frame::write(
                &mut bytes,
                Opcode::Text,
                true,
                Reserved::NONE,
                None,
                payload,
            );
            let handled = echo.handle(wire, &mut bytes, &mut out);
            handled.expect("a frame").1
        };
        let response = |good| {
            Some(Answer::Response {
                good,
                keep_alive: true,
            })
        };
        assert_eq!(answer(&mut echo, &mut wire, b"00000000ij"), response(true));
        assert_eq!(answer(&mut echo, &mut wire, b"00000000ij"), response(false));
        assert_eq!(answer(&mut echo, &mut wire, b"00000002ij"), response(true));
        assert_eq!(answer(&mut echo, &mut wire, b"00000003ik"), response(false));
    }
}
