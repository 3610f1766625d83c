use serde_json::json;

use super::*;
use crate::{App, auth};

const NOW_S: u64 = 1_700_000_000;

fn apps() -> Vec<App> {
    vec![
        App::new("1", "key", "0123456789abcdef").expect("an application"),
        App::new("2", "other", "fedcba9876543210").expect("an application"),
    ]
}

/// Returns a request target that is signed as backends sign it.
fn signed(app: &App, method: &str, path: &str, more: &[(&str, &str)], body: &[u8]) -> String {
    let mut query: Vec<(String, String)> = [
        ("auth_key", app.key.as_str()),
        ("auth_timestamp", &NOW_S.to_string()),
        ("auth_version", "1.0"),
    ]
    .iter()
    .chain(more)
    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
    .collect();
    if !body.is_empty() {
        query.push(("body_md5".to_owned(), auth::body_md5(body)));
    }
    let text = auth::request_text(method, path, &query);
    query.push((
        "auth_signature".to_owned(),
        auth::sign(app, text.as_bytes()),
    ));
    let query: Vec<String> = query
        .iter()
        .map(|(name, value)| format!("{name}={}", value.replace('#', "%23")))
        .collect();
    format!("{path}?{}", query.join("&"))
}

fn ask(apps: &[App], method: &str, target: &str, body: &[u8]) -> Result<Call, u16> {
    let question = Question {
        method,
        target,
        body,
        unix_s: NOW_S,
    };
    read(apps, &question)
        .expect("a path of the API")
        .map(|(_, call)| call)
        .map_err(|error| error.status)
}

fn publish(body: &Value) -> Result<Call, u16> {
    let (apps, body) = (apps(), body.to_string());
    let target = signed(&apps[0], "POST", "/apps/1/events", &[], body.as_bytes());
    ask(&apps, "POST", &target, body.as_bytes())
}

#[test]
fn publishes_an_event_to_its_channels() {
    let call = publish(&json!({
        "name": "order", "data": "{\"a\":1}", "channels": ["private-a", "b"], "socket_id": "1.2", "info": "subscription_count",
    }));
    let event = Event {
        name: "order".to_owned(),
        data: "{\"a\":1}".to_owned(),
        channels: vec!["private-a".to_owned(), "b".to_owned()],
        except: Some("1.2".to_owned()),
        wants: Wants {
            subscription_count: true,
            ..Wants::default()
        },
    };
    assert_eq!(
        call,
        Ok(Call::Publish {
            events: vec![event],
            is_batch: false
        })
    );
}

#[test]
fn rejects_values_beyond_limits() {
    let many: Vec<String> = (0..101).map(|at| format!("c{at}")).collect();
    for (body, status) in [
        (json!({"data": "x", "channel": "a"}), 400),
        (json!({"name": "x", "channel": "a"}), 400),
        (json!({"name": "x", "data": "x"}), 400),
        (json!({"name": "x", "data": "x", "channels": []}), 400),
        (json!({"name": "x", "data": "x", "channels": many}), 400),
        (json!({"name": "x", "data": "x", "channel": "a b"}), 400),
        (
            json!({"name": "x", "data": "x", "channel": "a", "channels": ["b"]}),
            400,
        ),
        (
            json!({"name": "x".repeat(201), "data": "x", "channel": "a"}),
            400,
        ),
        (
            json!({"name": "pusher:error", "data": "x", "channel": "a"}),
            400,
        ),
        (
            json!({"name": "pusher_internal:member_added", "data": "x", "channel": "a"}),
            400,
        ),
        (
            json!({"name": "x\u{1f}root", "data": "x", "channel": "a"}),
            400,
        ),
        (
            json!({"name": "x", "data": "x".repeat(10_241), "channel": "a"}),
            413,
        ),
        (
            json!({"name": "x", "data": "x", "channel": "a", "socket_id": "1.2.3"}),
            400,
        ),
        (
            json!({"name": "x", "data": "x", "channel": "a", "info": "weather"}),
            400,
        ),
        (json!([]), 400),
    ] {
        assert_eq!(publish(&body), Err(status), "{body:.80}");
    }
}

#[test]
fn bounds_a_batch() {
    let apps = apps();
    let of = |count| {
        let batch: Vec<Value> = (0..count)
            .map(|at| json!({"name": "x", "data": at, "channel": "a"}))
            .collect();
        let body = json!({"batch": batch}).to_string();
        let target = signed(
            &apps[0],
            "POST",
            "/apps/1/batch_events",
            &[],
            body.as_bytes(),
        );
        ask(&apps, "POST", &target, body.as_bytes())
    };
    assert!(matches!(of(10), Ok(Call::Publish { events, is_batch: true }) if events.len() == 10));
    assert_eq!(of(11), Err(400));
}

