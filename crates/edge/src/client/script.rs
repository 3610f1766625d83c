//! Responses to script elements (JSON-P).

use std::collections::BTreeMap;

use fermata_proto::percent::decode_leniently;
use fermata_proto::response::{reason, reserved_name, valid_name, valid_value};

use crate::client::request::{Body, ClientRequest};
use crate::routes::{Jsonp, JsonpMode};
use crate::upstream::response::Head;

/// Maximum size of a response that is converted to a script.
pub(crate) const SCRIPT_BYTES_MAX: usize = crate::upstream::reply::INSTRUCT_BYTES_MAX;

/// Maximum length of the callback's name.
const CALLBACK_BYTES_MAX: usize = 256;
const METHOD: &str = "_method";
const HEADERS: &str = "_headers";
const BODY: &str = "_body";
const SET_COOKIE: &[u8] = b"set-cookie";

type Headers = Vec<(Vec<u8>, Vec<u8>)>;

/// Conversion of a response to a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    callback: String,
    mode: JsonpMode,
}

/// Returns the request that the parameters describe, and the conversion of its response. `None` for an ordinary request.
pub(crate) fn read(
    request: &ClientRequest,
    jsonp: &Jsonp,
) -> Result<Option<(ClientRequest, Script)>, &'static str> {
    let at = request.target.iter().position(|&byte| byte == b'?');
    let Some((path, query)) = at.and_then(|at| request.target.split_at_checked(at)) else {
        return Ok(None);
    };
    let body_param = jsonp.body_param.as_deref().unwrap_or(BODY);
    let (mut callback, mut method, mut headers, mut body) = (None, None, None, None);
    let mut kept: Vec<&[u8]> = Vec::new();
    for pair in query[1..].split(|&byte| byte == b'&') {
        let end = pair.iter().position(|&byte| byte == b'=');
        let (name, value) = match end {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &b""[..]),
        };
        let name = decode_leniently(name);
        let place = match &name[..] {
            name if name == jsonp.callback_param.as_bytes() => &mut callback,
            name if name == METHOD.as_bytes() => &mut method,
            name if name == HEADERS.as_bytes() => &mut headers,
            name if name == body_param.as_bytes() => &mut body,
            _ => {
                kept.push(pair);
                continue;
            }
        };
        // Only the first parameter of a name is used.
        place.get_or_insert_with(|| decode_leniently(value));
    }
    let callback = match (callback, &jsonp.default_callback) {
        (Some(callback), _) => callback,
        (None, Some(callback)) if body.is_some() => callback.clone().into_bytes(),
        _ => return Ok(None),
    };
    let callback = String::from_utf8(callback)
        .ok()
        .filter(|it| is_callback(it))
        .ok_or("Invalid callback parameter.")?;
    let method = method.unwrap_or_else(|| jsonp.default_method().as_bytes().to_vec());
    if !valid_name(&method) || method == b"CONNECT" {
        return Err("Invalid _method parameter.");
    }
    let mut own = request.headers.clone();
    for (name, value) in read_headers(headers.as_deref())? {
        own.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
        own.push((name, value));
    }
    if body.is_some() && jsonp.body_param.is_some() {
        own.retain(|(name, _)| !name.eq_ignore_ascii_case(b"content-type"));
        own.push((b"Content-Type".to_vec(), b"application/json".to_vec()));
    }
    let mut target = path.to_vec();
    for (place, pair) in kept.iter().enumerate() {
        target.push(if place == 0 { b'?' } else { b'&' });
        target.extend_from_slice(pair);
    }
    let request = ClientRequest {
        method,
        target,
        headers: own,
        body: body.map_or(Body::None, Body::Memory),
        peer: request.peer,
        host: request.host.clone(),
        is_tls: request.is_tls,
    };
    let mode = jsonp.mode;
    Ok(Some((request, Script { callback, mode })))
}

/// Returns true for a plain name. Anything else before the bracket would be executed as a script with the origin of the edge's
/// site.
pub(crate) fn is_callback(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_$.[]".contains(&byte);
    !name.is_empty() && name.len() <= CALLBACK_BYTES_MAX && name.bytes().all(is_part)
}

