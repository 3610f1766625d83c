//! The header `Grip-Last: CHANNEL; last-id=ID`. It reports to the origin what a client has received.

use crate::params;

/// Name of the header.
pub const HEADER: &str = "Grip-Last";

/// Returns channel and id of every header.
pub fn read(headers: &[(&[u8], &[u8])]) -> Vec<(Vec<u8>, Vec<u8>)> {
    params::list(headers, HEADER)
        .filter_map(params::element)
        .filter_map(|element| {
            let id = element.param("last-id")?.to_vec();
            Some((element.first, id))
        })
        .collect()
}

/// Encodes a header value. `None`: the channel name is not valid in a header. The origin cannot have sent such a name in a header
/// either.
pub fn write(channel: &[u8], id: &[u8]) -> Option<Vec<u8>> {
    let is_plain = channel.trim_ascii().len() == channel.len()
        && channel
            .iter()
            .all(|byte| !matches!(byte, 0..b' ' | 0x7f | b',' | b';' | b'"'));
    if !is_plain {
        return None;
    }
    let mut value = channel.to_vec();
    value.extend_from_slice(b"; last-id=");
    params::quote(&mut value, id)?;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_ids_round_trip() {
        for (channel, id) in [("room-1", "5"), ("a b", ""), ("ü", "x;y, \"z\"")] {
            let value = write(channel.as_bytes(), id.as_bytes()).expect("fit for a header");
            let headers = [(&b"grip-last"[..], &value[..])];
            assert_eq!(read(&headers), [(channel.into(), id.into())]);
        }
    }

    #[test]
    fn never_writes_a_line_end() {
        for (channel, id) in [
            ("a\r\nX: y", "1"),
            ("a", "1\r\nX: y"),
            ("a;b", "1"),
            ("a,b", "1"),
            (" a", "1"),
        ] {
            assert_eq!(
                write(channel.as_bytes(), id.as_bytes()),
                None,
                "{channel} {id}"
            );
        }
    }
}
