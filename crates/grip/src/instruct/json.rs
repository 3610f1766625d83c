//! Instructions as a body of `application/grip-instruct`.

use super::headers::{self, common};
use super::{
    Channel, Hold, Instruct, InstructError, KeepAlive, KeepAliveMode, Meta, STATUS_MAX,
    TIMEOUT_DEFAULT_S, shown,
};
use crate::encoding;
use crate::filter::FILTERS_MAX;
use crate::value::Value;

type Read<T> = Result<T, InstructError>;

/// Parses the instruction in a response's JSON body. The origin's headers are not sent to the client.
///
/// # Errors
/// A field is invalid.
pub fn from_json(status: u16, headers: &[(&[u8], &[u8])], body: &[u8]) -> Read<Instruct> {
    if status != 200 {
        return Err(InstructError::Status(status));
    }
    let json: serde_json::Value =
        serde_json::from_slice(body).map_err(|error| InstructError::Json(error.to_string()))?;
    let value = Value::from(json);
    if !matches!(value, Value::Map(_)) {
        return Err(field("the instruction", "must be an object"));
    }
    let mut instruct = common(status, b"", headers)?;
    if let Some(part) = object(&value, "", "hold")? {
        hold(&mut instruct, part)?;
    }
    if let Some(part) = object(&value, "", "response")? {
        answer(&mut instruct, part)?;
    }
    // If the instruction has no body, the client receives an empty body, because the origin's body was the instruction itself.
    instruct.answer.body.get_or_insert_default();
    Ok(instruct)
}

fn hold(instruct: &mut Instruct, hold: &Value) -> Read<()> {
    instruct.hold = match text(hold, "hold", "mode")? {
        None | Some(b"response") => Hold::Response,
        Some(b"stream") => Hold::Stream,
        Some(_) => return Err(field("hold.mode", "must be \"response\" or \"stream\"")),
    };
    let Some(Value::List(channels)) = hold.get("channels") else {
        return Err(field(
            "hold.channels",
            "must be a list of objects with a name",
        ));
    };
    for (at, value) in channels.iter().enumerate() {
        instruct.subscribe(channel(&format!("hold.channels[{at}]"), value)?);
    }
    instruct.timeout_s = headers::timeout(seconds(hold, "hold", "timeout")?);
    if let Some(value) = object(hold, "hold", "keep-alive")? {
        instruct.keep_alive = keep_alive(value)?;
    }
    if let Some(value) = object(hold, "hold", "meta")? {
        instruct.meta.append(&mut meta(value)?);
    }
    Ok(())
}

fn channel(place: &str, value: &Value) -> Read<Channel> {
    let Some(name) = text(value, place, "name")? else {
        return Err(field(
            format!("{place}.name"),
            "is missing; give the channel's name",
        ));
    };
    let filters = match value.get("filters") {
        None => Vec::new(),
        Some(Value::List(names)) => names
            .iter()
            .map(|name| name.bytes().map(<[u8]>::to_vec))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| field(format!("{place}.filters"), "must be a list of texts"))?,
        Some(_) => return Err(field(format!("{place}.filters"), "must be a list of texts")),
    };
    if filters.len() > FILTERS_MAX {
        return Err(InstructError::FiltersTooMany {
            channel: shown(name),
        });
    }
    Ok(Channel {
        name: name.to_vec(),
        prev_id: text(value, place, "prev-id")?.map(<[u8]>::to_vec),
        filters,
    })
}

fn keep_alive(value: &Value) -> Read<Option<KeepAlive>> {
    const PLACE: &str = "hold.keep-alive";
    let Some(data) = content(value, PLACE, "content", "content-bin")? else {
        return Ok(None);
    };
    if data.is_empty() {
        return Err(field(PLACE, "has no data; leave it out or give content"));
    }
    let timeout_s = seconds(value, PLACE, "timeout")?.unwrap_or(TIMEOUT_DEFAULT_S);
    let mode = match text(value, PLACE, "mode")? {
        None => KeepAliveMode::Idle,
        Some(name) => KeepAliveMode::from_name(name)
            .ok_or_else(|| field("hold.keep-alive.mode", "must be \"idle\" or \"interval\""))?,
    };
    Ok(Some(KeepAlive::new(data, timeout_s, mode)))
}

fn meta(value: &Value) -> Read<Meta> {
    let Value::Map(entries) = value else {
        return Ok(Meta::new());
    };
    entries
        .iter()
        .map(|(name, value)| Some((name.clone(), value.bytes()?.to_vec())))
        .collect::<Option<Meta>>()
        .ok_or_else(|| field("hold.meta", "must be an object of texts"))
}

