//! Encodes and decodes SockJS frames.

use serde_json::Value;

/// Encodes several messages for a client.
pub fn array(messages: &[String]) -> String {
    format!("a{}", Value::from(messages))
}

/// Encodes the end of a session.
pub fn close(code: u16, reason: &str) -> String {
    format!("c{}", serde_json::json!([code, reason]))
}

/// Decodes a client's messages. `None`: the text is not a list of texts.
pub fn messages(json: &[u8]) -> Option<Vec<String>> {
    serde_json::from_slice(json).ok()
}

/// Encodes a frame as a script that calls a function.
pub fn script(callback: &str, frame: &str) -> String {
    // These two characters are line ends in JavaScript before ECMAScript 2019, but not in JSON.
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
    fn frames_are_a_letter_and_json() {
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
