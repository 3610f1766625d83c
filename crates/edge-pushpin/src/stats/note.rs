//! Notes that the workers send to the worker with the stats socket, and the encoding of the notes.

use crate::stats::mode::Mode;

/// Maximum size of one note in bytes. It is small because names of channels and addresses are
/// short.
const NOTE_BYTES_MAX: usize = 64 * 1024;

/// Size of the length before a note, in bytes.
const HEAD_BYTES: usize = 4;

/// A note of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Number of the sending worker's clients that are now subscribed to a channel.
    Subscribers {
        /// Transport of the clients.
        mode: Mode,
        /// Empty: routes without a name.
        route: Vec<u8>,
        /// The channel.
        channel: Vec<u8>,
        /// Number of clients.
        count: u64,
    },
    /// Number of the sending worker's clients that now use a route.
    Connections {
        /// Empty: routes without a name.
        route: Vec<u8>,
        /// Number of clients.
        count: u64,
    },
    /// A client is connected.
    Client(Client),
    /// A client has left.
    Gone {
        /// Id of the client in packets.
        id: Vec<u8>,
        /// Its route.
        route: Vec<u8>,
    },
}

/// A client in packets. Route and address may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Id of the client in packets.
    pub id: Vec<u8>,
    /// Its route.
    pub route: Vec<u8>,
    /// Its address.
    pub peer: Vec<u8>,
    /// True if the client uses a WebSocket.
    pub is_websocket: bool,
    /// True if the client uses TLS.
    pub is_tls: bool,
}

const SUBSCRIBERS: u8 = 0;
const CLIENT: u8 = 1;
const GONE: u8 = 2;
const CONNECTIONS: u8 = 3;
const MODES: [Mode; 3] = [Mode::Response, Mode::Stream, Mode::Socket];

impl Note {
    /// Appends the encoding of the note: length, kind and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&[0; HEAD_BYTES]);
        match self {
            Self::Subscribers {
                mode,
                route,
                channel,
                count,
            } => {
                let mode = MODES.iter().position(|it| it == mode).unwrap_or(0);
                out.extend_from_slice(&[SUBSCRIBERS, mode as u8]);
                out.extend_from_slice(&count.to_le_bytes());
                text(out, route);
                text(out, channel);
            }
            Self::Connections { route, count } => {
                out.push(CONNECTIONS);
                out.extend_from_slice(&count.to_le_bytes());
                text(out, route);
            }
            Self::Client(client) => {
                let flags = u8::from(client.is_websocket) | u8::from(client.is_tls) << 1;
                out.extend_from_slice(&[CLIENT, flags]);
                text(out, &client.id);
                text(out, &client.route);
                text(out, &client.peer);
            }
            Self::Gone { id, route } => {
                out.push(GONE);
                text(out, id);
                text(out, route);
            }
        }
        let len = (out.len() - at - HEAD_BYTES) as u32;
        if let Some(head) = out.get_mut(at..at + HEAD_BYTES) {
            head.copy_from_slice(&len.to_le_bytes());
        }
    }

    /// Removes complete notes from the front of `input`. Returns false if the input is invalid.
    pub fn take(input: &mut Vec<u8>, notes: &mut Vec<Note>) -> bool {
        let mut at = 0;
        let is_right = loop {
            let Some(head) = input[at..].first_chunk::<HEAD_BYTES>() else {
                break true;
            };
            let len = u32::from_le_bytes(*head) as usize;
            if len > NOTE_BYTES_MAX {
                break false;
            }
            let begin = at + HEAD_BYTES;
            let Some(bytes) = input.get(begin..begin + len) else {
                break true;
            };
            let Some(note) = read(bytes) else {
                break false;
            };
            notes.push(note);
            at = begin + len;
        };
        input.drain(..at);
        is_right
    }
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}

fn read(bytes: &[u8]) -> Option<Note> {
    let (&kind, mut rest) = bytes.split_first()?;
    let note = match kind {
        SUBSCRIBERS => {
            let mode = *MODES.get(usize::from(byte(&mut rest)?))?;
            let (count, after) = rest.split_first_chunk::<8>()?;
            rest = after;
            Note::Subscribers {
                mode,
                count: u64::from_le_bytes(*count),
                route: read_text(&mut rest)?,
                channel: read_text(&mut rest)?,
            }
        }
        CONNECTIONS => {
            let (count, after) = rest.split_first_chunk::<8>()?;
            rest = after;
            Note::Connections {
                count: u64::from_le_bytes(*count),
                route: read_text(&mut rest)?,
            }
        }
        CLIENT => {
            let flags = byte(&mut rest)?;
            Note::Client(Client {
                id: read_text(&mut rest)?,
                route: read_text(&mut rest)?,
                peer: read_text(&mut rest)?,
                is_websocket: flags & 1 != 0,
                is_tls: flags & 2 != 0,
            })
        }
        GONE => Note::Gone {
            id: read_text(&mut rest)?,
            route: read_text(&mut rest)?,
        },
        _ => return None,
    };
    rest.is_empty().then_some(note)
}

fn byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(first)
}

fn read_text(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *bytes = rest;
    Some(text.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes() -> Vec<Note> {
        vec![
            Note::Subscribers {
                mode: Mode::Socket,
                route: b"r".to_vec(),
                channel: b"c".to_vec(),
                count: u64::MAX,
            },
            Note::Connections {
                route: b"r".to_vec(),
                count: 7,
            },
            Note::Client(Client {
                id: b"1:a".to_vec(),
                route: Vec::new(),
                peer: b"::1".to_vec(),
                is_websocket: true,
                is_tls: false,
            }),
            Note::Gone {
                id: b"1:a".to_vec(),
                route: b"r".to_vec(),
            },
        ]
    }

    #[test]
    fn notes_round_trip_in_any_pieces() {
        let mut bytes = Vec::new();
        notes().iter().for_each(|note| note.write(&mut bytes));
        let (mut input, mut taken) = (Vec::new(), Vec::new());
        for byte in bytes {
            input.push(byte);
            assert!(Note::take(&mut input, &mut taken));
        }
        assert_eq!(taken, notes());
        assert!(input.is_empty());
    }

    #[test]
    fn rejects_malformed_notes() {
        for bytes in [
            &b"\x01\0\0\0\x09"[..],
            b"\0\0\0\0",
            b"\xff\xff\xff\xff",
            b"\x05\0\0\0\x02\xff\xff\xff\xff",
        ] {
            assert!(
                !Note::take(&mut bytes.to_vec(), &mut Vec::new()),
                "{bytes:?}"
            );
        }
    }
}
