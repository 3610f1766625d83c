//! Forged ids of sockets, of sessions and of events.

use std::collections::HashSet;

use fermata_pusher::auth;
use fermata_pusher::socket_id::{SECRET_BITS, SocketId};
use serde_json::{Value, json};

use crate::hub::{Client, Hub};

/// Number of connections whose ids are compared. A random bit is equal in all of them with a
/// probability of 2^-63.
const CONNECTIONS: usize = 64;

/// Number of guessed ids after a known one, for which the attacker has signatures.
const GUESSES: u64 = 192;

fn parsed(client: &Client) -> SocketId {
    SocketId::parse(&client.id).expect("an id of this server")
}

#[test]
fn socket_ids_have_unpredictable_bits() {
    let hub = Hub::start(&[]);
    let clients: Vec<Client> = (0..CONNECTIONS).map(|_| hub.client()).collect();
    let ids: Vec<SocketId> = clients.iter().map(parsed).collect();
    let secrets: HashSet<u64> = ids.iter().map(|id| id.secret).collect();
    assert_eq!(secrets.len(), CONNECTIONS, "no two connections share them");
    for bit in 0..SECRET_BITS {
        let ones = ids.iter().filter(|id| id.secret >> bit & 1 == 1).count();
        assert!(
            (1..CONNECTIONS).contains(&ones),
            "bit {bit} is the same in all"
        );
        // No bit is always equal to, or always different from, this bit of the previous connection.
        let same = ids.windows(2);
        let same = same.filter(|pair| (pair[0].secret ^ pair[1].secret) >> bit & 1 == 0);
        let same = same.count();
        assert!(
            (1..CONNECTIONS - 1).contains(&same),
            "bit {bit} repeats or alternates"
        );
    }
    // The id consists of these parts only, so the signed text contains the complete id.
    for (client, id) in clients.iter().zip(&ids) {
        assert_eq!(client.id, id.to_string());
    }
}

#[test]
fn signatures_made_for_other_ids_beforehand_are_refused() {
    let hub = Hub::start(&[]);
    let known = parsed(&hub.client());
    let guess = |step: u64| SocketId {
        socket: known.socket.wrapping_add(step),
        ..known
    };
    let texts: HashSet<String> = (0..GUESSES).map(|step| guess(step).to_string()).collect();
    for _ in 0..CONNECTIONS {
        assert!(!texts.contains(&hub.client().id));
    }
    // An id with a different secret is another id, so its signature is invalid for this client.
    let mut client = hub.client();
    let own = parsed(&client);
    let almost = SocketId {
        secret: own.secret ^ 1,
        ..own
    };
    let auth = auth::subscription(&hub.app, &almost.to_string(), "private-a", None);
    client.send_event(
        "pusher:subscribe",
        &json!({"channel": "private-a", "auth": auth}),
    );
    let frame = client.next();
    let codes = [&frame["data"]["code"], &frame["data"]["status"]];
    assert!(
        codes.contains(&&json!(4009)) || codes.contains(&&json!(401)),
        "{frame}"
    );
    client.subscribe(&hub, "private-a", None);
}

#[test]
fn ids_of_events_that_are_none_are_gaps_or_malformed() {
    let hub = Hub::start(&[]);
    let mut witness = hub.client();
    witness.subscribe(&hub, "news", None);
    hub.publish("news", "before", "0");
    let valid = witness.next()["id"].as_str().expect("an id").to_owned();
    let (epoch, number) = valid.rsplit_once('-').expect("an id is EPOCH-NUMBER");
    let mut ids: Vec<Value> = [
        "",
        "-",
        "18446744073709551616",
        // 2^64 in base 36.
        &format!("{epoch}-3w5e11264sgsg"),
        &format!("3w5e11264sgsg-{number}"),
        &format!("{epoch}-0{number}"),
        &format!("{valid}\u{0}"),
        &format!("{valid}\u{e9}"),
        &"9".repeat(4_000),
    ]
    .iter()
    .map(|id| json!(id))
    .collect();
    ids.extend([
        json!(1),
        json!(1e300),
        json!([valid]),
        json!({"id": valid}),
        json!(true),
    ]);
    for id in ids {
        let mut client = hub.client();
        client.send_event(
            "pusher:subscribe",
            &json!({"channel": "news", "fermata:since": id}),
        );
        let first = client.next();
        if !id.is_string() {
            assert_eq!(first["event"], "pusher:error", "{id}: {first}");
            assert_eq!(first["data"]["code"], 4200, "{id}: {first}");
            // The connection stays open.
            client.subscribe(&hub, "news", None);
            continue;
        }
        assert_eq!(
            first["event"], "pusher_internal:subscription_succeeded",
            "{id}: {first}"
        );
        let gap = client.next();
        assert_eq!(gap["event"], "fermata:gap", "{id}: {gap}");
        hub.publish("news", "live", "1");
        while client.next()["event"] != "live" {}
    }
}

#[test]
fn refuses_requests_of_other_origins_in_a_session() {
    let hub = Hub::start(&[]);
    let own = [("Origin", "https://page.example")];
    // Each of three workers has some sessions, and most requests reach a worker without the
    // session.
    for session in 0..9 {
        let path = |transport: &str| {
            format!(
                "/pusher/app/app-key/1/s{session}/{transport}?protocol=7&client=js&version=8.6.0"
            )
        };
        let post = |transport: &str, headers: &[(&str, &str)], body: &str| {
            let mut connection = hub.connect();
            connection.request("POST", &path(transport), headers, body.as_bytes())
        };
        assert_eq!(post("xhr", &own, "").text(), "o\n");
        for origin in ["https://other.example", "http://page.example", "null"] {
            let other = [("Origin", origin)];
            let ping = r#"["{\"event\":\"pusher:ping\",\"data\":{}}"]"#;
            for (transport, body) in [("xhr", ""), ("xhr_streaming", ""), ("xhr_send", ping)] {
                let response = post(transport, &other, body);
                assert_eq!(
                    response.status(),
                    403,
                    "{origin} {transport}: {}",
                    response.text()
                );
            }
        }
        // The rejected requests consumed no message of the session.
        let established = post("xhr", &own, "");
        assert!(
            established.text().contains("connection_established"),
            "{}",
            established.text()
        );
    }
}
