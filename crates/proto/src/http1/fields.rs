//! Headers that decide the framing of a request and the state of its connection.

use super::head::{Body, Head, HeaderSpan};
use crate::number::{hex_value, parse_decimal};
use crate::{Refusal, Span};

/// State collected from the header lines parsed so far.
#[derive(Default)]
pub(super) struct Fields {
    pub host: Option<Span>,
    /// True if a header carries credentials (`Cookie`, `Authorization`, `Proxy-Authorization`).
    pub has_secrets: bool,
    content_length: Option<u64>,
    transfer: Transfer,
    connection_close: bool,
    connection_keep_alive: bool,
    connection_upgrade: bool,
    upgrade: bool,
    expect_continue: bool,
}

/// Value of `Transfer-Encoding` over all of its lines.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Transfer {
    #[default]
    None,
    Chunked,
    /// A well-formed, unsupported coding.
    Unknown,
    /// An unsupported coding followed by `chunked`; no further coding may follow.
    UnknownThenChunked,
}

impl Fields {
    /// Evaluates one header line.
    #[inline]
    pub(super) fn take(
        &mut self,
        buf: &[u8],
        line: HeaderSpan,
        head: &mut Head,
    ) -> Result<(), Refusal> {
        let name = line.name.of(buf);
        // The length of the name excludes most headers without a comparison.
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => self.host(buf, line.value),
            6 if name.eq_ignore_ascii_case(b"expect") => self.expect(line.value.of(buf), head),
            6 if name.eq_ignore_ascii_case(b"cookie") => {
                self.has_secrets = true;
                Ok(())
            }
            7 if name.eq_ignore_ascii_case(b"upgrade") => {
                self.upgrade = true;
                Ok(())
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.connection(line.value.of(buf));
                Ok(())
            }
            13 if name.eq_ignore_ascii_case(b"authorization") => {
                self.has_secrets = true;
                Ok(())
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                self.content_length(line.value.of(buf))
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.transfer_encoding(line.value.of(buf))
            }
            19 if name.eq_ignore_ascii_case(b"proxy-authorization") => {
                self.has_secrets = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Evaluates combinations of headers after the last line.
    #[inline]
    pub(super) fn finish(&self, head: &mut Head) -> Result<(), Refusal> {
        let http11 = head.minor_version > 0;
        if http11 && self.host.is_none() {
            return Err(Refusal::HostMissing);
        }
        head.host = head.host.or(self.host);
        head.body = match (self.transfer, self.content_length) {
            (Transfer::None, None | Some(0)) => Body::None,
            (Transfer::None, Some(len)) => Body::Length(len),
            (_, Some(_)) => return Err(Refusal::LengthAndChunked),
            // A proxy of HTTP/1.0 does not know chunks, so it may see another end of the body.
            _ if !http11 => return Err(Refusal::TransferEncodingVersion),
            (Transfer::Chunked, None) => Body::Chunked,
            (Transfer::Unknown | Transfer::UnknownThenChunked, None) => {
                return Err(Refusal::TransferEncodingUnknown);
            }
        };
        head.keep_alive = !self.connection_close && (http11 || self.connection_keep_alive);
        head.expect_continue = self.expect_continue && http11 && head.body != Body::None;
        // HTTP/1.0 has no upgrades. `Upgrade` counts only if `Connection` lists it (RFC 9110, section 7.8).
        head.upgrade = http11 && self.upgrade && self.connection_upgrade;
        Ok(())
    }

    #[inline]
    fn host(&mut self, buf: &[u8], value: Span) -> Result<(), Refusal> {
        if self.host.is_some() {
            return Err(Refusal::HostRepeated);
        }
        if !valid_host(value.of(buf)) {
            return Err(Refusal::HostInvalid);
        }
        self.host = Some(value);
        Ok(())
    }

    fn expect(&mut self, value: &[u8], head: &Head) -> Result<(), Refusal> {
        // An expectation in HTTP/1.0 has no effect (RFC 9110, section 10.1.1).
        if value.eq_ignore_ascii_case(b"100-continue") {
            self.expect_continue = true;
        } else if head.minor_version > 0 {
            return Err(Refusal::Expectation);
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            if option.eq_ignore_ascii_case(b"close") {
                self.connection_close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.connection_keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.connection_upgrade = true;
            }
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.content_length.is_some() {
            // RFC 9110 allows recipients to merge equal lengths. Reject them, because a client that repeats the header is more
            // likely an attacker than a mistaken client.
            return Err(Refusal::ContentLengthRepeated);
        }
        self.content_length = Some(parse_decimal(value).ok_or(Refusal::ContentLengthInvalid)?);
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Refusal> {
        for coding in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            self.transfer = if coding.eq_ignore_ascii_case(b"chunked") {
                match self.transfer {
                    Transfer::None => Transfer::Chunked,
                    Transfer::Unknown => Transfer::UnknownThenChunked,
                    // `chunked` occurs twice.
                    _ => return Err(Refusal::TransferEncodingInvalid),
                }
            } else {
                // A coding may have parameters after a semicolon.
                let name = coding
                    .split(|&byte| byte == b';')
                    .next()
                    .unwrap_or_default()
                    .trim_ascii_end();
                match self.transfer {
                    Transfer::None | Transfer::Unknown if super::is_token(name) => {
                        Transfer::Unknown
                    }
                    // The coding is malformed, or `chunked` is not the last coding.
                    _ => return Err(Refusal::TransferEncodingInvalid),
                }
            };
        }
        Ok(())
    }
}

/// Bytes allowed in a host name: `unreserved` and `sub-delims` of RFC 3986. Percent escapes are checked separately.
const HOST: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 256 {
        let byte = i as u8;
        table[i] = byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'-' | b'.'
                    | b'_'
                    | b'~'
                    | b'!'
                    | b'$'
                    | b'&'
                    | b'\''
                    | b'('
                    | b')'
                    | b'*'
                    | b'+'
                    | b','
                    | b';'
                    | b'='
            );
        i += 1;
    }
    table
};

/// Returns true if `host` is a non-empty host name or address with an optional port (RFC 9110, section 4.2.1).
pub fn valid_host(host: &[u8]) -> bool {
    let name_end = if host.first() == Some(&b'[') {
        match memchr::memchr(b']', host) {
            Some(end) if valid_ip_literal(&host[1..end]) => end + 1,
            _ => return false,
        }
    } else {
        match name_end(host) {
            Some(end) if end > 0 => end,
            _ => return false,
        }
    };
    match &host[name_end..] {
        [] => true,
        [b':', port @ ..] => valid_port(port),
        _ => false,
    }
}

/// Returns the position of the colon after the host name, or the length of the text if it has no colon. Returns `None` if the name
/// contains an invalid byte or percent escape.
fn name_end(host: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(&byte) = host.get(at) {
        if HOST[byte as usize] {
            at += 1;
        } else if byte == b':' {
            break;
        } else if byte == b'%' {
            hex_value(*host.get(at + 1)?)?;
            hex_value(*host.get(at + 2)?)?;
            at += 3;
        } else {
            return None;
        }
    }
    Some(at)
}

/// Returns true if the text in brackets is an IPv6 address. Future address forms (`v1.x`) are not supported.
fn valid_ip_literal(inside: &[u8]) -> bool {
    std::str::from_utf8(inside).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
}

/// Returns true if `port` is empty (RFC 3986, section 3.2.3) or a number up to 65535.
fn valid_port(port: &[u8]) -> bool {
    if port.len() > 5 {
        return false;
    }
    let mut number = 0;
    for byte in port {
        let digit = u32::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            return false;
        }
        number = number * 10 + digit;
    }
    number <= 65_535
}
