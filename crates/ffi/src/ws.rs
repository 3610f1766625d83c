//! WebSocket frames for applications with their own connection: `Fermata\WebSocket\Codec`.
//!
//! C requests a size and allocates the string; the core writes the bytes into it in one pass.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use fermata_proto::ws::accept::{ACCEPT_BYTES, accept_key, valid_key};
use fermata_proto::ws::close::{self, REASON_BYTES_MAX};
use fermata_proto::ws::frame::{
    CONTROL_BYTES_MAX, Header, Masking, Opcode, Parse, Reserved, Rules,
};
use fermata_proto::ws::{Violation, mask, utf8};

use crate::abi::{
    FM_PARTIAL, FM_PROTOCOL, FmError, FmStr, NOTHING, array, ask, copy, guard, misuse, put, room,
};

/// Length of Sec-WebSocket-Accept, in bytes.
pub const FM_WS_ACCEPT_BYTES: usize = 28;

/// Maximum payload of a close frame, in bytes.
pub const FM_WS_CLOSE_BYTES: usize = 125;

/// Frames may be masked or not.
pub const FM_WS_MASK_EITHER: u32 = 0;
/// Frames must be masked, because they are from a client.
pub const FM_WS_MASK_REQUIRED: u32 = 1;
/// Frames must not be masked, because they are from a server.
pub const FM_WS_MASK_FORBIDDEN: u32 = 2;

const _: () = assert!(FM_WS_ACCEPT_BYTES == ACCEPT_BYTES);
const _: () = assert!(FM_WS_CLOSE_BYTES == CONTROL_BYTES_MAX);

/// The header of a frame.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct FmWsFrame {
    /// Length of the header, in bytes.
    pub header_bytes: usize,
    /// Length of the payload after the header, in bytes.
    pub payload_bytes: usize,
    /// Masking key if `masked`.
    pub key: [u8; 4],
    /// Close code to send after a violation, or the code of a close frame whose payload was read. 0 means none.
    pub close_code: u16,
    /// Opcode (RFC 6455, 11.8).
    pub opcode: u8,
    /// Reserved bits at their positions in the first byte: 0x40, 0x20, 0x10.
    pub reserved: u8,
    /// True for the last frame of a message.
    pub fin: bool,
    /// True if the payload is masked.
    pub masked: bool,
}

/// Writes Sec-WebSocket-Accept for a client's key, FM_WS_ACCEPT_BYTES bytes. False if the key is not base64 of 16
/// bytes.
///
/// # Safety
/// The contract at the head of the header: bytes and arrays have the documented sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_accept(key: FmStr, accept: *mut c_char) -> bool {
    ask(NOTHING, false, |()| {
        let key = key.bytes();
        if accept.is_null() || !valid_key(key) {
            return false;
        }
        // SAFETY: C provides a buffer of FM_WS_ACCEPT_BYTES bytes.
        copy(&accept_key(key), unsafe {
            room(accept, FM_WS_ACCEPT_BYTES)
        });
        true
    })
}

/// Returns the length of a frame with its header, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_frame_bytes(payload_bytes: usize, masked: bool) -> usize {
    ask(NOTHING, 0, |()| {
        payload_bytes.saturating_add(Header::encoded_len(payload_bytes as u64, masked))
    })
}

/// Returns true if the bytes are valid UTF-8, as a text message requires.
///
/// C uses this function where it writes the header of a plain text frame itself, which is cheaper than a call.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_is_text(payload: FmStr) -> bool {
    ask(NOTHING, false, |()| utf8::valid(payload.bytes()))
}

/// Writes a frame of `fm_ws_frame_bytes` bytes. Uses the fields opcode, reserved, fin, masked and key of `frame`.
///
/// FM_MISUSE if the frame would violate the protocol. The buffer's content is then undefined.
///
/// # Safety
/// The contract at the head of the header: bytes and arrays have the documented sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_encode(
    frame: Option<&FmWsFrame>,
    payload: FmStr,
    out: *mut c_char,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(frame, error, |frame| {
        let payload = payload.bytes();
        let (header, header_bytes) = sendable(frame, payload)?.encode();
        // SAFETY: C provides a buffer of `fm_ws_frame_bytes` bytes that does not overlap the payload; `sendable` does
        // not change the size of the header.
        let out = unsafe { room(out, header_bytes + payload.len()) };
        let (head, body) = out.split_at_mut(header_bytes);
        copy(&header[..header_bytes], head);
        if frame.masked {
            mask::copy(payload, body, frame.key);
        } else {
            copy(payload, body);
        }
        Ok(())
    })
}

