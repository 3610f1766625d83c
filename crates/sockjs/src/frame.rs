//! Frames as SockJS writes them.

use serde_json::Value;

/// Several messages for a client.
pub fn array(messages: &[String]) -> String {
    format!("a{}", Value::from(messages))
}

/// The end of a session.
pub fn close(code: u16, reason: &str) -> String {
    format!("c{}", serde_json::json!([code, reason]))
}

/// Messages of a client. `None`: it is no list of texts.
pub fn messages(json: &[u8]) -> Option<Vec<String>> {
    serde_json::from_slice(json).ok()
}

/// A frame as a script that calls a function.
pub fn script(callback: &str, frame: &str) -> String {
    // These two end a line in scripts of before 2019, but not in JSON.
    let argument = Value::from(frame)
        .to_string()
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    format!("/**/{callback}({argument});\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_json_behind_a_letter() {
        assert_eq!(
            array(&["a\"b".to_owned(), "ü".to_owned()]),
            "a[\"a\\\"b\",\"ü\"]"
        );
        assert_eq!(close(3000, "Go away!"), "c[3000,\"Go away!\"]");
        assert_eq!(
            script("f", "a[\"\u{2028}\"]"),
            "/**/f(\"a[\\\"\\u2028\\\"]\");\n"
        );
    }
}
