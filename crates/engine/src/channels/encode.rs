//! From a channel's record to the bytes its subscribers get, once per wire format.

use std::rc::Rc;

use fermata_hub::{Encode, ID_BYTES_MAX, Ids, Kind, PayloadSpan, Record};
use fermata_proto::chunk;
use fermata_proto::ws::deflate::Compressor;
use fermata_proto::ws::frame::{Opcode, Reserved};
use fermata_proto::ws::{frame, message as text};

use crate::channels::stream_format::StreamFormat;
use crate::missed::missed;
use crate::websocket::Compression;

/// The data of messages, each a text frame of a WebSocket. Smaller numbers are those of [`StreamFormat`].
pub(crate) const FORMAT_WS_DATA: u8 = StreamFormat::ALL.len() as u8;

/// All events as JSON, each a text frame of a WebSocket.
pub(crate) const FORMAT_WS_JSON: u8 = FORMAT_WS_DATA + 1;

/// The first of the formats of compressed frames, which are numbered as they are needed.
const FORMAT_WS_COMPRESSED: u8 = FORMAT_WS_JSON + 1;

/// Messages that the embedder makes of a record, each a text frame of a WebSocket.
pub(crate) const FORMAT_WS_OWN: u8 = u8::MAX - 2;

/// Two formats of an embedder, see `relay`: what it makes of a record, and the record itself.
pub(crate) const FORMAT_STREAM: u8 = u8::MAX - 1;
pub(crate) const FORMAT_ITEMS: u8 = u8::MAX;

/// Appends what streams are sent of a record's data. False: nothing is sent; the embedder is told instead.
pub type Encoding = fn(data: &[u8], out: &mut Vec<u8>) -> bool;

/// Something in a channel, for an embedder that makes messages of its own of it: `websocket::Format::Own`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelEvent<'a> {
    /// A message was published.
    Message {
        /// The channel's name.
        channel: &'a [u8],
        /// The id by which a client resumes behind it.
        id: &'a [u8],
        /// The name it was published with.
        name: Option<&'a [u8]>,
        /// What was published: UTF-8.
        data: &'a [u8],
    },
    /// A user is present: `{"user": …, "info": …}`.
    Join {
        /// The channel's name.
        channel: &'a [u8],
        /// The id by which a client resumes behind it.
        id: &'a [u8],
        /// Who.
        data: &'a [u8],
    },
    /// A user is gone, told in the same way.
    Leave {
        /// The channel's name.
        channel: &'a [u8],
        /// The id by which a client resumes behind it.
        id: &'a [u8],
        /// Who.
        data: &'a [u8],
    },
    /// Messages before the next one are missing; without a channel, of any that the socket is in.
    Gap {
        /// The channel's name.
        channel: Option<&'a [u8]>,
    },
}

