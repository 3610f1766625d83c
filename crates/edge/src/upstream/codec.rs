//! Protocol of a connection to an origin.

use fermata_edge_pushpin::zhttp;
use fermata_fastcgi::codec as fastcgi;
use fermata_proto::chunk;
use fermata_proto::response_reader::ResponseReader;

/// Protocol of a connection, with its reader.
pub(crate) enum Codec {
    Http(ResponseReader),
    FastCgi(Box<fastcgi::Exchange>),
    Zhttp(Box<zhttp::Exchange>),
    /// A stream of a shared connection. Frames are encoded when they are sent.
    Http2,
}

/// Appends a piece of a request body in the protocol's framing.
pub(crate) fn write_piece(codec: &Codec, has_length: bool, piece: &[u8], out: &mut Vec<u8>) {
    if piece.is_empty() {
        return;
    }
    match codec {
        Codec::FastCgi(_) => fastcgi::Request::body(out, piece),
        Codec::Zhttp(_) | Codec::Http2 => out.extend_from_slice(piece),
        Codec::Http(_) if has_length => out.extend_from_slice(piece),
        Codec::Http(_) => chunk::wrap(out, piece),
    }
}

pub(crate) fn write_end(codec: &Codec, has_length: bool, out: &mut Vec<u8>) {
    match codec {
        Codec::FastCgi(_) => fastcgi::Request::body_end(out),
        Codec::Zhttp(_) | Codec::Http2 => {}
        Codec::Http(_) if has_length => {}
        Codec::Http(_) => out.extend_from_slice(chunk::LAST_CHUNK),
    }
}
