//! Frame headers (RFC 6455, section 5.2).
//!
//! A header is checked byte by byte in order. Each check fires at the byte that decides it, so every split of the input
//! gives the same result.

use super::{Role, Violation, mask};

/// Maximum length of a header: two bytes, a length of eight, a key of four.
pub const HEADER_BYTES_MAX: usize = 14;

/// Maximum payload of a control frame in bytes.
pub const CONTROL_BYTES_MAX: usize = 125;

/// Largest payload length that fits into the second byte.
const SHORT_MAX: u64 = 125;

/// Value of the second byte if the length is in the next two bytes.
const IN_16_BITS: u8 = 126;

/// Value of the second byte if the length is in the next eight bytes.
const IN_64_BITS: u8 = 127;

/// Frame types (RFC 6455, section 11.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// A further frame of a fragmented message.
    Continuation = 0,
    /// The first frame of a text message.
    #[default]
    Text = 1,
    /// The first frame of a binary message.
    Binary = 2,
    /// Starts or answers the closing handshake.
    Close = 8,
    /// Requests a pong.
    Ping = 9,
    /// Answers a ping.
    Pong = 10,
}

impl Opcode {
    /// Returns the opcode with this number, or `None` if it is reserved.
    #[inline]
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    /// Returns true for control frames, which may occur between the frames of a message and are never fragmented.
    #[inline]
    #[must_use]
    pub fn is_control(self) -> bool {
        self as u8 & 8 != 0
    }
}

/// The reserved bits, at their position in the first byte of a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reserved(u8);

impl Reserved {
    /// No reserved bit.
    pub const NONE: Self = Self(0);
    /// The first bit: with permessage-deflate it marks a compressed message (RFC 7692, section 6).
    pub const RSV1: Self = Self(0x40);
    /// All three bits.
    pub const ALL: Self = Self(0x70);

    /// Returns the reserved bits of `byte`, the first byte of a header; other bits are ignored.
    #[inline]
    #[must_use]
    pub fn from_bits(byte: u8) -> Self {
        Self(byte & Self::ALL.0)
    }

    /// Returns the bits at their position in the first byte of a header.
    #[inline]
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Returns true if all bits of `others` are set.
    #[inline]
    #[must_use]
    pub fn contains(self, others: Self) -> bool {
        others.0 & !self.0 == 0
    }
}

/// Masking requirement for received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masking {
    /// Frames from a client must be masked.
    Required,
    /// Frames from a server must not be masked.
    Forbidden,
    /// Frames may be masked or not.
    Either,
}

/// Requirements for received headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Masking requirement.
    pub masking: Masking,
    /// Reserved bits that a negotiated extension uses on data frames.
    pub reserved: Reserved,
    /// Maximum payload of a data frame in bytes. Above it, [`Violation::FrameTooLarge`] is reported.
    pub frame_bytes_max: u64,
}

impl Rules {
    /// Returns the rules for frames that `role` receives, without extensions.
    #[must_use]
    pub fn for_role(role: Role, frame_bytes_max: u64) -> Self {
        Self {
            masking: match role {
                Role::Server => Masking::Required,
                Role::Client => Masking::Forbidden,
            },
            reserved: Reserved::NONE,
            frame_bytes_max,
        }
    }
}

/// A frame header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// True if this is the last frame of its message.
    pub fin: bool,
    /// Reserved bits.
    pub reserved: Reserved,
    /// Frame type.
    pub opcode: Opcode,
    /// Masking key; `None` if the frame is not masked.
    pub mask: Option<[u8; 4]>,
    /// Payload length in bytes, below 2^63.
    pub payload_len: u64,
}

/// Result of [`Header::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parse {
    /// The header is incomplete and valid so far. Call again with these bytes and more.
    Partial,
    /// A complete header; the payload starts after `header_bytes`.
    Complete {
        /// The parsed header.
        header: Header,
        /// Length of the header: 2 to [`HEADER_BYTES_MAX`].
        header_bytes: usize,
    },
}

