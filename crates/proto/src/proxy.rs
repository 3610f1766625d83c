//! The PROXY protocol, versions 1 and 2 (haproxy.org, `proxy-protocol.txt`): a header in which a TCP proxy reports the
//! client's address.
//!
//! The reader must not consume bytes after the header, since they may be TLS. [`read`] therefore returns how many more
//! bytes are certain to belong to the header. For a binary header of known length this is the remainder; for a text
//! line it is at most two bytes at a time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum length of a version 1 line, including CRLF.
pub const LINE_BYTES_MAX: usize = 107;

/// Maximum length of a version 2 header: addresses and optional fields, which are ignored.
pub const BINARY_BYTES_MAX: usize = 2048;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const LINE_START: &[u8; 6] = b"PROXY ";
/// Length of the shortest line, `PROXY UNKNOWN`.
const LINE_BYTES_MIN: usize = 15;
/// Length of signature, version and command, family, and length.
const BINARY_HEAD_BYTES: usize = 16;

/// Result of [`read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// At least this many further bytes belong to the header; never 0.
    More(usize),
    /// The header is complete.
    Complete(Source),
}

/// The client whose connection the proxy forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The proxy itself is the client (a health check), or the client is unspecified.
    Proxy,
    /// Address and port of the client.
    Client(IpAddr, u16),
}

/// Error: the bytes are not a PROXY protocol header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the connection does not begin with a PROXY protocol header; send one, or connect elsewhere"
)]
pub struct Malformed;

/// Parses a header from its first byte.
///
/// # Errors
/// [`Malformed`]
pub fn read(bytes: &[u8]) -> Result<Step, Malformed> {
    let is_binary = bytes.first() == Some(&SIGNATURE[0]);
    let start: &[u8] = if is_binary { SIGNATURE } else { LINE_START };
    let len = bytes.len().min(start.len());
    if bytes[..len] != start[..len] {
        return Err(Malformed);
    }
    if is_binary {
        return read_binary(bytes);
    }
    match bytes {
        // No header of either version is shorter than these minimum lengths.
        _ if bytes.len() < LINE_BYTES_MIN => {
            let first = if bytes.is_empty() {
                SIGNATURE.len()
            } else {
                LINE_BYTES_MIN
            };
            Ok(Step::More(first - bytes.len()))
        }
        [line @ .., b'\r', b'\n'] => read_line(&line[LINE_START.len()..]).map(Step::Complete),
        _ if bytes.len() >= LINE_BYTES_MAX => Err(Malformed),
        [.., b'\r'] => Ok(Step::More(1)),
        _ => Ok(Step::More(2.min(LINE_BYTES_MAX - bytes.len()))),
    }
}

/// Parses the text between `PROXY` and the end of the line.
fn read_line(line: &[u8]) -> Result<Source, Malformed> {
    let text = std::str::from_utf8(line).map_err(|_| Malformed)?;
    if text.contains(['\r', '\n']) {
        return Err(Malformed);
    }
    let mut words = text.split(' ');
    let family = words.next().unwrap_or_default();
    if family == "UNKNOWN" {
        // The specification requires receivers to ignore the rest of the line.
        return Ok(Source::Proxy);
    }
    let mut word = || words.next().ok_or(Malformed);
    let (source, destination) = (word()?, word()?);
    let source_port = port(word()?)?;
    // The destination is validated but not used.
    port(word()?)?;
    if words.next().is_some() {
        return Err(Malformed);
    }
    let address = |text: &str| match family {
        "TCP4" => text.parse().map(IpAddr::V4).map_err(|_| Malformed),
        "TCP6" => text.parse().map(IpAddr::V6).map_err(|_| Malformed),
        _ => Err(Malformed),
    };
    address(destination)?;
    Ok(Source::Client(address(source)?.to_canonical(), source_port))
}

fn port(text: &str) -> Result<u16, Malformed> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_short = text.len() == 1 || !text.starts_with('0');
    text.parse()
        .ok()
        .filter(|_| is_decimal && is_short)
        .ok_or(Malformed)
}

