//! The opening handshake, seen from the server (RFC 6455, 4.2).
//!
//! [`check`] looks at a parsed request head. The application may then look at it too, and the server either answers
//! with [`write_accepted`] or with a [`Refused`]: an ordinary response, since nothing was promised before the 101.

use super::accept::{ACCEPT_BYTES, accept_key, valid_key};
use super::extension::{self, Agreed, Policy};
use crate::http1::{Body, Head, Method, is_token};
use crate::http2::hpack;
use crate::response;

/// The version that is spoken: the only one there is.
const VERSION: &[u8] = b"13";

/// Which pages may connect. Browsers send `Origin` and connect to any host with the user's cookies, so this
/// is what keeps other sites' pages out (RFC 6455, 10.2). Other clients send none and are let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origins<'a> {
    /// Those of the host the request itself was sent to. The safe default.
    #[default]
    SameHost,
    /// These, as `scheme://host` or `scheme://host:port` in lower case, and no others.
    Listed(&'a [Vec<u8>]),
    /// All, also of other sites.
    Any,
}

/// Why a request is no WebSocket handshake that can be accepted.
///
/// `Display` is one sentence with cause and fix, fit for the log and for the body of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Not GET (RFC 6455, 4.1).
    #[error("a WebSocket is opened with GET; use that method")]
    Method,
    /// HTTP/1.0 (RFC 6455, 4.1).
    #[error("a WebSocket needs HTTP/1.1; use that version")]
    HttpVersion,
    /// No `Upgrade: websocket` with `Connection: Upgrade` (RFC 6455, 4.2.1; RFC 9110, 15.5.22).
    #[error("this is a WebSocket; send `Connection: Upgrade` and `Upgrade: websocket`")]
    UpgradeRequired,
    /// A version other than 13, or none (RFC 6455, 4.4).
    #[error("only version 13 of WebSocket is spoken here; send `Sec-WebSocket-Version: 13`")]
    Version,
    /// A body, which would be taken for frames.
    #[error("a WebSocket handshake has no body; leave it out")]
    Body,
    /// Missing, repeated, or not base64 of 16 bytes (RFC 6455, 4.2.1).
    #[error("Sec-WebSocket-Key is missing or malformed; send 16 random bytes in base64")]
    Key,
    /// A page of an origin that may not connect, or several `Origin` lines (RFC 6455, 4.2.2).
    #[error("pages of this origin may not connect; allow the origin if they should")]
    Origin,
    /// Not a list of different tokens (RFC 6455, 4.1).
    #[error("Sec-WebSocket-Protocol is malformed; send a list of different names")]
    Protocols,
    /// Breaks the grammar (RFC 6455, 9.1).
    #[error("Sec-WebSocket-Extensions is malformed; send a list of extensions")]
    Extensions,
}

impl Refused {
    /// The status code of the answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Origin => 403,
            Self::Method => 405,
            Self::UpgradeRequired | Self::Version => 426,
            _ => 400,
        }
    }

    /// Headers the answer has to have beside its usual ones.
    ///
    /// `Connection` is among them for 426, so the answer must write no other, and the connection may stay open.
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

/// A handshake that can be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The value of `Sec-WebSocket-Accept`. HTTP/2 has none.
    pub accept: Option<[u8; ACCEPT_BYTES]>,
    /// What became of the offers of permessage-deflate.
    pub compression: Option<Agreed>,
}

/// Looks at a request head in `buf`. `compression` is the server's wish; `None` negotiates none.
///
/// # Errors
/// What the client has to do differently.
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
    // `head.upgrade` is true only when `Connection` names it too.
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

/// The same for an extended CONNECT of HTTP/2 with `:protocol` `websocket` (RFC 8441, 5): there is no key, and nothing is
/// upgraded.
///
/// # Errors
/// What the client has to do differently.
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

/// What does not depend on the version of HTTP.
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

/// The subprotocols the client offers, in its order of preference.
pub fn protocols<'a>(head: &'a Head, buf: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + Clone {
    list(head, buf, b"sec-websocket-protocol")
}

/// The first of the server's subprotocols that the client offers too. Names are compared exactly.
pub fn choose_protocol<'s>(
    head: &Head,
    buf: &[u8],
    supported: impl IntoIterator<Item = &'s [u8]>,
) -> Option<&'s [u8]> {
    let offered = protocols(head, buf);
    let mut supported = supported.into_iter();
    supported.find(|name| offered.clone().any(|offer| offer == *name))
}

/// Appends the answer that opens the WebSocket: frames follow right behind it.
///
/// `protocol` has to be one of those offered. `headers` must hold only what [`response::valid_name`] and
/// [`response::valid_value`] accept, and none that [`reserved_name`] names.
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

/// The same as the header block of a 200 over HTTP/2 (RFC 8441, 5.1).
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

/// Whether a header of the 101 is the server's own.
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

/// The values of all lines with this name, which is in lower case.
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

/// The elements of a comma-separated list over all lines; empty ones count for nothing (RFC 9110, 5.6.1.2).
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

/// The value of the only line with this name; `None` when there is none or several.
fn only<'a>(head: &'a Head, buf: &'a [u8], name: &'static [u8]) -> Option<&'a [u8]> {
    let mut lines = lines(head, buf, name);
    let first = lines.next()?;
    lines.next().is_none().then_some(first)
}

/// Names are tokens and none is repeated. The number of headers bounds the square.
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
    // Several are no browser's doing, and nobody could say which one counts.
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

/// Whether the origin's host and port are those of `Host`. The scheme may differ: a proxy in front may speak TLS.
fn same_host(origin: &[u8], host: &[u8]) -> bool {
    let Some(scheme_end) = memchr::memmem::find(origin, b"://") else {
        // "null": a page without an origin that could be the same.
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
    // Browsers leave the default port out of both; others may write it.
    let plain = |authority: &[u8]| {
        let plain = authority.strip_suffix(default_port).unwrap_or(authority);
        plain.to_ascii_lowercase()
    };
    !host.is_empty() && plain(authority) == plain(host)
}

#[cfg(test)]
mod tests;