/// Parses the `_headers` parameter, an object of strings.
fn read_headers(json: Option<&[u8]>) -> Result<Headers, &'static str> {
    const INVALID: &str = "Invalid _headers parameter.";
    let Some(json) = json else {
        return Ok(Vec::new());
    };
    let headers: BTreeMap<String, String> = serde_json::from_slice(json).map_err(|_| INVALID)?;
    let mut read = Vec::new();
    for (name, value) in headers {
        let (name, value) = (name.into_bytes(), value.into_bytes());
        if !valid_name(&name) || !valid_value(&value) {
            return Err(INVALID);
        }
        let is_known = name.eq_ignore_ascii_case(b"host") || name.eq_ignore_ascii_case(b"accept");
        if !is_known && !reserved_name(&name) {
            read.push((name, value));
        }
    }
    Ok(read)
}

impl Script {
    /// Converts a response to a script.
    pub fn wrap(&self, head: &Head, body: &[u8]) -> (Head, Vec<u8>) {
        let argument = match self.mode {
            JsonpMode::Extended => extended(head, body),
            // Accept only JSON, because any other text would be executed as a script.
            JsonpMode::Basic => std::str::from_utf8(body)
                .ok()
                .filter(|text| serde_json::from_str::<serde_json::Value>(text).is_ok())
                .map(|text| text.trim().to_owned()),
        };
        let text = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let Some(argument) = argument else {
            let failed = Head {
                status: 500,
                headers: vec![text("Content-Type", "text/plain")],
                ..Head::default()
            };
            return (
                failed,
                b"The response cannot be encoded as JSON.\n".to_vec(),
            );
        };
        let mut headers = vec![text("Content-Type", "application/javascript")];
        let is_for_the_script = |name: &[u8]| {
            name.eq_ignore_ascii_case(b"cache-control") || name.eq_ignore_ascii_case(SET_COOKIE)
        };
        let mirrored = head.headers.iter();
        headers.extend(mirrored.filter(|it| is_for_the_script(&it.0)).cloned());
        let head = Head {
            status: 200,
            headers,
            ..Head::default()
        };
        // Escape U+2028 and U+2029, which are line terminators in JavaScript before ES2019, but not in JSON.
        let argument = argument
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029");
        let script = format!("/**/{}({argument});\n", self.callback);
        (head, script.into_bytes())
    }
}

/// Encodes a response as JSON. Returns `None` if the body is not UTF-8.
fn extended(head: &Head, body: &[u8]) -> Option<String> {
    let body = std::str::from_utf8(body).ok()?;
    let mut headers = serde_json::Map::new();
    for (name, value) in &head.headers {
        let name = String::from_utf8_lossy(name).into_owned();
        let value = String::from_utf8_lossy(value);
        // Pages of other sites must not read cookies. The browser receives them from the response itself.
        let is_cookie = name.as_bytes().eq_ignore_ascii_case(SET_COOKIE);
        let is_other = reserved_name(name.as_bytes()) || is_cross_origin(&name) || is_cookie;
        if is_other {
            continue;
        }
        match headers.get_mut(&name) {
            Some(serde_json::Value::String(before)) => {
                before.push_str(", ");
                before.push_str(&value);
            }
            _ => {
                headers.insert(name, value.into_owned().into());
            }
        }
    }
    let reason_text = if head.reason.is_empty() {
        reason(head.status).to_owned()
    } else {
        String::from_utf8_lossy(&head.reason).into_owned()
    };
    let whole = serde_json::json!({
        "code": head.status, "reason": reason_text, "headers": headers, "body": body,
    });
    Some(whole.to_string())
}

