//! Rules that find a session's id in a request. A rule applies a JSON pointer to the body, or to a field of a form in the body.

use fermata_grip::instruct::SessionDetect;
use fermata_grip::value::{Value, map};

use crate::form::pairs;
use crate::state::id::SessionId;

/// Encodes a rule for the service.
pub fn write(domain: &str, rule: &SessionDetect) -> Value {
    let text = |text: &[u8]| Value::Bytes(text.to_vec());
    let mut written = map([
        ("domain", domain.into()),
        ("path-prefix", text(&rule.path_prefix)),
        ("sid-ptr", text(&rule.sid_pointer)),
    ]);
    if let (Some(param), Value::Map(entries)) = (&rule.json_param, &mut written) {
        entries.push((b"json-param".to_vec(), text(param)));
    }
    written
}

/// Decodes the valid rules in the service's response.
pub fn read(value: &Value) -> Vec<SessionDetect> {
    let Value::List(rules) = value else {
        return Vec::new();
    };
    let text = |rule: &Value, name| rule.get(name).and_then(Value::bytes).map(<[u8]>::to_vec);
    let rule = |rule: &Value| {
        Some(SessionDetect {
            path_prefix: text(rule, "path-prefix")?,
            sid_pointer: text(rule, "sid-ptr")?,
            json_param: text(rule, "json-param").filter(|it| !it.is_empty()),
        })
    };
    rules.iter().filter_map(rule).collect()
}

/// Finds the id in a body. An id that is invalid in a header is ignored.
pub fn find(rule: &SessionDetect, body: &[u8]) -> Option<SessionId> {
    let json = match &rule.json_param {
        None => body.to_vec(),
        Some(param) => pairs(body).find_map(|(name, value)| (name == *param).then_some(value))?,
    };
    let json: serde_json::Value = serde_json::from_slice(&json).ok()?;
    let pointer = std::str::from_utf8(&rule.sid_pointer).ok()?;
    SessionId::new(json.pointer(pointer)?.as_str()?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pointer: &str, param: Option<&str>) -> SessionDetect {
        SessionDetect {
            path_prefix: b"/a".to_vec(),
            sid_pointer: pointer.into(),
            json_param: param.map(Into::into),
        }
    }

    #[test]
    fn finds_the_id_at_the_pointer() {
        for (pointer, param, body, expected) in [
            ("/a/b", None, r#"{"a":{"b":"x"}}"#, Some("x")),
            ("/0/sid", None, r#"[{"sid":"x"}]"#, Some("x")),
            (
                "/sid",
                Some("message"),
                "y=1&message=%7B%22sid%22%3A+%22x%22%7D",
                Some("x"),
            ),
            ("/sid", Some("message"), "other=%7B%7D", None),
            ("/sid", None, r#"{"sid":1}"#, None),
            ("/sid", None, r#"{"sid":""}"#, None),
            ("/sid", None, r#"{"sid":"a\r\nB: c"}"#, None),
            ("sid", None, r#"{"sid":"x"}"#, None),
            ("/sid", None, "no JSON", None),
        ] {
            let found = find(&rule(pointer, param), body.as_bytes());
            let found = found.as_ref().map(SessionId::as_str);
            assert_eq!(found, expected, "{pointer} {body}");
        }
    }

    #[test]
    fn rules_round_trip() {
        let rules = [rule("/a", None), rule("/b", Some("p"))];
        let written = rules.iter().map(|rule| write("host", rule)).collect();
        assert_eq!(read(&Value::List(written)), rules);
        assert_eq!(read(&Value::List(vec![Value::Null, map([])])), []);
        assert_eq!(read(&Value::Null), []);
    }
}
