//! Converts WebSocket frames to packets for the backend, and the backend's packets to frames.

use fermata_grip::value::Value;
use fermata_proto::ws::close;
use fermata_proto::ws::frame::{self, Header, Masking, Opcode, Parse, Reserved, Rules};
use fermata_proto::ws::mask;

use super::packet::bytes;

/// Entries of a packet.
pub(super) type Entries = Vec<(Vec<u8>, Value)>;

/// A frame for the backend, or the unsent rest of a frame.
#[derive(Debug)]
pub(super) struct Frame {
    pub opcode: Opcode,
    pub is_fin: bool,
    pub is_close: bool,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Parses the first complete frame that a WebSocket client wrote. Returns the frame and its size.
    pub fn read(written: &[u8]) -> Option<(Self, usize)> {
        let rules = Rules {
            masking: Masking::Either,
            reserved: Reserved::NONE,
            frame_bytes_max: u64::MAX,
        };
        // The edge wrote these bytes, so the frame is well-formed.
        let Ok(Parse::Complete {
            header,
            header_bytes,
        }) = Header::parse(written, &rules)
        else {
            return None;
        };
        let end = header_bytes + usize::try_from(header.payload_len).ok()?;
        let mut payload = written.get(header_bytes..end)?.to_vec();
        if let Some(key) = header.mask {
            mask::apply(&mut payload, key, 0);
        }
        let frame = Self {
            opcode: header.opcode,
            is_fin: header.fin,
            is_close: header.opcode == Opcode::Close,
            payload,
        };
        Some((frame, end))
    }

    /// Returns the entries of a packet with as much of the frame as `credits` allow. The flag is true if the packet completes the
    /// frame. `None`: nothing fits.
    pub fn packet(
        &mut self,
        credits: usize,
        is_binary: &mut bool,
    ) -> Option<(Entries, usize, bool)> {
        let entry = |name: &str, value: Value| (name.as_bytes().to_vec(), value);
        let kind = match self.opcode {
            Opcode::Close => {
                let mut entries = vec![entry("type", "close".into())];
                if let Some((code, reason)) = self.payload.split_first_chunk::<2>() {
                    let code = i64::from(u16::from_be_bytes(*code));
                    entries.push(entry("code", Value::Integer(code)));
                    if !reason.is_empty() {
                        entries.push(entry("body", Value::Bytes(reason.to_vec())));
                    }
                }
                // A Close frame needs no credit, because no frame follows it.
                return Some((entries, 0, true));
            }
            Opcode::Ping => Some("ping"),
            Opcode::Pong => Some("pong"),
            Opcode::Text => {
                *is_binary = false;
                None
            }
            Opcode::Binary => {
                *is_binary = true;
                None
            }
            Opcode::Continuation => None,
        };
        let len = self.payload.len();
        if let Some(kind) = kind {
            if len > credits {
                return None;
            }
            let entries = vec![
                entry("type", kind.into()),
                entry("body", Value::Bytes(std::mem::take(&mut self.payload))),
            ];
            return Some((entries, len, true));
        }
        if len > 0 && credits == 0 {
            return None;
        }
        let fits = len.min(credits);
        let rest = self.payload.split_off(fits);
        let piece = std::mem::replace(&mut self.payload, rest);
        let is_done = self.payload.is_empty();
        let content_type = if *is_binary { "binary" } else { "text" };
        let mut entries = vec![
            entry("content-type", content_type.into()),
            entry("body", Value::Bytes(piece)),
        ];
        if !is_done || !self.is_fin {
            entries.push(entry("more", Value::Bool(true)));
        }
        self.opcode = Opcode::Continuation;
        Some((entries, fits, is_done))
    }
}

/// Frames from the backend, in the form that a server writes.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// A message was started and not finished.
    is_within: bool,
}