/// Returns true for CORS fields, which scripts do not need.
pub(crate) fn is_cross_origin(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with("access-control-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jsonp(mode: JsonpMode) -> Jsonp {
        Jsonp {
            mode,
            callback_param: "callback".to_owned(),
            body_param: None,
            default_callback: None,
            default_method: Some("GET".to_owned()),
        }
    }

    fn request(target: &str) -> ClientRequest {
        ClientRequest {
            method: b"GET".to_vec(),
            target: target.as_bytes().to_vec(),
            headers: vec![(b"X-A".to_vec(), b"old".to_vec())],
            body: Body::None,
            peer: fermata_io::Peer::Unix,
            host: b"host".to_vec(),
            is_tls: false,
        }
    }

    fn head(headers: &[(&str, &str)]) -> Head {
        let pair =
            |(name, value): &(&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        Head {
            status: 404,
            headers: headers.iter().map(pair).collect(),
            ..Head::default()
        }
    }

    #[test]
    fn a_query_can_mean_any_request() {
        let target = "/x?a=%20&callback=f.g&_method=PUT&_headers=%7B%22x-a%22%3A%22new%22%2C%22Host%22%3A%22h%22%2C%22Content-Length%22%3A%229%22%7D&_body=b%25&c";
        let meant = read(&request(target), &jsonp(JsonpMode::Extended));
        let (meant, script) = meant.expect("it is right").expect("it has a callback");
        assert_eq!(meant.target, b"/x?a=%20&c");
        assert_eq!(meant.method, b"PUT");
        assert_eq!(meant.headers, [(b"x-a".to_vec(), b"new".to_vec())]);
        assert!(matches!(&meant.body, Body::Memory(body) if body == b"b%"));
        assert_eq!(script.callback, "f.g");
    }

    #[test]
    fn a_body_of_its_own_parameter_is_json_for_the_default_callback() {
        let jsonp = Jsonp {
            body_param: Some("b".to_owned()),
            default_callback: Some("f".to_owned()),
            ..jsonp(JsonpMode::Basic)
        };
        let meant = read(&request("/x?b={}"), &jsonp).expect("it is right");
        let (meant, script) = meant.expect("the callback is preset");
        assert_eq!((&meant.target[..], &script.callback[..]), (&b"/x"[..], "f"));
        assert_eq!(meant.header("content-type"), Some(&b"application/json"[..]));
        assert!(
            read(&request("/x?_body={}"), &jsonp)
                .expect("right")
                .is_none()
        );
        assert!(read(&request("/x"), &jsonp).expect("right").is_none());
    }

    #[test]
    fn what_would_be_a_script_of_somebody_else_is_refused() {
        for (query, error) in [
            ("callback=", "Invalid callback parameter."),
            ("callback=alert(1)%2F%2F", "Invalid callback parameter."),
            ("callback=%ff", "Invalid callback parameter."),
            ("callback=f&_method=A%20B", "Invalid _method parameter."),
            ("callback=f&_method=CONNECT", "Invalid _method parameter."),
            ("callback=f&_headers=[]", "Invalid _headers parameter."),
            (
                "callback=f&_headers={%22A%22:%22b%0d%0aC:%20d%22}",
                "Invalid _headers parameter.",
            ),
            (
                "callback=f&_headers={%22A%22:%22b\\r\\nC:%20d%22}",
                "Invalid _headers parameter.",
            ),
        ] {
            let refused = read(&request(&format!("/x?{query}")), &jsonp(JsonpMode::Basic));
            assert_eq!(refused.err(), Some(error), "{query}");
        }
    }

    #[test]
    fn responses_become_scripts() {
        let script = |mode| Script {
            callback: "f".to_owned(),
            mode,
        };
        let head = head(&[
            ("Cache-Control", "no-store"),
            ("Set-Cookie", "a"),
            ("X-A", "1"),
            ("X-A", "2"),
            ("Access-Control-Max-Age", "1"),
        ]);
        let (outer, body) = script(JsonpMode::Extended).wrap(&head, "\u{2028}".as_bytes());
        let headers = r#"{"Cache-Control":"no-store","X-A":"1, 2"}"#;
        let text = String::from_utf8(body).expect("UTF-8");
        let json = text
            .strip_prefix("/**/f(")
            .and_then(|it| it.strip_suffix(");\n"));
        let called: serde_json::Value = serde_json::from_str(json.expect("a call")).expect("JSON");
        let headers: serde_json::Value = serde_json::from_str(headers).expect("JSON");
        assert_eq!(
            called,
            serde_json::json!({"code": 404, "reason": "Not Found", "headers": headers, "body": "\u{2028}"})
        );
        assert!(text.is_ascii());
        assert_eq!((outer.status, outer.headers.len()), (200, 3));
        let basic = script(JsonpMode::Basic);
        assert_eq!(
            basic.wrap(&head, b" {\"a\": 1}\n").1,
            b"/**/f({\"a\": 1});\n"
        );
        assert_eq!(basic.wrap(&head, b"alert(1)").0.status, 500);
        let extended = script(JsonpMode::Extended);
        assert_eq!(extended.wrap(&head, b"\xff").0.status, 500);
    }
}
