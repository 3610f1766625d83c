//! Opening handshake of the server (RFC 6455, section 4.2).
//!
//! [`check`] validates a parsed request head. The application may then inspect it, and the server responds with
//! [`write_accepted`] or with the status of a [`Refused`], an ordinary HTTP response.

use super::accept::{ACCEPT_BYTES, accept_key, valid_key};
use super::extension::{self, Agreed, Policy};
use crate::http1::{Body, Head, Method, is_token};
use crate::http2::hpack;
use crate::response;

/// The only supported version of the protocol.
const VERSION: &[u8] = b"13";

/// Origins that may connect. Browsers connect to any host with the user's cookies and send `Origin`; this check keeps
/// pages of other sites out (RFC 6455, section 10.2). Clients that send no `Origin` are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origins<'a> {
    /// The origin of the host that the request was sent to; the safe default.
    #[default]
    SameHost,
    /// Only these origins are allowed, written as `scheme://host` or `scheme://host:port` in lower case.
    Listed(&'a [Vec<u8>]),
    /// All origins.
    Any,
}

/// Reason why a request is not an acceptable WebSocket handshake.
///
/// `Display` is one sentence with cause and fix for the log and the response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The method is not GET (RFC 6455, section 4.1).
    #[error("a WebSocket is opened with GET; use that method")]
    Method,
    /// The request is HTTP/1.0 (RFC 6455, section 4.1).
    #[error("a WebSocket needs HTTP/1.1; use that version")]
    HttpVersion,
    /// No `Upgrade: websocket` with `Connection: Upgrade` (RFC 6455, section 4.2.1; RFC 9110, section 15.5.22).
    #[error(
        "this URL is a WebSocket endpoint; send `Connection: Upgrade` and `Upgrade: websocket`"
    )]
    UpgradeRequired,
    /// A version other than 13, or no version (RFC 6455, section 4.4).
    #[error("only version 13 of WebSocket is supported; send `Sec-WebSocket-Version: 13`")]
    Version,
    /// The request has a body, which would be parsed as frames.
    #[error("a WebSocket handshake has no body; leave it out")]
    Body,
    /// The key is absent, repeated, or not base64 of 16 bytes (RFC 6455, section 4.2.1).
    #[error("Sec-WebSocket-Key is missing or malformed; send 16 random bytes in base64")]
    Key,
    /// The origin may not connect, or there are several `Origin` lines (RFC 6455, section 4.2.2).
    #[error("pages of this origin may not connect; allow the origin if they should")]
    Origin,
    /// The subprotocols are not a list of different tokens (RFC 6455, section 4.1).
    #[error("Sec-WebSocket-Protocol is malformed; send a list of different names")]
    Protocols,
    /// The extensions violate the grammar (RFC 6455, section 9.1).
    #[error("Sec-WebSocket-Extensions is malformed; send a list of extensions")]
    Extensions,
}

impl Refused {
    /// Returns the status code of the response.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Origin => 403,
            Self::Method => 405,
            Self::UpgradeRequired | Self::Version => 426,
            _ => 400,
        }
    }

    /// Returns the headers that the response needs in addition to the usual ones.
    ///
    /// For 426 they include `Connection`, so the response must not write another one; the connection may stay open.
    #[must_use]
    pub fn headers(&self) -> &'static [(&'static [u8], &'static [u8])] {
        match self {
            Self::Method => &[(b"Allow", b"GET")],
            Self::UpgradeRequired | Self::Version => &[
                (b"Upgrade", b"websocket"),
                (b"Connection", b"Upgrade"),
                (b"Sec-WebSocket-Version", VERSION),
            ],
            _ => &[],
        }
    }
}

/// An acceptable handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Value of `Sec-WebSocket-Accept`; `None` for HTTP/2.
    pub accept: Option<[u8; ACCEPT_BYTES]>,
    /// Negotiated permessage-deflate; `None` if messages are not compressed.
    pub compression: Option<Agreed>,
}

