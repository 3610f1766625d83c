//! Headers of a response that makes an edge hold the client as an event stream.

use fermata_grip::params;

/// Parameters of a hold at an edge.
pub struct Hold<'a> {
    /// Each channel, with the id of its newest event if that is known.
    pub channels: &'a [(&'a [u8], Option<&'a str>)],
    /// Silence before a comment is sent, in milliseconds; 0: never.
    pub keep_alive_ms: u64,
    /// The client's user, for filters of edges.
    pub user: Option<&'a [u8]>,
    /// Seconds without events after which the edge requests missed events. `None`: the edge never requests them.
    pub link_timeout_s: Option<u64>,
    /// The request's target, as received.
    pub target: &'a [u8],
}

/// A GRIP header.
pub type Header = (&'static str, Vec<u8>);

/// A channel's name that is invalid in a header.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "channel name \"{0}\" is invalid in a GRIP header; use one without comma, semicolon, quote and blanks at its ends"
)]
pub struct NameError(String);

/// Returns the headers.
///
/// # Errors
/// [`NameError`].
pub fn headers(hold: &Hold<'_>) -> Result<Vec<Header>, NameError> {
    let mut headers = vec![("Grip-Hold", b"stream".to_vec())];
    // Without a link, an edge could not recover from a wrong id.
    let is_reliable = hold.link_timeout_s.is_some();
    for (name, newest) in hold.channels {
        headers.push((
            "Grip-Channel",
            channel(name, newest.filter(|_| is_reliable))?,
        ));
    }
    if hold.keep_alive_ms > 0 {
        let seconds = hold.keep_alive_ms.div_ceil(1_000);
        let value = format!(":\\n\\n; format=cstring; timeout={seconds}");
        headers.push(("Grip-Keep-Alive", value.into_bytes()));
    }
    let mut meta = b"user=".to_vec();
    if let Some(user) = hold.user
        && params::quote(&mut meta, user).is_some()
    {
        headers.push(("Grip-Set-Meta", meta));
    }
    if let Some(timeout_s) = hold.link_timeout_s {
        headers.push(("Grip-Link", link(hold.target, timeout_s)));
    }
    Ok(headers)
}

fn channel(name: &[u8], newest: Option<&str>) -> Result<Vec<u8>, NameError> {
    let is_plain = name.trim_ascii().len() == name.len()
        && !name.is_empty()
        && name
            .iter()
            .all(|byte| !matches!(byte, 0..b' ' | 0x7f | b',' | b';' | b'"'));
    if !is_plain {
        let name = String::from_utf8_lossy(name);
        return Err(NameError(name.escape_debug().to_string()));
    }
    let mut value = name.to_vec();
    if let Some(newest) = newest {
        value.extend_from_slice(b"; prev-id=");
        value.extend_from_slice(newest.as_bytes());
    }
    Ok(value)
}

/// Returns a link to the same resource for the edge. The link contains only the query, because routes may change paths.
fn link(target: &[u8], timeout_s: u64) -> Vec<u8> {
    let at = target.iter().position(|&byte| byte == b'?');
    let query = at.map_or(&b""[..], |at| &target[at + 1..]);
    let mut value = b"<?".to_vec();
    for &byte in query {
        match byte {
            // Characters that end a link or a list element.
            b'<' | b'>' | b'"' | b',' | b';' | b'#' | b' ' | 0x7f..=u8::MAX | 0..b' ' => {
                value.extend_from_slice(format!("%{byte:02X}").as_bytes());
            }
            _ => value.push(byte),
        }
    }
    value.extend_from_slice(format!(">; rel=next; timeout={timeout_s}").as_bytes());
    value
}

#[cfg(test)]
mod tests {
    use fermata_grip::instruct;

    use super::*;

    fn hold<'a>(channels: &'a [(&'a [u8], Option<&'a str>)]) -> Hold<'a> {
        Hold {
            channels,
            keep_alive_ms: 24_001,
            user: Some(b"O'Neil \"x\""),
            link_timeout_s: Some(120),
            target: b"/events?room=a,b;c>&x=%20",
        }
    }

    #[test]
    fn edge_parses_the_written_headers() {
        let channels: [(&[u8], Option<&str>); 2] =
            [(b"room.1", Some("abc-1f")), ("raum ü=2".as_bytes(), None)];
        let headers = headers(&hold(&channels)).expect("headers");
        let headers: Vec<(&[u8], &[u8])> = headers
            .iter()
            .map(|(name, value)| (name.as_bytes(), &value[..]))
            .collect();
        let read = instruct::from_headers(200, b"OK", &headers).expect("an instruction");
        assert_eq!(read.hold, instruct::Hold::Stream);
        assert_eq!(read.channels.len(), 2);
        assert_eq!(read.channels[0].name, b"room.1");
        assert_eq!(read.channels[0].prev_id.as_deref(), Some(&b"abc-1f"[..]));
        assert_eq!(read.channels[1].name, "raum ü=2".as_bytes());
        assert_eq!(read.channels[1].prev_id, None);
        let keep_alive = read.keep_alive.expect("a keep-alive");
        assert_eq!(keep_alive.data, b":\n\n");
        assert_eq!(keep_alive.timeout_s, 25);
        assert_eq!(
            read.meta.get(&b"user"[..]).map(Vec::as_slice),
            Some(&b"O'Neil \"x\""[..])
        );
        let next = read.next.expect("a link");
        assert_eq!(next.uri, b"?room=a%2Cb%3Bc%3E&x=%20");
        assert_eq!(next.timeout_s, 120);
    }

    #[test]
    fn omits_ids_without_a_link() {
        let channels: [(&[u8], Option<&str>); 1] = [(b"c", Some("abc-1f"))];
        let plain = Hold {
            keep_alive_ms: 0,
            user: None,
            link_timeout_s: None,
            ..hold(&channels)
        };
        let headers = headers(&plain).expect("headers");
        let expected = [
            ("Grip-Hold", b"stream".to_vec()),
            ("Grip-Channel", b"c".to_vec()),
        ];
        assert_eq!(headers, expected);
        assert_eq!(link(b"/", 5), b"<?>; rel=next; timeout=5");
    }

    #[test]
    fn rejects_channel_names_invalid_in_a_header() {
        for name in [&b"a,b"[..], b"a;b", b"\"a\"", b" a", b"a\r\nX: y", b""] {
            let channels = [(name, None)];
            let error = headers(&hold(&channels)).expect_err("a bad name");
            assert!(error.to_string().contains("channel name"), "{error}");
        }
    }
}