fn answer(instruct: &mut Instruct, response: &Value) -> Read<()> {
    if let Some(code) = response.get("code") {
        instruct.answer.status = code
            .integer()
            .and_then(|code| u16::try_from(code).ok())
            .filter(|&code| code <= STATUS_MAX)
            .ok_or_else(|| field("response.code", "must be a number from 0 to 999"))?;
        // The former reason phrase belongs to the former status.
        instruct.answer.reason.clear();
    }
    if let Some(reason) = text(response, "response", "reason")? {
        if !reason.iter().all(|&byte| is_header_byte(byte)) {
            return Err(field("response.reason", "must be one line of text"));
        }
        instruct.answer.reason = reason.to_vec();
    }
    if let Some(headers) = response.get("headers") {
        instruct.answer.headers = pairs(headers).ok_or_else(|| {
            field(
                "response.headers",
                "must be an object of texts or a list of pairs of texts",
            )
        })?;
        // A line end in a value would let the body forge further headers.
        if !instruct
            .answer
            .headers
            .iter()
            .all(|(name, value)| is_header(name, value))
        {
            return Err(field(
                "response.headers",
                "has a name or value that cannot stand in a header",
            ));
        }
        // The client receives no GRIP headers, as with an instruction in headers.
        instruct.answer.headers.retain(|(name, _)| {
            !name
                .get(..5)
                .is_some_and(|start| start.eq_ignore_ascii_case(b"grip-"))
        });
    }
    if let Some(body) = content(response, "response", "body", "body-bin")? {
        instruct.answer.body = Some(body);
    }
    Ok(())
}

/// Returns name and value of each header, from an object or a list of pairs.
pub(crate) fn pairs(headers: &Value) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    match headers {
        Value::Map(entries) => entries
            .iter()
            .map(|(name, value)| Some((name.clone(), value.bytes()?.to_vec())))
            .collect(),
        Value::List(entries) => entries
            .iter()
            .map(|pair| match pair {
                Value::List(pair) => match &pair[..] {
                    [Value::Bytes(name), Value::Bytes(value)] => {
                        Some((name.clone(), value.clone()))
                    }
                    _ => None,
                },
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

/// Returns true if a name and a value are valid as one header.
pub(crate) fn is_header(name: &[u8], value: &[u8]) -> bool {
    let is_token = |&byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.iter().all(is_token) && value.iter().all(|&byte| is_header_byte(byte))
}

/// Returns true if a byte is valid in a header's value or a reason.
pub(crate) fn is_header_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

fn object<'a>(value: &'a Value, place: &str, name: &str) -> Read<Option<&'a Value>> {
    match value.get(name) {
        None => Ok(None),
        Some(object @ Value::Map(_)) => Ok(Some(object)),
        Some(_) => Err(field(at(place, name), "must be an object")),
    }
}

fn text<'a>(value: &'a Value, place: &str, name: &str) -> Read<Option<&'a [u8]>> {
    match value.get(name) {
        None => Ok(None),
        Some(Value::Bytes(text)) => Ok(Some(text)),
        Some(_) => Err(field(at(place, name), "must be a text")),
    }
}

fn seconds(value: &Value, place: &str, name: &str) -> Read<Option<u32>> {
    value
        .get(name)
        .map(|value| {
            value
                .integer()
                .and_then(|seconds| u32::try_from(seconds).ok())
                .filter(|&seconds| seconds <= i32::MAX as u32)
                .ok_or_else(|| field(at(place, name), "must be whole seconds, not negative"))
        })
        .transpose()
}

/// Returns the text under `plain`, or the base64-decoded bytes under `binary`. If both exist, the bytes take precedence.
fn content(value: &Value, place: &str, plain: &str, binary: &str) -> Read<Option<Vec<u8>>> {
    match text(value, place, binary)? {
        Some(text) => encoding::base64(text)
            .map(Some)
            .ok_or_else(|| field(at(place, binary), "must be base64")),
        None => Ok(text(value, place, plain)?.map(<[u8]>::to_vec)),
    }
}

fn at(place: &str, name: &str) -> String {
    match place {
        "" => name.to_owned(),
        _ => format!("{place}.{name}"),
    }
}

