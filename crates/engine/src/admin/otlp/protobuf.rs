//! Encoding of protobuf fields, for OTLP spans and responses.

/// Maximum field number (protobuf, "Assigning Field Numbers").
const FIELD_MAX: u64 = (1 << 29) - 1;

/// Wire types (protobuf, "Message Structure").
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Len = 2,
    Fixed32 = 5,
}

/// Value of a field. Fixed-size numbers are not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed,
}

/// Appends a number.
pub(super) fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, Wire::Varint);
    varint(out, value);
}

/// Appends a 64-bit number that is rarely small.
pub(super) fn fixed64(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, Wire::Fixed64);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a 32-bit number that is rarely small.
pub(super) fn fixed32(out: &mut Vec<u8>, field: u32, value: u32) {
    tag(out, field, Wire::Fixed32);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends bytes.
pub(super) fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    header(out, field, value.len());
    out.extend_from_slice(value);
}

/// Appends text. Replaces bytes that are not UTF-8, because a decoder would refuse the complete
/// message.
pub(super) fn text(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    bytes(out, field, String::from_utf8_lossy(value).as_bytes());
}

/// Appends a message, whose fields `write` appends.
pub(super) fn message(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    tag(out, field, Wire::Len);
    let at = out.len();
    write(out);
    let len = out.len() - at;
    varint(out, len as u64);
    // Move the length, which is known only now, in front of the content.
    let length_len = out.len() - at - len;
    out[at..].rotate_right(length_len);
}

/// Appends the header of a message or text of `len` bytes.
pub(super) fn header(out: &mut Vec<u8>, field: u32, len: usize) {
    tag(out, field, Wire::Len);
    varint(out, len as u64);
}

fn tag(out: &mut Vec<u8>, field: u32, wire: Wire) {
    varint(out, u64::from(field) << 3 | wire as u64);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns the last value of a field; `None` if it is missing or the message is malformed.
pub(super) fn find(message: &[u8], field: u32) -> Option<Value<'_>> {
    let mut rest = message;
    let mut found = None;
    while !rest.is_empty() {
        let key = take_varint(&mut rest)?;
        if !(1..=FIELD_MAX).contains(&(key >> 3)) {
            return None;
        }
        let value = match key & 7 {
            0 => Value::Varint(take_varint(&mut rest)?),
            2 => {
                let len = usize::try_from(take_varint(&mut rest)?).ok()?;
                Value::Bytes(rest.split_off(..len)?)
            }
            1 => rest.split_off(..8).map(|_| Value::Fixed)?,
            5 => rest.split_off(..4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        if key >> 3 == u64::from(field) {
            found = Some(value);
        }
    }
    found
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *rest.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_fields_as_specified() {
        let mut out = Vec::new();
        // Examples of "Protocol Buffers: Encoding".
        number(&mut out, 1, 150);
        text(&mut out, 2, b"testing");
        message(&mut out, 3, |out| number(out, 1, 150));
        let expected = b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01";
        assert_eq!(out, expected);
        out.clear();
        fixed32(&mut out, 16, 1);
        fixed64(&mut out, 7, 2);
        assert_eq!(out, b"\x85\x01\x01\0\0\0\x39\x02\0\0\0\0\0\0\0");
    }

    #[test]
    fn writes_the_length_before_a_message() {
        for len in [0, 1, 127, 128, 16_383, 16_384, 100_000] {
            let mut out = b"before".to_vec();
            message(&mut out, 9, |out| out.resize(out.len() + len, b'x'));
            let found = find(&out[6..], 9);
            assert_eq!(found, Some(Value::Bytes(&vec![b'x'; len])));
        }
    }

    #[test]
    fn replaces_invalid_utf8() {
        let mut out = Vec::new();
        text(&mut out, 1, b"a\xff");
        assert_eq!(find(&out, 1), Some(Value::Bytes("a\u{fffd}".as_bytes())));
    }

    #[test]
    fn finds_the_last_value_of_a_field() {
        let mut out = Vec::new();
        for value in [0, 1, 127, 128, u64::MAX] {
            number(&mut out, 5, value);
            fixed64(&mut out, 6, value);
            fixed32(&mut out, 7, value as u32);
            assert_eq!(find(&out, 5), Some(Value::Varint(value)));
        }
        assert_eq!(find(&out, 7), Some(Value::Fixed));
        assert_eq!(find(&out, 8), None);
    }

    #[test]
    fn finds_no_fields_in_a_malformed_message() {
        for bytes in [
            &b"{\"code\":3}"[..],
            b"<html>",
            b"not found",
            b"\x12\x05test",
            b"\x08",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x00\x01",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ] {
            assert_eq!(find(bytes, 2), None, "{bytes:?}");
        }
    }
}