impl Written {
    /// Appends the frame for a packet. Returns false if the packet is not a frame.
    pub fn write(&mut self, kind: &[u8], packet: &Value, out: &mut Vec<u8>) -> bool {
        let body = bytes(packet, "body");
        let mut push = |opcode, is_fin, payload: &[u8]| {
            frame::write(out, opcode, is_fin, Reserved::NONE, None, payload);
        };
        match kind {
            b"" | b"data" => {
                let has_more = packet.get("more") == Some(&Value::Bool(true));
                let opcode = match (self.is_within, bytes(packet, "content-type")) {
                    (true, _) => Opcode::Continuation,
                    (false, b"binary") => Opcode::Binary,
                    (false, _) => Opcode::Text,
                };
                self.is_within = has_more;
                push(opcode, !has_more, body);
            }
            b"ping" if body.len() <= frame::CONTROL_BYTES_MAX => push(Opcode::Ping, true, body),
            b"pong" if body.len() <= frame::CONTROL_BYTES_MAX => push(Opcode::Pong, true, body),
            b"close" => {
                let code = packet.get("code").and_then(Value::integer);
                let mut payload = Vec::new();
                let code = code.and_then(|code| u16::try_from(code).ok());
                // Drop a close code that must not be sent, such as 1005.
                if let Some(code) = code.filter(|code| close::valid_code(*code)) {
                    payload.extend_from_slice(&code.to_be_bytes());
                    let reason = String::from_utf8_lossy(body);
                    let mut end = reason.len().min(close::REASON_BYTES_MAX);
                    while !reason.is_char_boundary(end) {
                        end -= 1;
                    }
                    payload.extend_from_slice(&reason.as_bytes()[..end]);
                }
                push(Opcode::Close, true, &payload);
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use fermata_grip::value::map;

    use super::*;

    #[test]
    fn message_packets_respect_credit() {
        let mut written = Vec::new();
        let key = Some([1, 2, 3, 4]);
        frame::write(
            &mut written,
            Opcode::Binary,
            true,
            Reserved::NONE,
            key,
            b"abcde",
        );
        assert!(Frame::read(&written[..written.len() - 1]).is_none());
        let (mut frame, len) = Frame::read(&written).expect("a frame");
        assert_eq!(len, written.len());
        let mut is_binary = false;
        assert!(frame.packet(0, &mut is_binary).is_none());
        let (entries, bytes, is_done) = frame.packet(3, &mut is_binary).expect("a piece");
        let packet = Value::Map(entries);
        assert_eq!((bytes, is_done), (3, false));
        assert_eq!(super::bytes(&packet, "content-type"), b"binary");
        assert_eq!(super::bytes(&packet, "body"), b"abc");
        assert_eq!(packet.get("more"), Some(&Value::Bool(true)));
        let (entries, bytes, is_done) = frame.packet(9, &mut is_binary).expect("the rest");
        let packet = Value::Map(entries);
        assert_eq!((bytes, is_done), (2, true));
        assert_eq!(super::bytes(&packet, "content-type"), b"binary");
        assert_eq!(packet.get("more"), None);
    }

    #[test]
    fn ping_waits_for_credit() {
        let mut out = Vec::new();
        frame::write(&mut out, Opcode::Ping, true, Reserved::NONE, None, b"ab");
        let (mut frame, _) = Frame::read(&out).expect("a frame");
        assert!(frame.packet(1, &mut false).is_none());
        let (entries, ..) = frame.packet(2, &mut false).expect("a packet");
        assert_eq!(bytes(&Value::Map(entries), "body"), b"ab");
    }

    #[test]
    fn closes_keep_code_and_reason() {
        let close = map([("code", Value::Integer(4_000)), ("body", "why".into())]);
        let (mut written, mut out) = (Written::default(), Vec::new());
        assert!(written.write(b"close", &close, &mut out));
        assert_eq!(out, b"\x88\x05\x0f\xa0why");
        let (mut frame, _) = Frame::read(&out).expect("a frame");
        let (entries, ..) = frame.packet(0, &mut false).expect("a packet");
        let packet = Value::Map(entries);
        assert_eq!(packet.get("code"), Some(&Value::Integer(4_000)));
        assert_eq!(bytes(&packet, "body"), b"why");
        assert!(!written.write(b"handoff-start", &close, &mut out));
    }

    #[test]
    fn pieces_become_fragments_of_one_message() {
        let piece = |text: &str, more| {
            map([
                ("body", text.into()),
                ("more", Value::Bool(more)),
                ("content-type", "text".into()),
            ])
        };
        let (mut written, mut out) = (Written::default(), Vec::new());
        for (text, more) in [("a", true), ("b", false), ("c", false)] {
            assert!(written.write(b"", &piece(text, more), &mut out));
        }
        assert_eq!(out, b"\x01\x01a\x80\x01b\x81\x01c");
    }
}