/// Length of a header without its key, and the payload length; `None` if bytes are missing.
type Length = Option<(usize, u64)>;

impl Header {
    /// Parses a header at the start of `buf`, which may be incomplete or contain more than the header.
    ///
    /// # Errors
    /// A violation within this frame. The position of the frame among others is not checked.
    #[inline]
    pub fn parse(buf: &[u8], rules: &Rules) -> Result<Parse, Violation> {
        let Some(&first) = buf.first() else {
            return Ok(Parse::Partial);
        };
        let (fin, reserved) = (first & 0x80 != 0, Reserved::from_bits(first));
        let opcode = Opcode::from_number(first & 0x0f).ok_or(Violation::ReservedOpcode)?;
        check_first(fin, reserved, opcode, rules)?;

        let Some(&second) = buf.get(1) else {
            // The rest of the header has not arrived.
            return Ok(Parse::Partial);
        };
        let masked = second & 0x80 != 0;
        match rules.masking {
            Masking::Required if !masked => return Err(Violation::MaskMissing),
            Masking::Forbidden if masked => return Err(Violation::MaskUnexpected),
            _ => {}
        }
        let Some((length_end, payload_len)) = length(buf, second & 0x7f, opcode)? else {
            return Ok(Parse::Partial);
        };
        if payload_len > rules.frame_bytes_max && !opcode.is_control() {
            return Err(Violation::FrameTooLarge);
        }
        let (mask, header_bytes) = if masked {
            let Some(key) = buf[length_end..].first_chunk::<4>() else {
                return Ok(Parse::Partial);
            };
            (Some(*key), length_end + 4)
        } else {
            (None, length_end)
        };
        Ok(Parse::Complete {
            header: Self {
                fin,
                reserved,
                opcode,
                mask,
                payload_len,
            },
            header_bytes,
        })
    }

    /// Returns the encoded header and its length. The payload length is in its shortest form.
    #[inline]
    #[must_use]
    pub fn encode(&self) -> ([u8; HEADER_BYTES_MAX], usize) {
        let mut bytes = [0; HEADER_BYTES_MAX];
        bytes[0] = u8::from(self.fin) << 7 | self.reserved.bits() | self.opcode as u8;
        let masked = u8::from(self.mask.is_some()) << 7;
        let mut len = 2;
        if self.payload_len <= SHORT_MAX {
            bytes[1] = masked | self.payload_len as u8;
        } else if let Ok(short) = u16::try_from(self.payload_len) {
            bytes[1] = masked | IN_16_BITS;
            bytes[2..4].copy_from_slice(&short.to_be_bytes());
            len = 4;
        } else {
            debug_assert!(self.payload_len < 1 << 63);
            bytes[1] = masked | IN_64_BITS;
            bytes[2..10].copy_from_slice(&self.payload_len.to_be_bytes());
            len = 10;
        }
        if let Some(key) = self.mask {
            bytes[len..len + 4].copy_from_slice(&key);
            len += 4;
        }
        (bytes, len)
    }

    /// Returns the length of the encoded header: 2 to [`HEADER_BYTES_MAX`].
    #[inline]
    #[must_use]
    pub fn encoded_len(payload_len: u64, masked: bool) -> usize {
        let length = if payload_len <= SHORT_MAX {
            2
        } else if payload_len <= u64::from(u16::MAX) {
            4
        } else {
            10
        };
        length + if masked { 4 } else { 0 }
    }
}

/// Appends a complete frame, masked if `mask` is a key.
pub fn write(
    out: &mut Vec<u8>,
    opcode: Opcode,
    fin: bool,
    reserved: Reserved,
    mask: Option<[u8; 4]>,
    payload: &[u8],
) {
    let header = Header {
        fin,
        reserved,
        opcode,
        mask,
        payload_len: payload.len() as u64,
    };
    let (bytes, len) = header.encode();
    out.reserve(len + payload.len());
    out.extend_from_slice(&bytes[..len]);
    let start = out.len();
    out.extend_from_slice(payload);
    if let Some(key) = mask {
        mask::apply(&mut out[start..], key, 0);
    }
}