/// Writes the payload of a close frame, at most FM_WS_CLOSE_BYTES bytes, and returns its length.
///
/// FM_MISUSE if the code must not be sent, or the reason is too long or not UTF-8.
///
/// # Safety
/// The contract at the head of the header: bytes and arrays have the documented sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_close(
    code: i64,
    reason: FmStr,
    out: *mut c_char,
    len: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(NOTHING, error, |()| {
        let sendable = u16::try_from(code)
            .ok()
            .filter(|&code| close::valid_code(code));
        let code = sendable.ok_or_else(|| {
            misuse(format!(
                "close code {code} must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999"
            ))
        })?;
        let reason = std::str::from_utf8(reason.bytes())
            .map_err(|_| misuse("the close reason is not UTF-8"))?;
        if reason.len() > REASON_BYTES_MAX {
            return Err(misuse(format!(
                "the close reason has {} bytes, but at most {REASON_BYTES_MAX} fit a frame",
                reason.len()
            )));
        }
        let payload = close::Payload::new(code, reason);
        let bytes = payload.as_bytes();
        // SAFETY: C provides a buffer of FM_WS_CLOSE_BYTES bytes, the maximum length of the payload.
        copy(bytes, unsafe { room(out, bytes.len()) });
        put(len, bytes.len());
        Ok(())
    })
}

/// Reads the header of the frame at the start of `bytes`.
///
/// FM_OK if the frame is complete, FM_PARTIAL if bytes are missing. FM_PROTOCOL with `frame.close_code` if the frame
/// violates the protocol or is longer than `payload_bytes_max`. `reserved` are the reserved bits that may be set.
#[unsafe(no_mangle)]
pub extern "C" fn fm_ws_header(
    bytes: FmStr,
    masking: u32,
    reserved: u8,
    payload_bytes_max: usize,
    frame: Option<&mut MaybeUninit<FmWsFrame>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(NOTHING, error, |()| {
        let rules = Rules {
            masking: match masking {
                FM_WS_MASK_REQUIRED => Masking::Required,
                FM_WS_MASK_FORBIDDEN => Masking::Forbidden,
                _ => Masking::Either,
            },
            reserved: Reserved::from_bits(reserved),
            frame_bytes_max: payload_bytes_max as u64,
        };
        let bytes = bytes.bytes();
        let mut frame = frame;
        let parsed = Header::parse(bytes, &rules).map_err(|violation| {
            let refused = FmWsFrame {
                close_code: violation.close_code() as u16,
                ..FmWsFrame::default()
            };
            put(frame.as_deref_mut(), refused);
            (FM_PROTOCOL, violation.to_string())
        });
        let Parse::Complete {
            header,
            header_bytes,
        } = parsed?
        else {
            return Err((FM_PARTIAL, String::new()));
        };
        if header.payload_len > (bytes.len() - header_bytes) as u64 {
            return Err((FM_PARTIAL, String::new()));
        }
        put(
            frame,
            FmWsFrame {
                header_bytes,
                // The payload is in memory, so its length fits.
                payload_bytes: header.payload_len as usize,
                key: header.mask.unwrap_or_default(),
                close_code: 0,
                opcode: header.opcode as u8,
                reserved: header.reserved.bits(),
                fin: header.fin,
                masked: header.mask.is_some(),
            },
        );
        Ok(())
    })
}

/// Writes the unmasked payload of a frame that `fm_ws_header` read from the same bytes, and checks it.
///
/// For a close frame, sets `frame.close_code`. The reason starts at `out + 2`. FM_PROTOCOL with `frame.close_code` for a malformed
/// close frame and for text that is not UTF-8. A first fragment may end inside a character; further fragments are not checked.
///
/// # Safety
/// The contract at the head of the header: bytes and arrays have the documented sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_ws_payload(
    frame: Option<&mut FmWsFrame>,
    payload: *const c_char,
    out: *mut c_char,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(frame, error, |frame| {
        let len = frame.payload_bytes;
        // SAFETY: C passes the frame's payload, and a buffer of the same length that does not overlap it.
        let (payload, place) = unsafe { (array(payload.cast::<u8>(), len), room(out, len)) };
        if frame.masked {
            mask::copy(payload, place, frame.key);
        } else {
            copy(payload, place);
        }
        // SAFETY: `mask::copy` or `copy` just initialized all of it.
        let payload = unsafe { array(place.as_ptr().cast::<u8>(), place.len()) };
        let checked = received_code(frame, payload);
        frame.close_code = match &checked {
            Ok(code) => *code,
            Err(violation) => violation.close_code() as u16,
        };
        match checked {
            Ok(_) => Ok(()),
            Err(violation) => Err((FM_PROTOCOL, violation.to_string())),
        }
    })
}