fn field(place: impl Into<String>, problem: &'static str) -> InstructError {
    InstructError::Field {
        place: place.into(),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Read<Instruct> {
        from_json(
            200,
            &[(b"Content-Type", b"application/grip-instruct")],
            body.as_bytes(),
        )
    }

    #[test]
    fn parses_a_hold_with_every_field() {
        let instruct = read(
            r#"{"hold":{"mode":"stream","timeout":3,
                "channels":[{"name":"a","prev-id":"1","filters":["skip-self"]},{"name":"b"}],
                "keep-alive":{"content-bin":"Cg==","timeout":0,"mode":"interval"},
                "meta":{"user":"alice"}},
              "response":{"code":201,"headers":[["A","1"],["A","2"],["Grip-Hold","x"]],"body":"hello"}}"#,
        )
        .expect("valid");
        assert_eq!(instruct.hold, Hold::Stream);
        assert_eq!(instruct.channels.len(), 2);
        assert_eq!(instruct.channels[0].prev_id.as_deref(), Some(&b"1"[..]));
        assert_eq!(instruct.timeout_s, 5);
        assert_eq!(
            instruct.keep_alive,
            Some(KeepAlive::new(b"\n".to_vec(), 1, KeepAliveMode::Interval))
        );
        assert_eq!(
            instruct.meta.get(&b"user"[..]).map(Vec::as_slice),
            Some(&b"alice"[..])
        );
        assert_eq!(instruct.answer.status, 201);
        assert_eq!(instruct.answer.headers.len(), 2);
        assert_eq!(instruct.answer.body.as_deref(), Some(&b"hello"[..]));
    }

    #[test]
    fn without_hold_only_the_response_changes() {
        let instruct = read(
            r#"{"response":{"body-bin":"AP8=","body":"x","reason":"Fine","headers":{"A":"1"}}}"#,
        )
        .expect("valid");
        assert_eq!(instruct.hold, Hold::Answered);
        assert_eq!(instruct.answer.body.as_deref(), Some(&b"\0\xff"[..]));
        assert_eq!(
            (instruct.answer.status, &instruct.answer.reason[..]),
            (200, &b"Fine"[..])
        );
        assert_eq!(
            read("{}").expect("valid").answer.body.as_deref(),
            Some(&b""[..])
        );
    }

    #[test]
    fn applies_headers_in_addition_to_the_body() {
        let headers: [(&[u8], &[u8]); 3] = [
            (b"Grip-Link", b"</next>; rel=next"),
            (b"Grip-Status", b"202 Later"),
            (b"X-Other", b"not for the client"),
        ];
        let instruct = from_json(200, &headers, br#"{"hold":{"channels":[]}}"#).expect("valid");
        assert!(instruct.next.is_some() && instruct.answer.headers.is_empty());
        assert_eq!(
            (instruct.answer.status, &instruct.answer.reason[..]),
            (202, &b"Later"[..])
        );
    }

    #[test]
    fn error_has_the_invalid_field() {
        for (body, part) in [
            ("", "not valid JSON"),
            ("[]", "must be an object"),
            (r#"{"hold":1}"#, "hold must be an object"),
            (r#"{"hold":{}}"#, "hold.channels"),
            (r#"{"hold":{"channels":{}}}"#, "hold.channels"),
            (
                r#"{"hold":{"channels":[{}]}}"#,
                "hold.channels[0].name is missing",
            ),
            (
                r#"{"hold":{"channels":[{"name":1}]}}"#,
                "hold.channels[0].name must be a text",
            ),
            (r#"{"hold":{"channels":[1]}}"#, "hold.channels[0].name"),
            (
                r#"{"hold":{"channels":[{"name":"a","filters":[1]}]}}"#,
                "filters must be a list",
            ),
            (
                r#"{"hold":{"channels":[{"name":"a","filters":["1","2","3","4","5","6"]}]}}"#,
                "more than 5",
            ),
            (r#"{"hold":{"mode":"held","channels":[]}}"#, "hold.mode"),
            (r#"{"hold":{"channels":[],"timeout":-1}}"#, "hold.timeout"),
            (
                r#"{"hold":{"channels":[],"keep-alive":{"content":""}}}"#,
                "hold.keep-alive has no data",
            ),
            (
                r#"{"hold":{"channels":[],"keep-alive":{"content-bin":"?"}}}"#,
                "content-bin must be base64",
            ),
            (r#"{"hold":{"channels":[],"meta":{"a":1}}}"#, "hold.meta"),
            (r#"{"response":{"code":1000}}"#, "response.code"),
            (r#"{"response":{"reason":"a\r\nb"}}"#, "response.reason"),
            (r#"{"response":{"headers":[["a"]]}}"#, "response.headers"),
            (
                r#"{"response":{"headers":{"a":"b\r\nc: d"}}}"#,
                "cannot stand in a header",
            ),
            (
                r#"{"response":{"headers":{"a b":"c"}}}"#,
                "cannot stand in a header",
            ),
        ] {
            let error = read(body).expect_err(body).to_string();
            assert!(error.contains(part), "{body}: {error}");
        }
        assert_eq!(from_json(500, &[], b"{}"), Err(InstructError::Status(500)));
    }
}