/// Checks the first byte.
#[inline]
fn check_first(
    fin: bool,
    reserved: Reserved,
    opcode: Opcode,
    rules: &Rules,
) -> Result<(), Violation> {
    let allowed = if opcode.is_control() {
        Reserved::NONE
    } else {
        rules.reserved
    };
    if !allowed.contains(reserved) {
        return Err(Violation::ReservedBits);
    }
    if opcode.is_control() && !fin {
        return Err(match opcode {
            Opcode::Close => Violation::CloseFragmented,
            _ => Violation::ControlFragmented,
        });
    }
    Ok(())
}

/// Parses the payload length. `short` is the length field of the second byte.
#[inline]
fn length(buf: &[u8], short: u8, opcode: Opcode) -> Result<Length, Violation> {
    if u64::from(short) <= SHORT_MAX {
        return Ok(Some((2, u64::from(short))));
    }
    if opcode.is_control() {
        return Err(match opcode {
            Opcode::Close => Violation::CloseTooLong,
            _ => Violation::ControlTooLong,
        });
    }
    if short == IN_16_BITS {
        let Some(bytes) = buf[2..].first_chunk::<2>() else {
            return Ok(None);
        };
        let len = u64::from(u16::from_be_bytes(*bytes));
        return if len <= SHORT_MAX {
            Err(Violation::LengthNotMinimal)
        } else {
            Ok(Some((4, len)))
        };
    }
    if buf.get(2).is_some_and(|high| high & 0x80 != 0) {
        return Err(Violation::LengthInvalid);
    }
    let Some(bytes) = buf[2..].first_chunk::<8>() else {
        return Ok(None);
    };
    let len = u64::from_be_bytes(*bytes);
    if len <= u64::from(u16::MAX) {
        Err(Violation::LengthNotMinimal)
    } else {
        Ok(Some((10, len)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANY: Rules = Rules {
        masking: Masking::Either,
        reserved: Reserved::ALL,
        frame_bytes_max: u64::MAX,
    };

    fn parse(buf: &[u8], rules: &Rules) -> Result<Option<(Header, usize)>, Violation> {
        Ok(match Header::parse(buf, rules)? {
            Parse::Partial => None,
            Parse::Complete {
                header,
                header_bytes,
            } => Some((header, header_bytes)),
        })
    }

    #[test]
    fn the_examples_of_the_standard() {
        let mut out = Vec::new();
        let key = Some([0x37, 0xfa, 0x21, 0x3d]);
        let none = Reserved::NONE;
        write(&mut out, Opcode::Text, true, none, None, b"Hello");
        write(&mut out, Opcode::Text, true, none, key, b"Hello");
        write(&mut out, Opcode::Text, false, none, None, b"Hel");
        write(&mut out, Opcode::Continuation, true, none, None, b"lo");
        write(&mut out, Opcode::Ping, true, none, None, b"Hello");
        write(&mut out, Opcode::Pong, true, none, key, b"Hello");
        let expected = [
            &b"\x81\x05Hello"[..],
            b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
            b"\x01\x03Hel",
            b"\x80\x02lo",
            b"\x89\x05Hello",
            b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
        ];
        assert_eq!(out, expected.concat());

        let mut out = Vec::new();
        write(&mut out, Opcode::Binary, true, none, None, &[0; 256]);
        assert_eq!(out[..4], [0x82, 0x7e, 0x01, 0x00]);
        assert_eq!(out.len(), 4 + 256);
        let mut out = Vec::new();
        write(&mut out, Opcode::Binary, true, none, None, &[0; 65_536]);
        assert_eq!(out[..10], [0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn violations() {
        use Violation as V;
        let server = Rules::for_role(Role::Server, 1000);
        let client = Rules::for_role(Role::Client, 1000);
        let deflate = Rules {
            reserved: Reserved::RSV1,
            ..client
        };
        for (rules, bytes, violation) in [
            (&server, &b"\x83"[..], V::ReservedOpcode),
            (&server, b"\x87", V::ReservedOpcode),
            (&server, b"\x8b", V::ReservedOpcode),
            (&server, b"\xff", V::ReservedOpcode),
            (&server, b"\xc1", V::ReservedBits),
            (&server, b"\xa1", V::ReservedBits),
            (&server, b"\x91", V::ReservedBits),
            (&deflate, b"\xe1", V::ReservedBits),
            (&deflate, b"\xc9", V::ReservedBits),
            (&server, b"\x08", V::CloseFragmented),
            (&server, b"\x09", V::ControlFragmented),
            (&server, b"\x0a", V::ControlFragmented),
            (&server, b"\x89\xfe", V::ControlTooLong),
            (&client, b"\x88\x7f", V::CloseTooLong),
            (&server, b"\x81\x05", V::MaskMissing),
            (&client, b"\x81\x85", V::MaskUnexpected),
            (&client, b"\x81\x7e\x00\x7d", V::LengthNotMinimal),
            (
                &client,
                b"\x81\x7f\0\0\0\0\0\0\xff\xff",
                V::LengthNotMinimal,
            ),
            (&client, b"\x81\x7f\x80", V::LengthInvalid),
            (&client, b"\x81\x7e\x03\xe9", V::FrameTooLarge),
            (
                &client,
                b"\x81\x7f\x7f\xff\xff\xff\xff\xff\xff\xff",
                V::FrameTooLarge,
            ),
        ] {
            let before = &bytes[..bytes.len() - 1];
            assert_eq!(parse(before, rules), Ok(None), "{}", bytes.escape_ascii());
            assert_eq!(
                parse(bytes, rules),
                Err(violation),
                "{}",
                bytes.escape_ascii()
            );
            let mut longer = bytes.to_vec();
            longer.extend_from_slice(&[0xff; 20]);
            assert_eq!(parse(&longer, rules), Err(violation));
        }
    }

    #[test]
    fn limits_are_inclusive_and_leave_control_frames_alone() {
        let rules = Rules::for_role(Role::Client, 100);
        assert!(matches!(parse(b"\x82\x64", &rules), Ok(Some((_, 2)))));
        assert_eq!(parse(b"\x82\x65", &rules), Err(Violation::FrameTooLarge));
        assert!(matches!(parse(b"\x89\x7d", &rules), Ok(Some((_, 2)))));
        let rsv1 = Rules {
            reserved: Reserved::RSV1,
            ..rules
        };
        assert!(matches!(parse(b"\xc2\x01", &rsv1), Ok(Some((_, 2)))));
    }

    fn headers() -> impl Strategy<Value = Header> {
        let lengths = prop_oneof![0u64..200, 65_500u64..65_600, 0u64..1 << 63];
        let numbers = prop::sample::select(vec![0u8, 1, 2, 8, 9, 10]);
        let mask = proptest::option::of(any::<[u8; 4]>());
        (any::<bool>(), any::<u8>(), numbers, mask, lengths).prop_map(
            |(fin, reserved, number, mask, len)| {
                let opcode = Opcode::from_number(number).expect("not reserved");
                let control = opcode.is_control();
                Header {
                    fin: fin || control,
                    reserved: Reserved::from_bits(if control { 0 } else { reserved }),
                    opcode,
                    mask,
                    payload_len: if control { len.min(125) } else { len },
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_and_every_prefix_is_partial(header in headers()) {
            let (bytes, len) = header.encode();
            prop_assert_eq!(len, Header::encoded_len(header.payload_len, header.mask.is_some()));
            prop_assert_eq!(parse(&bytes[..len], &ANY), Ok(Some((header, len))));
            for end in 0..len {
                prop_assert_eq!(parse(&bytes[..end], &ANY), Ok(None));
            }
        }

        #[test]
        fn what_is_read_is_written_the_same(bytes in any::<[u8; HEADER_BYTES_MAX]>()) {
            if let Ok(Some((header, len))) = parse(&bytes, &ANY) {
                let (written, written_len) = header.encode();
                prop_assert_eq!(&written[..written_len], &bytes[..len]);
            }
        }
    }
}
