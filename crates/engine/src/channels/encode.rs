//! Encodes a channel's records for its subscribers, once per wire format.

use std::rc::Rc;

use fermata_hub::{Encode, ID_BYTES_MAX, Ids, Kind, PayloadSpan, Record};
use fermata_proto::chunk;
use fermata_proto::ws::deflate::Compressor;
use fermata_proto::ws::frame::{Opcode, Reserved};
use fermata_proto::ws::{frame, message as text};

use crate::channels::stream_format::StreamFormat;
use crate::missed::missed;
use crate::websocket::Compression;

/// Format: data of messages, each as a WebSocket text frame. Smaller numbers belong to
/// [`StreamFormat`].
pub(crate) const FORMAT_WS_DATA: u8 = StreamFormat::ALL.len() as u8;

/// Format: all events as JSON, each as a WebSocket text frame.
pub(crate) const FORMAT_WS_JSON: u8 = FORMAT_WS_DATA + 1;

/// First format of compressed frames; they are numbered on first use.
const FORMAT_WS_COMPRESSED: u8 = FORMAT_WS_JSON + 1;

/// Format of readers: one byte per message, which only wakes the reader.
pub(crate) const FORMAT_READER: u8 = u8::MAX - 3;

/// Format: messages that the embedder creates from a record, each as a WebSocket text frame.
pub(crate) const FORMAT_WS_OWN: u8 = u8::MAX - 2;

/// Formats of an embedder, see `relay`: its encoding of a record, and the record itself.
pub(crate) const FORMAT_STREAM: u8 = u8::MAX - 1;
pub(crate) const FORMAT_ITEMS: u8 = u8::MAX;

/// Appends the stream encoding of a record's data. If it returns false, nothing is sent and the
/// embedder is notified instead.
pub type Encoding = fn(data: &[u8], out: &mut Vec<u8>) -> bool;

/// An event of a channel, for an embedder with its own message format: `websocket::Format::Own`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelEvent<'a> {
    /// A message was published.
    Message {
        /// Channel name.
        channel: &'a [u8],
        /// Event id, after which a client can resume.
        id: &'a [u8],
        /// Event name, if it has one.
        name: Option<&'a [u8]>,
        /// Data, UTF-8.
        data: &'a [u8],
    },
    /// A user joined: `{"user": …, "info": …}`.
    Join {
        /// Channel name.
        channel: &'a [u8],
        /// Event id, after which a client can resume.
        id: &'a [u8],
        /// The user, as JSON.
        data: &'a [u8],
    },
    /// A user left; the data is the same as for a join.
    Leave {
        /// Channel name.
        channel: &'a [u8],
        /// Event id, after which a client can resume.
        id: &'a [u8],
        /// The user, as JSON.
        data: &'a [u8],
    },
    /// Messages before the next message are missing, in one channel or in any channel that the
    /// socket has joined.
    Gap {
        /// Channel name; `None` = any channel.
        channel: Option<&'a [u8]>,
    },
}