/// Validates a request head in `buf`. `compression` is the server's policy; `None` negotiates no compression.
///
/// # Errors
/// The reason why the handshake is not acceptable.
pub fn check(
    head: &Head,
    buf: &[u8],
    origins: Origins<'_>,
    compression: Option<&Policy>,
) -> Result<Handshake, Refused> {
    if head.method != Method::Get {
        return Err(Refused::Method);
    }
    if head.minor_version == 0 {
        return Err(Refused::HttpVersion);
    }
    // `head.upgrade` is true only if `Connection` names `upgrade` too.
    let to_websocket = |protocol: &[u8]| protocol.eq_ignore_ascii_case(b"websocket");
    if !head.upgrade || !list(head, buf, b"upgrade").any(to_websocket) {
        return Err(Refused::UpgradeRequired);
    }
    check_version(head, buf)?;
    if head.body != Body::None {
        return Err(Refused::Body);
    }
    let key = only(head, buf, b"sec-websocket-key").filter(|key| valid_key(key));
    let key = key.ok_or(Refused::Key)?;
    Ok(Handshake {
        accept: Some(accept_key(key)),
        compression: check_rest(head, buf, origins, compression)?,
    })
}

/// Validates an extended CONNECT of HTTP/2 with `:protocol` `websocket` (RFC 8441, section 5), which has neither a key
/// nor `Upgrade`.
///
/// # Errors
/// The reason why the handshake is not acceptable.
pub fn check_connect(
    head: &Head,
    buf: &[u8],
    origins: Origins<'_>,
    compression: Option<&Policy>,
) -> Result<Handshake, Refused> {
    check_version(head, buf)?;
    Ok(Handshake {
        accept: None,
        compression: check_rest(head, buf, origins, compression)?,
    })
}

fn check_version(head: &Head, buf: &[u8]) -> Result<(), Refused> {
    match only(head, buf, b"sec-websocket-version") {
        Some(VERSION) => Ok(()),
        _ => Err(Refused::Version),
    }
}

/// Validates the headers that HTTP/1.1 and HTTP/2 share.
fn check_rest(
    head: &Head,
    buf: &[u8],
    origins: Origins<'_>,
    compression: Option<&Policy>,
) -> Result<Option<Agreed>, Refused> {
    if !origin_allowed(head, buf, origins) {
        return Err(Refused::Origin);
    }
    if !protocols_valid(head, buf) {
        return Err(Refused::Protocols);
    }
    let offers = lines(head, buf, b"sec-websocket-extensions");
    extension::negotiate(offers, compression).map_err(|_| Refused::Extensions)
}

/// Returns the subprotocols that the client offers, in its order of preference.
pub fn protocols<'a>(head: &'a Head, buf: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + Clone {
    list(head, buf, b"sec-websocket-protocol")
}

/// Returns the first of the server's subprotocols that the client offers. Names are case-sensitive.
pub fn choose_protocol<'s>(
    head: &Head,
    buf: &[u8],
    supported: impl IntoIterator<Item = &'s [u8]>,
) -> Option<&'s [u8]> {
    let offered = protocols(head, buf);
    let mut supported = supported.into_iter();
    supported.find(|name| offered.clone().any(|offer| offer == *name))
}

/// Appends the 101 response; frames follow it directly.
///
/// `protocol` must be one of those offered. `headers` must contain only names and values that [`response::valid_name`]
/// and [`response::valid_value`] accept, and no [`reserved_name`].
pub fn write_accepted<'a>(
    out: &mut Vec<u8>,
    handshake: &Handshake,
    protocol: Option<&[u8]>,
    headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) {
    out.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
    );
    if let Some(accept) = &handshake.accept {
        line(out, b"Sec-WebSocket-Accept", |out| {
            out.extend_from_slice(accept)
        });
    }
    if let Some(protocol) = protocol {
        line(out, b"Sec-WebSocket-Protocol", |out| {
            out.extend_from_slice(protocol)
        });
    }
    if let Some(agreed) = handshake.compression {
        line(out, b"Sec-WebSocket-Extensions", |out| agreed.write(out));
    }
    for (name, value) in headers {
        line(out, name, |out| out.extend_from_slice(value));
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the accepting response as the header block of a 200 response over HTTP/2 (RFC 8441, section 5.1).
pub fn write_accepted_block<'a>(
    out: &mut Vec<u8>,
    handshake: &Handshake,
    protocol: Option<&[u8]>,
    headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) {
    hpack::encode_status(out, 200);
    if let Some(protocol) = protocol {
        hpack::encode(out, b"sec-websocket-protocol", protocol);
    }
    if let Some(agreed) = handshake.compression {
        let mut value = Vec::new();
        agreed.write(&mut value);
        hpack::encode(out, b"sec-websocket-extensions", &value);
    }
    for (name, value) in headers {
        hpack::encode(out, name, value);
    }
}

