//! Fuzz targets: properties that hold for any input.

use crate::api::{self, Question};
use crate::connection::{Connection, Outcome};
use crate::{App, frame};

/// Feeds a client's messages: replies are JSON, and the limits hold.
///
/// # Panics
/// If a property is violated.
pub fn connection(input: &[u8]) {
    let Ok(app) = App::new("1", "key", "secret") else {
        return;
    };
    let mut connection = Connection::new();
    for (at, message) in input.split(|byte| *byte == 0).enumerate() {
        match connection.on_message(&app, "1.2", message, at as u64) {
            Outcome::Reply(text) => {
                assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
            }
            Outcome::Publish(event) => {
                let mut out = Vec::new();
                frame::event(&mut out, &event.channel, &event.name, &event.data, None);
                assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok());
            }
            _ => {}
        }
        assert!(connection.channels().count() <= app.limits.channels_per_connection_max);
    }
}

/// Handles requests of a backend, and checks that each request without a signature is refused.
///
/// # Panics
/// If a property is violated.
pub fn api(input: &[u8]) {
    let Ok(app) = App::new("1", "key", "secret") else {
        return;
    };
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let (target, body) = text.split_once('\n').unwrap_or((text, ""));
    for target in [target, &format!("/apps/1/{target}")] {
        let question = Question {
            method: "POST",
            target,
            body: body.as_bytes(),
            unix_s: 0,
        };
        if let Some(outcome) = api::read(std::slice::from_ref(&app), &question) {
            assert!(outcome.is_err());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn properties_hold_for_any_bytes(input in proptest::collection::vec(any::<u8>(), 0..400)) {
            super::connection(&input);
            super::api(&input);
        }

        #[test]
        fn properties_hold_for_any_text(input in r#"(\{"event":"(pusher:subscribe|client-a|pusher:signin)","channel":"a","data":\{"channel":"[a-c]"\}\}\x00?|.){0,20}"#) {
            super::connection(input.as_bytes());
            super::api(input.as_bytes());
        }
    }
}
