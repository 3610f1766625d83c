//! Parameters and messages of SockJS requests.

use fermata_edge_pushpin::form::pairs;
use fermata_sockjs::frame::messages;
use fermata_sockjs::place::Transport;

use crate::client::request::{Body, ClientRequest};
use crate::client::script::is_callback;

/// Names of the query parameter with the callback: current and older.
const CALLBACK: [&[u8]; 2] = [b"callback", b"c"];

/// Returns the callback of a script request. Fails if the name is invalid, because it is written into the script.
pub(crate) fn callback(request: &ClientRequest, is_script: bool) -> Result<Option<String>, ()> {
    if !is_script {
        return Ok(None);
    }
    let pairs = || pairs(query(request));
    let found = CALLBACK
        .iter()
        .find_map(|name| pairs().find(|(other, _)| other == name));
    match found {
        None => Ok(None),
        Some((_, value)) => match String::from_utf8(value) {
            Ok(name) if is_callback(&name) => Ok(Some(name)),
            _ => Err(()),
        },
    }
}

/// Returns the messages of a request: its body, or the field `d` of a form or query.
pub(crate) fn payload(request: &ClientRequest, transport: Transport) -> Option<Vec<String>> {
    let body = match &request.body {
        Body::None => Vec::new(),
        Body::Memory(body) => body.clone(),
        Body::File { path, .. } => std::fs::read(path).ok()?,
        // The request was refused earlier because of its size.
        Body::Arriving { .. } => return None,
    };
    if transport == Transport::Send {
        return messages(&body);
    }
    let form = if request.method == b"POST" {
        &body[..]
    } else {
        query(request)
    };
    // Clients send a form, or the messages themselves with a form's media type.
    match pairs(form).find(|(name, _)| name == b"d") {
        Some((_, value)) => messages(&value),
        None => messages(&body),
    }
}

/// Returns the query without the parameters of SockJS.
pub(crate) fn query_for_backend(request: &ClientRequest) -> Vec<u8> {
    let is_of_script = request.path().ends_with(b"/jsonp");
    let kept = query(request).split(|&byte| byte == b'&').filter(|pair| {
        let name = pair.split(|&byte| byte == b'=').next().unwrap_or_default();
        !is_of_script || !CALLBACK.contains(&name)
    });
    kept.collect::<Vec<_>>().join(&b'&')
}

fn query(request: &ClientRequest) -> &[u8] {
    let at = request.path().len() + 1;
    request.target.get(at..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, target: &str, body: &str) -> ClientRequest {
        ClientRequest {
            method: method.into(),
            target: target.into(),
            headers: Vec::new(),
            body: Body::Memory(body.into()),
            peer: fermata_io::Peer::Unix,
            host: Vec::new(),
            is_tls: false,
        }
    }

    #[test]
    fn payloads_are_found_where_each_transport_has_them() {
        let expected = Some(vec!["a b+c".to_owned()]);
        for (request, transport) in [
            (request("POST", "/x", "[\"a b+c\"]"), Transport::Send),
            (
                request("POST", "/x", "d=%5B%22a+b%2Bc%22%5D"),
                Transport::ScriptSend,
            ),
            (request("POST", "/x", "[\"a b+c\"]"), Transport::ScriptSend),
            (
                request("GET", "/x?y&d=%5b%22a%20b%2bc%22%5d", ""),
                Transport::ScriptSend,
            ),
        ] {
            assert_eq!(payload(&request, transport), expected, "{request:?}");
        }
        for body in ["", "{}", "[1]", "[\"a\"", "\"a\"", "[\"\\ud800\"]"] {
            let request = request("POST", "/x", body);
            assert_eq!(payload(&request, Transport::Send), None, "{body}");
        }
    }

    #[test]
    fn only_a_name_gets_into_a_script() {
        let named = |target: &str| callback(&request("GET", target, ""), true);
        assert_eq!(named("/0/a/jsonp?c=a.b"), Ok(Some("a.b".to_owned())));
        assert_eq!(named("/0/a/jsonp?c=a&callback=b"), Ok(Some("b".to_owned())));
        assert_eq!(named("/0/a/jsonp?d=a"), Ok(None));
        for target in [
            "/0/a/jsonp?c=",
            "/0/a/jsonp?c=alert(1)//",
            "/0/a/jsonp?c=%ff",
        ] {
            assert_eq!(named(target), Err(()), "{target}");
        }
    }

    #[test]
    fn backends_do_not_see_the_callback() {
        for (target, query) in [
            ("/0/a/jsonp?c=f&t=1&x", "t=1&x"),
            ("/0/a/xhr?c=f&t=1", "c=f&t=1"),
            ("/0/a/xhr", ""),
        ] {
            let request = request("GET", target, "");
            assert_eq!(query_for_backend(&request), query.as_bytes(), "{target}");
        }
    }
}