/// Appends the text that sockets receive for an event, once for all sockets of a worker. Returns
/// false if they receive nothing.
pub type WriteMessage = Box<dyn Fn(&ChannelEvent<'_>, &mut Vec<u8>) -> bool>;

/// Selects the recipients within one channel, for an embedder whose protocol has finer
/// subscriptions than channel names. Clients with the same subscriptions share a *view*; selection
/// and encoding run once per view and worker.
pub trait Select {
    /// Appends the views whose clients receive an event.
    fn select(&mut self, event: &ChannelEvent<'_>, views: &mut Vec<u64>);

    /// Returns true if the clients of a view receive a past event.
    fn selects(&mut self, view: u64, event: &ChannelEvent<'_>) -> bool;

    /// Appends an event for the clients of a view: complete server-sent events, or nothing.
    fn write(&mut self, view: u64, event: &ChannelEvent<'_>, out: &mut Vec<u8>);
}

/// Encodes the records of one ring.
pub(crate) struct Encoder {
    pub ids: Ids,
    /// Scratch buffer for a payload whose length precedes it.
    payload: Vec<u8>,
    /// Formats of compressed frames, numbered from `FORMAT_WS_COMPRESSED`.
    compressed: Vec<Compressed>,
    compressors: Vec<(u8, u32, Compressor)>,
    /// The embedder's encoding for streams.
    pub stream: Option<Encoding>,
    /// The embedder's encoding for sockets.
    pub message: Option<WriteMessage>,
    /// The embedder's selection for the channel with views.
    pub select: Option<Box<dyn Select>>,
    /// Channel and item of records that are not sent but passed to the embedder.
    pub unsent: Vec<(Vec<u8>, Rc<[u8]>)>,
}

/// A format of frames compressed without context takeover.
struct Compressed {
    is_json: bool,
    window_bits: u8,
    /// Index into `Encoder::compressors`.
    compressor: usize,
}

impl Encoder {
    pub fn new(ids: Ids) -> Encoder {
        Encoder {
            ids,
            payload: Vec::new(),
            compressed: Vec::new(),
            compressors: Vec::new(),
            stream: None,
            message: None,
            select: None,
            unsent: Vec::new(),
        }
    }

    /// Returns the format of `plain` frames with these compression parameters. All readers with the
    /// same parameters share one compressed frame. Returns `plain` if all format numbers are in
    /// use.
    pub fn compressed_format(&mut self, plain: u8, how: &Compression, window_bits: u8) -> u8 {
        let is_json = plain == FORMAT_WS_JSON;
        let is_it = |(level, bytes_min, _): &(u8, u32, Compressor)| {
            (*level, *bytes_min) == (how.level, how.bytes_min)
        };
        let compressor = self.compressors.iter().position(is_it);
        let compressor = compressor.unwrap_or_else(|| {
            let made = Compressor::new(how.level, how.bytes_min as usize);
            self.compressors.push((how.level, how.bytes_min, made));
            self.compressors.len() - 1
        });
        let known = self.compressed.iter().position(|it| {
            (it.is_json, it.window_bits, it.compressor) == (is_json, window_bits, compressor)
        });
        let at = known.unwrap_or(self.compressed.len());
        let format = u8::try_from(usize::from(FORMAT_WS_COMPRESSED) + at).ok();
        let Some(format) = format.filter(|format| *format < FORMAT_READER) else {
            return plain;
        };
        if known.is_none() {
            self.compressed.push(Compressed {
                is_json,
                window_bits,
                compressor,
            });
        }
        format
    }

    /// Returns true if frames of this format include joins, leaves and gaps.
    pub fn is_json(&self, format: u8) -> bool {
        match format.checked_sub(FORMAT_WS_COMPRESSED) {
            Some(at) => self
                .compressed
                .get(usize::from(at))
                .is_some_and(|it| it.is_json),
            None => format == FORMAT_WS_JSON,
        }
    }

    /// Appends a record as a frame. Appends nothing for a join or leave in a data-only format.
    pub fn socket_frame(&mut self, is_json: bool, record: &Record, out: &mut Vec<u8>) {
        if let Some(payload) = payload(&self.ids, &mut self.payload, is_json, record) {
            text_frame(payload, out);
        }
    }

    /// Appends a record as the embedder's message.
    fn own_frame(&mut self, record: &Record, out: &mut Vec<u8>) {
        let mut id = [0; ID_BYTES_MAX];
        if let Some(event) = channel_event(&self.ids, record, &mut id) {
            self.own_message(&event, out);
        }
    }

    /// Appends an earlier record for a client of a view. Returns false if the view excludes the
    /// record.
    pub fn view_past(&mut self, view: u64, record: &Record, out: &mut Vec<u8>) -> bool {
        let mut id = [0; ID_BYTES_MAX];
        let event = channel_event(&self.ids, record, &mut id);
        let (Some(event), Some(select)) = (event, &mut self.select) else {
            return false;
        };
        let is_selected = select.selects(view, &event);
        if is_selected {
            select.write(view, &event, out);
        }
        is_selected
    }

    fn own_message(&mut self, event: &ChannelEvent<'_>, out: &mut Vec<u8>) {
        self.payload.clear();
        if let Some(write) = &self.message
            && write(event, &mut self.payload)
        {
            text_frame(&self.payload, out);
        }
    }

    /// Appends a notice of missing messages, if the format supports such notices. The notice is for
    /// one channel, or for any joined channel.
    pub fn gap_frame(
        &mut self,
        format: u8,
        channel: Option<&[u8]>,
        reason: &str,
        out: &mut Vec<u8>,
    ) {
        if format == FORMAT_WS_OWN {
            self.own_message(&ChannelEvent::Gap { channel }, out);
        } else if self.is_json(format) {
            socket_gap(channel, reason, out);
        }
    }

    fn compressed_frame(&mut self, at: u8, record: &Record, out: &mut Vec<u8>) {
        let Some(format) = self.compressed.get(usize::from(at)) else {
            return missed(());
        };
        let compressor = self.compressors.get_mut(format.compressor);
        let text = payload(&self.ids, &mut self.payload, format.is_json, record);
        if let (Some((_, _, compressor)), Some(text)) = (compressor, text) {
            compressor.write_shared(format.window_bits, text::Kind::Text, text, out);
        }
    }

    /// Appends the socket's position in a channel, so that it can resume before its first message.
    pub fn socket_position(&mut self, channel: &[u8], id: &[u8], out: &mut Vec<u8>) {
        self.payload.clear();
        envelope(
            &mut self.payload,
            Some(channel),
            Some(id),
            Some(b"position"),
            b"",
        );
        text_frame(&self.payload, out);
    }
}

impl Encoder {
    /// Appends a record for clients of the embedder.
    fn relayed(&mut self, format: u8, record: &Record, out: &mut Vec<u8>) -> PayloadSpan {
        let start = out.len();
        if format == FORMAT_ITEMS {
            write_item(record.channel(), record.data(), out);
            return PayloadSpan {
                start: 0,
                end: out.len() - start,
            };
        }
        let mut is_content = true;
        let payload = chunk::wrap_with(out, |out| {
            is_content = self.stream.is_none_or(|encode| encode(record.data(), out));
        });
        if !is_content {
            let mut item = Vec::new();
            write_item(record.channel(), record.data(), &mut item);
            self.unsent
                .push((record.channel().to_vec(), Rc::from(item)));
        }
        PayloadSpan {
            start: payload.start - start,
            end: payload.end - start,
        }
    }
}

impl Encode for Encoder {
    fn encode(&mut self, format: u8, record: &Record, out: &mut Vec<u8>) -> PayloadSpan {
        let start = out.len();
        if let Some(stream) = StreamFormat::of_number(format) {
            let payload = chunk::wrap_with(out, |out| stream.record(&self.ids, record, out));
            return PayloadSpan {
                start: payload.start - start,
                end: payload.end - start,
            };
        }
        if format >= FORMAT_STREAM {
            return self.relayed(format, record, out);
        }
        match format.checked_sub(FORMAT_WS_COMPRESSED) {
            Some(_) if format == FORMAT_WS_OWN => self.own_frame(record, out),
            Some(_) if format == FORMAT_READER => {
                // Readers do not read joins and leaves.
                if record.kind == Kind::Message {
                    out.push(0);
                }
            }
            Some(at) => self.compressed_frame(at, record, out),
            None => self.socket_frame(format == FORMAT_WS_JSON, record, out),
        }
        PayloadSpan {
            start: 0,
            end: out.len() - start,
        }
    }

    fn select(&mut self, record: &Record, views: &mut Vec<u64>) {
        let mut id = [0; ID_BYTES_MAX];
        if let Some(event) = channel_event(&self.ids, record, &mut id)
            && let Some(select) = &mut self.select
        {
            select.select(&event, views);
        }
    }

    fn encode_view(&mut self, view: u64, record: &Record, out: &mut Vec<u8>) -> PayloadSpan {
        let start = out.len();
        let mut id = [0; ID_BYTES_MAX];
        let event = channel_event(&self.ids, record, &mut id);
        let payload = match (event, &mut self.select) {
            (Some(event), Some(select)) => {
                chunk::wrap_with(out, |out| select.write(view, &event, out))
            }
            _ => start..start,
        };
        PayloadSpan {
            start: payload.start - start,
            end: payload.end - start,
        }
    }
}

/// Converts a record to an event for an embedder. `None` for internal channels, which clients
/// cannot join.
fn channel_event<'a>(
    ids: &Ids,
    record: &'a Record,
    id: &'a mut [u8; ID_BYTES_MAX],
) -> Option<ChannelEvent<'a>> {
    let (channel, data) = (record.channel(), record.data());
    let id = ids.of(record, id);
    Some(match record.kind {
        Kind::Message => ChannelEvent::Message {
            channel,
            id,
            name: record.name(),
            data,
        },
        Kind::Join => ChannelEvent::Join { channel, id, data },
        Kind::Leave => ChannelEvent::Leave { channel, id, data },
        Kind::Direct | Kind::Gap => return None,
    })
}

/// Appends a record as an item for an embedder: channel and data.
fn write_item(channel: &[u8], data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(channel.len() as u32).to_le_bytes());
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out.extend_from_slice(channel);
    out.extend_from_slice(data);
}

/// Returns the payload of a record. `None` for a join or leave in a data-only format.
fn payload<'a>(
    ids: &Ids,
    scratch: &'a mut Vec<u8>,
    is_json: bool,
    record: &'a Record,
) -> Option<&'a [u8]> {
    let name = match record.kind {
        // Events are UTF-8: `check_message` rejects other data.
        Kind::Message if !is_json => return Some(record.data()),
        Kind::Message => record.name(),
        Kind::Join => Some(&b"join"[..]),
        Kind::Leave => Some(&b"leave"[..]),
        // Only on internal channels, which clients cannot join.
        Kind::Direct | Kind::Gap => return None,
    };
    if !is_json {
        return None;
    }
    scratch.clear();
    let channel = Some(record.channel());
    let mut id = [0; ID_BYTES_MAX];
    let id = Some(ids.of(record, &mut id));
    envelope(scratch, channel, id, name, record.data());
    Some(scratch)
}