/// Returns true if only the server may write this header of the 101 response.
#[must_use]
pub fn reserved_name(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"sec-websocket-";
    let starts_with = name.get(..PREFIX.len());
    response::reserved_name(name)
        || name.eq_ignore_ascii_case(b"upgrade")
        || starts_with.is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

fn line(out: &mut Vec<u8>, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    write(out);
    out.extend_from_slice(b"\r\n");
}

/// Returns the values of all lines with this name, which must be in lower case.
fn lines<'a>(
    head: &'a Head,
    buf: &'a [u8],
    name: &'static [u8],
) -> impl Iterator<Item = &'a [u8]> + Clone {
    let named =
        move |line: &&crate::http1::HeaderSpan| line.name.of(buf).eq_ignore_ascii_case(name);
    let lines = head.headers.iter().filter(named);
    lines.map(|line| line.value.of(buf))
}

/// Returns the elements of a comma-separated list over all lines; empty elements are ignored (RFC 9110, section
/// 5.6.1.2).
fn list<'a>(
    head: &'a Head,
    buf: &'a [u8],
    name: &'static [u8],
) -> impl Iterator<Item = &'a [u8]> + Clone {
    let elements = lines(head, buf, name).flat_map(|line| line.split(|&byte| byte == b','));
    elements
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
}

/// Returns the value of the only line with this name, or `None` if there is no line or several.
fn only<'a>(head: &'a Head, buf: &'a [u8], name: &'static [u8]) -> Option<&'a [u8]> {
    let mut lines = lines(head, buf, name);
    let first = lines.next()?;
    lines.next().is_none().then_some(first)
}

/// Returns true if the subprotocols are different tokens. The limit on headers bounds the quadratic cost.
fn protocols_valid(head: &Head, buf: &[u8]) -> bool {
    let names = protocols(head, buf);
    let sent = lines(head, buf, b"sec-websocket-protocol").next().is_some();
    let repeated = |(at, name)| names.clone().take(at).any(|before| before == name);
    names.clone().all(is_token)
        && !names.clone().enumerate().any(repeated)
        && (!sent || names.clone().next().is_some())
}

fn origin_allowed(head: &Head, buf: &[u8], origins: Origins<'_>) -> bool {
    if lines(head, buf, b"origin").next().is_none() {
        return true;
    }
    // No browser sends several `Origin` lines, and it would be ambiguous which one applies.
    let Some(origin) = only(head, buf, b"origin") else {
        return false;
    };
    match origins {
        Origins::Any => true,
        Origins::Listed(listed) => listed
            .iter()
            .any(|known| origin.eq_ignore_ascii_case(known)),
        Origins::SameHost => {
            let host = head.host.map_or(&b""[..], |host| host.of(buf));
            same_host(origin, host)
        }
    }
}

/// Returns true if the origin's host and port equal `Host`. The scheme may differ, because a proxy may terminate TLS.
fn same_host(origin: &[u8], host: &[u8]) -> bool {
    let Some(scheme_end) = memchr::memmem::find(origin, b"://") else {
        // `null`, an origin that equals no host.
        return false;
    };
    let (scheme, authority) = (&origin[..scheme_end], &origin[scheme_end + 3..]);
    let default_port: &[u8] = if scheme.eq_ignore_ascii_case(b"https") {
        b":443"
    } else if scheme.eq_ignore_ascii_case(b"http") {
        b":80"
    } else {
        return false;
    };
    // Browsers omit the default port in both headers; other clients may write it.
    let plain = |authority: &[u8]| {
        let plain = authority.strip_suffix(default_port).unwrap_or(authority);
        plain.to_ascii_lowercase()
    };
    !host.is_empty() && plain(authority) == plain(host)
}

#[cfg(test)]
mod tests;