fn read_binary(bytes: &[u8]) -> Result<Step, Malformed> {
    let Some(head) = bytes.first_chunk::<BINARY_HEAD_BYTES>() else {
        return Ok(Step::More(BINARY_HEAD_BYTES - bytes.len()));
    };
    let [.., command, family, high, low] = *head;
    let len = BINARY_HEAD_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if command >> 4 != 2 || command & 0xf > 1 || len > BINARY_BYTES_MAX {
        return Err(Malformed);
    }
    if bytes.len() < len {
        return Ok(Step::More(len - bytes.len()));
    }
    if bytes.len() > len {
        return Err(Malformed);
    }
    let addresses = &bytes[BINARY_HEAD_BYTES..];
    if command & 0xf == 0 {
        // LOCAL: the proxy's own connection.
        return Ok(Step::Complete(Source::Proxy));
    }
    let source = match family {
        // TCP over IPv4: two addresses, two ports.
        0x11 => {
            let [a, b, c, d, _, _, _, _, high, low, _, _] =
                *addresses.first_chunk::<12>().ok_or(Malformed)?;
            let address = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
            Source::Client(address, u16::from_be_bytes([high, low]))
        }
        // TCP over IPv6.
        0x21 => {
            let addresses = addresses.first_chunk::<36>().ok_or(Malformed)?;
            let source: [u8; 16] = *addresses.first_chunk().ok_or(Malformed)?;
            let address = IpAddr::V6(Ipv6Addr::from(source)).to_canonical();
            let port = u16::from_be_bytes([addresses[32], addresses[33]]);
            Source::Client(address, port)
        }
        // UNSPEC, datagram or Unix socket.
        0x00 | 0x12 | 0x22 | 0x31 | 0x32 => Source::Proxy,
        _ => return Err(Malformed),
    };
    Ok(Step::Complete(source))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads `stream` as a caller that trusts `More` does; returns the source and the number of bytes read.
    fn feed(stream: &[u8]) -> Result<(Source, usize), Option<Malformed>> {
        let mut len = 0;
        loop {
            match read(&stream[..len]).map_err(Some)? {
                Step::Complete(source) => return Ok((source, len)),
                Step::More(more) => {
                    assert!(more > 0);
                    if len + more > stream.len() {
                        return Err(None);
                    }
                    len += more;
                }
            }
        }
    }

    fn binary(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let len = (addresses.len() as u16).to_be_bytes();
        [&SIGNATURE[..], &[command, family], &len, addresses].concat()
    }

    fn client(address: &str, port: u16) -> Source {
        Source::Client(address.parse().expect("an address"), port)
    }

    #[test]
    fn both_versions_return_the_client_and_consume_only_the_header() {
        let v6 = [&[0x20; 16][..], &[0x30; 16], &[1, 2, 3, 4]].concat();
        let more = [
            &[192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x34, 0, 80][..],
            &[7; 200],
        ]
        .concat();
        for (header, source) in [
            (
                b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 80\r\n".to_vec(),
                client("192.0.2.1", 4711),
            ),
            (
                b"PROXY TCP6 2001:db8::1 ::1 1 65535\r\n".to_vec(),
                client("2001:db8::1", 1),
            ),
            (
                b"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n".to_vec(),
                client("192.0.2.1", 1),
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), Source::Proxy),
            (b"PROXY UNKNOWN whatever it is\r\n".to_vec(), Source::Proxy),
            (binary(0x21, 0x11, &more[..12]), client("192.0.2.1", 0x1234)),
            (binary(0x21, 0x11, &more), client("192.0.2.1", 0x1234)),
            (
                binary(0x21, 0x21, &v6),
                client("2020:2020:2020:2020:2020:2020:2020:2020", 0x0102),
            ),
            (binary(0x20, 0, b""), Source::Proxy),
            (binary(0x20, 0x11, &more), Source::Proxy),
            (binary(0x21, 0x31, &[0; 216]), Source::Proxy),
        ] {
            for rest in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\r\n"] {
                let stream = [&header[..], rest].concat();
                assert_eq!(feed(&stream), Ok((source, header.len())), "{header:?}");
            }
            for len in 0..header.len() {
                assert_eq!(feed(&header[..len]), Err(None), "{len} of {header:?}");
            }
        }
    }

    #[test]
    fn rejects_other_bytes() {
        let address = [192, 0, 2, 1, 10, 0, 0, 1, 1, 1, 0, 80];
        for stream in [
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03AAAA".to_vec(),
            b"\r\n\r\nGET / HTTP/1.1".to_vec(),
            b"PROXY TCP5 192.0.2.1 10.0.0.1 4711 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 10.0.0.1 4711\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 80 1\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 ::1 4711 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.256 10.0.0.1 4711 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 10.0.0.1 65536 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 10.0.0.1 +1 80\r\n".to_vec(),
            b"PROXY TCP4  192.0.2.1 10.0.0.1 1 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 10.0.0.1 01 80\r\n".to_vec(),
            [
                b"PROXY UNKNOWN ".to_vec(),
                vec![b'x'; 100],
                b"\r\n".to_vec(),
            ]
            .concat(),
            binary(0x11, 0x11, &address),
            binary(0x22, 0x11, &address),
            binary(0x21, 0x41, &address),
            binary(0x21, 0x11, &address[..11]),
            binary(0x21, 0x21, &address),
            binary(0x21, 0x11, &[0; BINARY_BYTES_MAX]),
        ] {
            assert_eq!(feed(&stream), Err(Some(Malformed)), "{stream:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(address: [u8; 16], is_v4: bool, port: u16, rest: Vec<u8>) {
            let [a, b, c, d, ..] = address;
            let ip = if is_v4 { IpAddr::V4(Ipv4Addr::new(a, b, c, d)) } else { IpAddr::V6(Ipv6Addr::from(address)) };
            let (family, number, octets) = if is_v4 { ("TCP4", 0x11, address[..4].repeat(2)) } else { ("TCP6", 0x21, address.repeat(2)) };
            let line = format!("PROXY {family} {ip} {ip} {port} 1\r\n").into_bytes();
            let ports = [port.to_be_bytes(), [0, 1]].concat();
            let binary = binary(0x21, number, &[octets, ports].concat());
            for header in [line, binary] {
                let stream = [&header[..], &rest].concat();
                let source = Source::Client(ip.to_canonical(), port);
                prop_assert_eq!(feed(&stream), Ok((source, header.len())));
            }
        }

        #[test]
        fn garbage_is_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..400), is_line: bool) {
            let start: &[u8] = if is_line { LINE_START } else { SIGNATURE };
            let stream = [start, &bytes].concat();
            if let Ok((_, len)) = feed(&stream) {
                let bytes_max = if is_line { LINE_BYTES_MAX } else { BINARY_BYTES_MAX };
                prop_assert!(len <= bytes_max);
            }
        }
    }
}