/// Appends a gap event in JSON.
fn socket_gap(channel: Option<&[u8]>, reason: &str, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    let data = format!("{{\"reason\":\"{reason}\"}}");
    envelope(&mut payload, channel, None, Some(b"gap"), data.as_bytes());
    text_frame(&payload, out);
}

/// Appends `{"channel":…,"id":…,"event":…,"data":…}`.
fn envelope(
    out: &mut Vec<u8>,
    channel: Option<&[u8]>,
    id: Option<&[u8]>,
    name: Option<&[u8]>,
    data: &[u8],
) {
    out.extend_from_slice(b"{\"channel\":");
    json_string(out, channel);
    out.extend_from_slice(b",\"id\":");
    json_string(out, id);
    out.extend_from_slice(b",\"event\":");
    json_string(out, name);
    out.extend_from_slice(b",\"data\":");
    json_string(out, Some(data));
    out.push(b'}');
}

/// Appends a JSON string (RFC 8259, section 7), or `null`. The text has been checked to be UTF-8.
fn json_string(out: &mut Vec<u8>, text: Option<&[u8]>) {
    let Some(text) = text else {
        out.extend_from_slice(b"null");
        return;
    };
    out.push(b'"');
    let mut plain = 0;
    for (at, &byte) in text.iter().enumerate() {
        let escaped = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0..0x20 => b'u',
            _ => continue,
        };
        out.extend_from_slice(&text[plain..at]);
        plain = at + 1;
        out.extend_from_slice(&[b'\\', escaped]);
        if escaped == b'u' {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            let digit = |nibble: u8| DIGITS[usize::from(nibble)];
            out.extend_from_slice(&[b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    out.extend_from_slice(&text[plain..]);
    out.push(b'"');
}

fn text_frame(payload: &[u8], out: &mut Vec<u8>) {
    frame::write(out, Opcode::Text, true, Reserved::NONE, None, payload);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn round_trips_json_strings(text in ".*|[\\x00-\\x7f]*") {
            let mut out = Vec::new();
            json_string(&mut out, Some(text.as_bytes()));
            let read: String = serde_json::from_slice(&out).expect("JSON");
            prop_assert_eq!(read, text);
        }
    }
}