#[test]
fn accepts_only_signatures_of_the_application() {
    let apps = apps();
    let body = br#"{"name":"x","data":"x","channel":"a"}"#;
    let path = "/apps/1/events";
    let target = signed(&apps[0], "POST", path, &[], body);
    assert!(ask(&apps, "POST", &target, body).is_ok());
    let later = format!("auth_timestamp={}", NOW_S + 1);
    let now = format!("auth_timestamp={NOW_S}");
    for (target, body) in [
        // Signed for another application, not at all, or for another body, path, method or time.
        (signed(&apps[1], "POST", path, &[], body), &body[..]),
        (path.to_owned(), body),
        (target.clone(), br#"{"name":"y","data":"x","channel":"a"}"#),
        (
            signed(&apps[0], "POST", "/apps/1/batch_events", &[], body)
                .replace("batch_events", "events"),
            body,
        ),
        (signed(&apps[0], "GET", path, &[], body), body),
        (target.replace(&now, &later), body),
        (target.replace("&body_md5=", "&body_md6="), body),
    ] {
        assert_eq!(ask(&apps, "POST", &target, body), Err(401), "{target}");
    }
    // A repeated parameter is refused.
    assert_eq!(
        ask(&apps, "POST", &format!("{target}&auth_key=other"), body),
        Err(400)
    );
    // A body without a signed hash is refused.
    let unsigned = signed(&apps[0], "POST", path, &[], b"");
    assert_eq!(ask(&apps, "POST", &unsigned, body), Err(401));
}

#[test]
fn rejects_an_old_signature() {
    let apps = apps();
    let target = signed(&apps[0], "GET", "/apps/1/channels", &[], b"");
    for (unix_s, is_near) in [
        (NOW_S - 601, false),
        (NOW_S - 600, true),
        (NOW_S + 600, true),
        (NOW_S + 601, false),
    ] {
        let question = Question {
            method: "GET",
            target: &target,
            body: b"",
            unix_s,
        };
        let outcome = read(&apps, &question).expect("a path of the API");
        assert_eq!(outcome.is_ok(), is_near, "{unix_s}");
    }
}

#[test]
fn parses_requests_about_channels() {
    let apps = apps();
    let get = |path: &str, more: &[(&str, &str)]| {
        ask(&apps, "GET", &signed(&apps[0], "GET", path, more, b""), b"")
    };
    let users = Wants {
        user_count: true,
        ..Wants::default()
    };
    assert_eq!(
        get(
            "/apps/1/channels",
            &[("filter_by_prefix", "presence-"), ("info", "user_count")]
        ),
        Ok(Call::Channels {
            prefix: "presence-".to_owned(),
            wants: users
        })
    );
    assert_eq!(get("/apps/1/channels", &[("info", "user_count")]), Err(400));
    assert_eq!(
        get("/apps/1/channels/presence-a", &[("info", "user_count")]),
        Ok(Call::Channel {
            channel: "presence-a".to_owned(),
            wants: users
        })
    );
    assert_eq!(
        get("/apps/1/channels/a", &[("info", "user_count")]),
        Err(400)
    );
    assert_eq!(
        get("/apps/1/channels/presence-a/users", &[]),
        Ok(Call::Users {
            channel: "presence-a".to_owned()
        })
    );
    assert_eq!(get("/apps/1/channels/a/users", &[]), Err(400));
    assert_eq!(get("/apps/1/connections", &[]), Ok(Call::Connections));
    assert_eq!(get("/apps/1/weather", &[]), Err(404));
    assert_eq!(get("/apps/1/events", &[]), Err(405));
    let path = "/apps/1/users/a+b%40c/terminate_connections";
    let target = signed(&apps[0], "POST", path, &[], b"");
    assert_eq!(
        ask(&apps, "POST", &target, b""),
        Ok(Call::Terminate {
            user: "a+b@c".to_owned()
        })
    );
    let question = Question {
        method: "GET",
        target: "/",
        body: b"",
        unix_s: NOW_S,
    };
    assert!(read(&apps, &question).is_none());
    assert_eq!(ask(&apps, "GET", "/apps/9/channels", b""), Err(404));
}

#[test]
fn responses_have_the_requested_attributes() {
    let state = ChannelState {
        subscriptions: 3,
        users: Some(2),
        cache: None,
    };
    let all = Wants {
        user_count: true,
        subscription_count: true,
        cache: true,
    };
    let answer: Value = serde_json::from_str(&channel_answer(&state, all)).expect("JSON");
    assert_eq!(
        answer,
        json!({"occupied": true, "user_count": 2, "subscription_count": 3})
    );
    let answer = channels_answer(&[("a".to_owned(), state)], Wants::default());
    assert_eq!(answer, r#"{"channels":{"a":{}}}"#);
    assert_eq!(users_answer(&["7".to_owned()]), r#"{"users":[{"id":"7"}]}"#);
}

#[test]
fn rejects_many_parameters_before_comparing_them() {
    let names: Vec<String> = (0..33).map(|number| format!("n{number}")).collect();
    let target = |count: usize| format!("/apps/1/channels?{}", names[..count].join("&"));
    assert_eq!(ask(&apps(), "GET", &target(32), b""), Err(401));
    assert_eq!(ask(&apps(), "GET", &target(33), b""), Err(400));
}
