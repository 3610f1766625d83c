//! Signatures that an application's backend makes with its secret.
//!
//! Each is an HMAC-SHA256 in lower-case hexadecimal digits, compared in constant time.

use std::fmt::Write;

use md5::{Digest, Md5};
use ring::hmac;

use crate::App;

/// Signs a text with an application's secret.
pub fn sign(app: &App, text: &[u8]) -> String {
    hex(hmac::sign(app.secret.key(), text).as_ref())
}

/// Returns true if the signature of the text is valid.
pub fn is_signed(app: &App, text: &[u8], signature: &str) -> bool {
    unhex(signature)
        .is_some_and(|signature| hmac::verify(app.secret.key(), text, &signature).is_ok())
}

/// Returns the `auth` of a subscription: `KEY:SIGNATURE`. `data` is the `channel_data` of a presence channel.
pub fn subscription(app: &App, socket_id: &str, channel: &str, data: Option<&str>) -> String {
    let signature = sign(app, &subscription_text(socket_id, channel, data));
    format!("{}:{signature}", app.key)
}

/// Returns true if the application has signed the subscription.
pub fn allows_subscription(
    app: &App,
    auth: &str,
    socket_id: &str,
    channel: &str,
    data: Option<&str>,
) -> bool {
    is_signed_by_key(app, auth, &subscription_text(socket_id, channel, data))
}

/// Returns the `auth` of a sign-in: `KEY:SIGNATURE`.
pub fn user(app: &App, socket_id: &str, user_data: &str) -> String {
    let signature = sign(app, &user_text(socket_id, user_data));
    format!("{}:{signature}", app.key)
}

/// Returns true if the application has signed the user.
pub fn allows_user(app: &App, auth: &str, socket_id: &str, user_data: &str) -> bool {
    is_signed_by_key(app, auth, &user_text(socket_id, user_data))
}

/// Returns the signed text of a request to the HTTP API: method, path, and all query parameters except the signature,
/// with names in lower case and sorted.
pub fn request_text(method: &str, path: &str, query: &[(String, String)]) -> String {
    let mut sorted: Vec<(String, &str)> = query
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
        .filter(|(name, _)| name != "auth_signature")
        .collect();
    sorted.sort();
    let query: Vec<String> = sorted
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    format!("{method}\n{path}\n{}", query.join("&"))
}

/// Returns the MD5 of a body in hexadecimal digits. This hash is not secret. It binds the signed query to the body.
pub fn body_md5(body: &[u8]) -> String {
    hex(Md5::digest(body).as_slice())
}

fn subscription_text(socket_id: &str, channel: &str, data: Option<&str>) -> Vec<u8> {
    match data {
        Some(data) => format!("{socket_id}:{channel}:{data}"),
        None => format!("{socket_id}:{channel}"),
    }
    .into_bytes()
}

fn user_text(socket_id: &str, user_data: &str) -> Vec<u8> {
    format!("{socket_id}::user::{user_data}").into_bytes()
}

fn is_signed_by_key(app: &App, auth: &str, text: &[u8]) -> bool {
    auth.split_once(':')
        .is_some_and(|(key, signature)| key == app.key && is_signed(app, text, signature))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string never fails.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|it| it as u8);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes()
        .chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in Pusher's documentation.
    fn documented() -> App {
        App::new("3", "278d425bdf160c739803", "7ad3773142a6692b25b8").expect("an application")
    }

    #[test]
    fn subscriptions_are_signed_as_documented() {
        let app = documented();
        let auth = subscription(&app, "1234.1234", "private-foobar", None);
        assert_eq!(
            auth,
            "278d425bdf160c739803:58df8b0c36d6982b82c3ecf6b4662e34fe8c25bba48f5369f135bf843651c3a4"
        );
        assert!(allows_subscription(
            &app,
            &auth,
            "1234.1234",
            "private-foobar",
            None
        ));
        assert!(!allows_subscription(
            &app,
            &auth,
            "1234.1235",
            "private-foobar",
            None
        ));
        assert!(!allows_subscription(
            &app,
            &auth,
            "1234.1234",
            "private-foobaz",
            None
        ));
        assert!(!allows_subscription(
            &app,
            &auth,
            "1234.1234",
            "private-foobar",
            Some("{}")
        ));
    }

    #[test]
    fn presence_is_signed_with_its_data() {
        let app = documented();
        let data = r#"{"user_id":10,"user_info":{"name":"Mr. Channels"}}"#;
        let auth = subscription(&app, "1234.1234", "presence-foobar", Some(data));
        assert_eq!(
            auth,
            "278d425bdf160c739803:31935e7d86dba64c2a90aed31fdc61869f9b22ba9d8863bba239c03ca481bc80"
        );
    }

    #[test]
    fn users_are_signed_as_documented() {
        let app = documented();
        let data = r#"{"id":"12345"}"#;
        let auth = user(&app, "1234.1234", data);
        assert!(allows_user(&app, &auth, "1234.1234", data));
        assert!(!allows_user(&app, &auth, "1234.1234", r#"{"id":"12346"}"#));
        // A signature for a channel is not valid for a user.
        let auth = subscription(&app, "1234.1234", "user", Some(data));
        assert!(!allows_user(&app, &auth, "1234.1234", data));
    }

    #[test]
    fn requests_are_signed_as_documented() {
        let app = documented();
        let body = br#"{"name":"foo","channels":["project-3"],"data":"{\"some\":\"data\"}"}"#;
        let md5 = body_md5(body);
        assert_eq!(md5, "ec365a775a4cd0599faeb73354201b6f");
        let query = [
            ("auth_key", "278d425bdf160c739803"),
            ("auth_timestamp", "1353088179"),
            ("auth_version", "1.0"),
            ("body_md5", &md5),
            ("auth_signature", "left out"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let text = request_text("POST", "/apps/3/events", &query);
        assert_eq!(
            sign(&app, text.as_bytes()),
            "da454824c97ba181a32ccc17a72625ba02771f50b50e1e7430e47a1f3f457e6c"
        );
    }

    #[test]
    fn rejects_malformed_signatures() {
        let app = documented();
        for auth in [
            "",
            ":",
            "278d425bdf160c739803",
            "278d425bdf160c739803:",
            "278d425bdf160c739803:zz",
            "other:58",
            "278d425bdf160c739803:é",
        ] {
            assert!(
                !allows_subscription(&app, auth, "1.1", "private-x", None),
                "{auth}"
            );
        }
    }
}