/// Appends the text that sockets get of an event, once for all sockets of a worker. False: they get nothing.
pub type WriteMessage = Box<dyn Fn(&ChannelEvent<'_>, &mut Vec<u8>) -> bool>;

/// Decides which clients get what of one channel, for an embedder whose protocol says more than a channel's name: clients
/// that get the same have one *view*, and everything is decided and written once per view and worker.
pub trait Select {
    /// Appends the views whose clients get an event.
    fn select(&mut self, event: &ChannelEvent<'_>, views: &mut Vec<u64>);

    /// Whether the clients of a view get an event of the past.
    fn selects(&mut self, view: u64, event: &ChannelEvent<'_>) -> bool;

    /// Appends what clients of a view that gets it are sent of an event: whole server-sent events, or nothing.
    fn write(&mut self, view: u64, event: &ChannelEvent<'_>, out: &mut Vec<u8>);
}

/// Encodes the records of one ring.
pub(crate) struct Encoder {
    pub ids: Ids,
    /// The payload of a frame whose length has to be known before it is written.
    payload: Vec<u8>,
    /// Formats of compressed frames, numbered from `FORMAT_WS_COMPRESSED` on.
    compressed: Vec<Compressed>,
    compressors: Vec<(u8, u32, Compressor)>,
    /// What an embedder's streams are sent of a record.
    pub stream: Option<Encoding>,
    /// What an embedder's sockets are sent of a record.
    pub message: Option<WriteMessage>,
    /// Which client gets which part of the channel that has views.
    pub select: Option<Box<dyn Select>>,
    /// Channel and item of records that are not sent, for the embedder to act on.
    pub unsent: Vec<(Vec<u8>, Rc<[u8]>)>,
}

/// A format of frames that are compressed without reference to others.
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

    /// The format of `plain` frames compressed in this way: one of its own, so that each frame is
    /// compressed once for all who can read it. `plain` when there is no number left.
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
        let Some(format) = format.filter(|format| *format < FORMAT_WS_OWN) else {
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

    /// Whether frames of this format tell about joins, leaves and gaps.
    pub fn is_json(&self, format: u8) -> bool {
        match format.checked_sub(FORMAT_WS_COMPRESSED) {
            Some(at) => self
                .compressed
                .get(usize::from(at))
                .is_some_and(|it| it.is_json),
            None => format == FORMAT_WS_JSON,
        }
    }

    /// A record as a frame. Nothing when it is no message and the format is that of data alone.
    pub fn socket_frame(&mut self, is_json: bool, record: &Record, out: &mut Vec<u8>) {
        if let Some(payload) = payload(&self.ids, &mut self.payload, is_json, record) {
            text_frame(payload, out);
        }
    }

    /// A record as the embedder's own message.
    fn own_frame(&mut self, record: &Record, out: &mut Vec<u8>) {
        let mut id = [0; ID_BYTES_MAX];
        if let Some(event) = channel_event(&self.ids, record, &mut id) {
            self.own_message(&event, out);
        }
    }

    /// Appends what a client of a view gets of a record of the past. False: nothing.
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

    /// Tells a socket that messages are missing before the next one, where its format has something to say it by: of one
    /// channel, or of any that it has joined.
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

    /// Tells a socket where it stands in a channel, so that it can resume before it got anything.
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
    /// A record for clients of the embedder.
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

/// A record as an embedder sees it. Nothing for one that is on no channel that can be subscribed to.
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

/// A record as an embedder gets it: channel and data.
fn write_item(channel: &[u8], data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(channel.len() as u32).to_le_bytes());
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out.extend_from_slice(channel);
    out.extend_from_slice(data);
}

/// What a socket gets of a record. Nothing when it is no message and the format is that of data alone.
fn payload<'a>(
    ids: &Ids,
    scratch: &'a mut Vec<u8>,
    is_json: bool,
    record: &'a Record,
) -> Option<&'a [u8]> {
    let name = match record.kind {
        // Events are UTF-8: `check_message` lets nothing else in.
        Kind::Message if !is_json => return Some(record.data()),
        Kind::Message => record.name(),
        Kind::Join => Some(&b"join"[..]),
        Kind::Leave => Some(&b"leave"[..]),
        // Is on no channel that can be subscribed to.
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

/// The event that says so in JSON.
fn socket_gap(channel: Option<&[u8]>, reason: &str, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    let data = format!("{{\"reason\":\"{reason}\"}}");
    envelope(&mut payload, channel, None, Some(b"gap"), data.as_bytes());
    text_frame(&payload, out);
}

/// `{"channel":…,"id":…,"event":…,"data":…}`.
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

/// A JSON string (RFC 8259, 7), or `null`. What goes in has been checked to be UTF-8.
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
        fn json_strings_read_back(text in ".*|[\\x00-\\x7f]*") {
            let mut out = Vec::new();
            json_string(&mut out, Some(text.as_bytes()));
            let read: String = serde_json::from_slice(&out).expect("JSON");
            prop_assert_eq!(read, text);
        }
    }
}
