//! Instructions behind GRIP links.

use fermata_grip::instruct;
use fermata_grip::instruct::{Hold, Instruct};

use crate::client::request::ClientRequest;
use crate::upstream::reply::{RefusedInstruct, borrowed, is_compressed, read_instruct};
use crate::upstream::response::Head;

/// Reads the instruction in the response of a `next` link.
pub(crate) fn link_instruct(head: &Head, body: Option<&[u8]>) -> Result<Instruct, RefusedInstruct> {
    if is_compressed(&head.headers) {
        return Err(RefusedInstruct::LinkCompressed);
    }
    if !instruct::is_instruct(&borrowed(&head.headers)) {
        return Ok(Instruct::default());
    }
    match read_instruct(head, body) {
        Some(Ok(instruct)) if instruct.hold != Hold::Response => Ok(instruct),
        Some(Ok(_)) => Err(RefusedInstruct::LinkNoStream),
        Some(Err(error)) => Err(error),
        None => Err(RefusedInstruct::LinkTooLarge),
    }
}

/// Resolved target of a link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) target: Vec<u8>,
    /// Host that the link names if it differs from the request's host, and true if that host uses
    /// TLS; `None` = the request's host.
    pub(crate) other_host: Option<(Vec<u8>, bool)>,
}

/// Resolves a URI reference against a request (RFC 3986, section 5.2). `None` if the host is invalid. Only `http` and `https` URIs
/// have a host of their own.
pub(crate) fn resolve(request: &ClientRequest, uri: &[u8]) -> Option<Named> {
    let without_fragment = uri.split(|&byte| byte == b'#').next()?;
    let (rest, is_tls) = match without_fragment {
        uri if starts(uri, b"http://") => (&uri[7..], false),
        uri if starts(uri, b"https://") => (&uri[8..], true),
        uri if uri.starts_with(b"//") => (&uri[2..], request.is_tls),
        uri => {
            return Some(Named {
                target: merge(request, uri),
                other_host: None,
            });
        }
    };
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?'))
        .unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    if host.is_empty() || !fermata_proto::http1::valid_host(host) {
        return None;
    }
    let target = match path.first() {
        Some(b'/') => path.to_vec(),
        _ => [b"/", path].concat(),
    };
    let is_same = host.eq_ignore_ascii_case(&request.host) && is_tls == request.is_tls;
    Some(Named {
        target,
        other_host: (!is_same).then(|| (host.to_vec(), is_tls)),
    })
}

fn starts(uri: &[u8], scheme: &[u8]) -> bool {
    uri.get(..scheme.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

/// Resolves a reference without a host against the request's path.
fn merge(request: &ClientRequest, uri: &[u8]) -> Vec<u8> {
    match uri.first() {
        None => request.target.clone(),
        Some(b'/') => uri.to_vec(),
        Some(b'?') => [request.path(), uri].concat(),
        Some(_) => {
            let path = request.path();
            let directory = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            [&path[..directory], b"/", uri].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::request::Body;
    use fermata_io::Peer;

    fn request() -> ClientRequest {
        ClientRequest {
            method: b"GET".to_vec(),
            target: b"/a/b?c".to_vec(),
            headers: Vec::new(),
            body: Body::None,
            peer: Peer::Unix,
            host: b"example.org:81".to_vec(),
            is_tls: false,
        }
    }

    #[test]
    fn links_are_seen_from_the_request() {
        for (uri, target) in [
            ("", "/a/b?c"),
            ("/x", "/x"),
            ("?d", "/a/b?d"),
            ("x?y", "/a/x?y"),
            ("http://example.org:81/x?y#z", "/x?y"),
            ("//example.org:81", "/"),
        ] {
            let expected = Named {
                target: target.as_bytes().to_vec(),
                other_host: None,
            };
            assert_eq!(resolve(&request(), uri.as_bytes()), Some(expected), "{uri}");
        }
        let named = resolve(&request(), b"https://other/x").expect("a link");
        assert_eq!(named.other_host, Some((b"other".to_vec(), true)));
        assert_eq!(resolve(&request(), b"http:///x"), None);
        assert_eq!(resolve(&request(), b"http://a b/x"), None);
    }
}
