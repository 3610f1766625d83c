//! Frames of ZMTP. A frame has a byte of flags, a length of one or eight bytes, and a body.

/// Flag: more frames of the message follow.
pub(super) const MORE: u8 = 1;
/// The length has eight bytes.
pub(super) const LONG: u8 = 2;
/// The frame is a command, not part of a message.
pub(super) const COMMAND: u8 = 4;

/// Appends a message that consists of these parts.
pub fn message(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for (at, part) in parts.iter().enumerate() {
        let more = if at + 1 < parts.len() { MORE } else { 0 };
        frame(out, more, part);
    }
}

/// Appends the subscription to messages that start with `topic`, or the end of that subscription, as a SUB socket sends it.
///
/// Uses the message form of ZMTP 3.0, which every version accepts.
pub fn subscription(out: &mut Vec<u8>, topic: &[u8], is_wanted: bool) {
    let body = [&[u8::from(is_wanted)], topic].concat();
    frame(out, 0, &body);
}

/// Appends a command.
pub(super) fn command(out: &mut Vec<u8>, name: &str, data: &[u8]) {
    let mut body = vec![name.len() as u8];
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(data);
    frame(out, COMMAND, &body);
}

fn frame(out: &mut Vec<u8>, flags: u8, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(len) => out.extend_from_slice(&[flags, len]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
}

/// Returns the flags and the length of the first frame, and the size of both fields. `None`: the bytes are incomplete.
pub(super) fn head(bytes: &[u8]) -> Option<(u8, u64, usize)> {
    let (&flags, rest) = bytes.split_first()?;
    match flags & LONG {
        0 => Some((flags, u64::from(*rest.first()?), 2)),
        _ => Some((flags, u64::from_be_bytes(*rest.first_chunk::<8>()?), 9)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_a_short_or_a_long_length() {
        let mut out = Vec::new();
        message(&mut out, &[b"ab", &[7; 256]]);
        assert_eq!(out[..4], [MORE, 2, b'a', b'b']);
        assert_eq!(out[4..13], [LONG, 0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(head(&out), Some((MORE, 2, 2)));
        assert_eq!(head(&out[4..]), Some((LONG, 256, 9)));
        assert_eq!(head(&out[4..12]), None);
        let mut out = Vec::new();
        subscription(&mut out, b"x", true);
        assert_eq!(out, [0, 2, 1, b'x']);
    }
}