/// Returns the header to send if the frame conforms to the protocol.
fn sendable(frame: &FmWsFrame, payload: &[u8]) -> Result<Header, (u32, String)> {
    let opcode = Opcode::from_number(frame.opcode);
    let opcode = opcode.ok_or_else(|| misuse("the opcode is reserved"))?;
    let reserved = Reserved::from_bits(frame.reserved);
    if opcode.is_control() {
        if !frame.fin || reserved != Reserved::NONE {
            return Err(misuse(
                "a control frame is whole and has no reserved bits; leave out fin and rsv1 to rsv3",
            ));
        }
        if payload.len() > CONTROL_BYTES_MAX {
            return Err(misuse(format!(
                "a control frame holds at most {CONTROL_BYTES_MAX} bytes, not {}",
                payload.len()
            )));
        }
    }
    match opcode {
        Opcode::Close => {
            let close = close::parse(payload);
            close.map_err(|violation| misuse(format!("{violation}; see Codec::encodeClose()")))?;
        }
        Opcode::Text if !text_valid(payload, frame.fin, reserved) => {
            return Err(misuse(
                "the payload is not UTF-8; encode it or send it with Opcode::Binary",
            ));
        }
        _ => {}
    }
    Ok(Header {
        fin: frame.fin,
        reserved,
        opcode,
        mask: frame.masked.then_some(frame.key),
        payload_len: payload.len() as u64,
    })
}

/// Checks an unmasked payload. Returns the code of a close frame, and 0 for all other frames.
fn received_code(frame: &FmWsFrame, payload: &[u8]) -> Result<u16, Violation> {
    match Opcode::from_number(frame.opcode) {
        Some(Opcode::Close) => Ok(close::parse(payload)?.code.unwrap_or(0)),
        Some(Opcode::Text)
            if !text_valid(payload, frame.fin, Reserved::from_bits(frame.reserved)) =>
        {
            Err(Violation::TextNotUtf8)
        }
        _ => Ok(0),
    }
}

/// Returns true if a text frame may contain this payload. Payloads with extension bits are not checked, and a
/// fragment may end inside a character.
#[inline]
fn text_valid(payload: &[u8], fin: bool, reserved: Reserved) -> bool {
    if reserved != Reserved::NONE {
        true
    } else if fin {
        utf8::valid(payload)
    } else {
        utf8::valid_beginning(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(frame: FmWsFrame, payload: &[u8]) -> Result<Vec<u8>, u32> {
        let mut out = vec![0u8; fm_ws_frame_bytes(payload.len(), frame.masked)];
        let place = out.as_mut_ptr().cast();
        // SAFETY: `out` has the size that `fm_ws_frame_bytes` returned.
        let code = unsafe { fm_ws_encode(Some(&frame), FmStr::lend(payload), place, None) };
        if code == 0 { Ok(out) } else { Err(code) }
    }

    fn decoded(bytes: &[u8]) -> (u32, FmWsFrame, Vec<u8>) {
        let mut place = MaybeUninit::new(FmWsFrame::default());
        let all = FmStr::lend(bytes);
        let code = fm_ws_header(all, FM_WS_MASK_EITHER, 0, 1 << 20, Some(&mut place), None);
        // SAFETY: it was initialized with a value.
        let mut frame = unsafe { place.assume_init() };
        if code != 0 {
            return (code, frame, Vec::new());
        }
        let payload = &bytes[frame.header_bytes..][..frame.payload_bytes];
        let mut out = vec![0u8; payload.len()];
        let (from, to) = (payload.as_ptr().cast(), out.as_mut_ptr().cast());
        // SAFETY: both buffers have the size of the payload.
        let code = unsafe { fm_ws_payload(Some(&mut frame), from, to, None) };
        (code, frame, out)
    }

    #[test]
    fn frames_of_every_size_class_read_back() {
        for masked in [false, true] {
            for len in [0usize, 1, 125, 126, 65_535, 65_536] {
                let payload = vec![b'a'; len];
                let frame = FmWsFrame {
                    opcode: 1,
                    fin: true,
                    masked,
                    key: [9, 8, 7, 0xff],
                    ..FmWsFrame::default()
                };
                let bytes = encoded(frame, &payload).expect("valid");
                let (code, read, out) = decoded(&bytes);
                assert_eq!((code, read.masked, out), (0, masked, payload));
                assert_eq!(read.header_bytes + len, bytes.len());
                assert_eq!(decoded(&bytes[..bytes.len() - 1]).0, FM_PARTIAL);
            }
        }
    }

    #[test]
    fn errors_carry_the_close_code() {
        for (bytes, expected) in [
            (&b"\x83"[..], 1002),
            (b"\x81\x01\xff", 1007),
            (b"\x88\x01\x03", 1002),
            (b"\x88\x03\x03\xe8\xff", 1007),
            (b"\x82\x7f\0\0\0\0\0\x20\0\0", 1009),
        ] {
            let (code, frame, _) = decoded(bytes);
            assert_eq!((code, frame.close_code), (FM_PROTOCOL, expected));
        }
        let (code, frame, out) = decoded(b"\x88\x05\x0f\xa0bye");
        assert_eq!((code, frame.close_code, &out[2..]), (0, 4000, &b"bye"[..]));
    }
}
