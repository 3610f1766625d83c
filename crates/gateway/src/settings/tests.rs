use fermata_pusher::ClientEvents;
use fermata_pusher::webhook::Kind;

use super::*;
use crate::webhooks::WEBHOOKS_MAX;

#[test]
fn reads_every_setting_from_a_file() {
    let mut settings = Settings::default();
    let text = r#"
        listen = ["127.0.0.1:6001", "[::1]:6001"]
        workers = 2
        connections_max = 50000
        path = "/ws"
        history_path = "/var/lib/hub/history"
        user = "www-data"
        [[app]]
        id = "1"
        key = "key"
        secret = "0123456789abcdef"
        client_events = false
        allowed_origins = ["example.com"]
        event_data_bytes_max = 50000
    "#;
    settings.read_toml("hub.toml", text).expect("settings");
    settings.check().expect("settings");
    assert_eq!(settings.own.listen.len(), 2);
    assert_eq!(
        (settings.own.workers.as_str(), settings.own.path.as_str()),
        ("2", "/ws")
    );
    assert_eq!(settings.own.connections_max, 50_000);
    assert_eq!(settings.own.history_path, "/var/lib/hub/history");
    assert_eq!(
        (settings.own.user.as_str(), settings.own.group.as_str()),
        ("www-data", "")
    );
    assert_eq!(settings.apps[0].client_events, ClientEvents::Refused);
    assert_eq!(settings.event_data_bytes_max(), 50_000);
}

#[test]
fn webhooks_belong_to_an_application() {
    let of = |webhook: &str| {
        let mut settings = Settings::default();
        let text = format!(
            "[[app]]\nid = '1'\nkey = 'k'\nsecret = 's'\nsubscription_counts = true\n{webhook}"
        );
        settings.read_toml("hub.toml", &text).expect(webhook);
        settings.check().map(|()| settings)
    };
    let settings = of(
        "[[app.webhook]]\nurl = 'https://example.com/hook?x=1'\nevents = ['channel_vacated']\nretry_s = 5\n\
         [[app.webhook]]\nurl = 'http://localhost'",
    )
    .expect("settings");
    let app = &settings.apps[0];
    assert!(app.counts_subscriptions);
    assert_eq!(app.webhooks[0].kinds, [Kind::ChannelVacated]);
    assert_eq!((app.webhooks[0].retry_s, app.webhooks[1].retry_s), (5, 300));
    assert_eq!(app.webhooks[1].kinds, Kind::ALL);
    for (webhook, word) in [
        ("[[app.webhook]]\nurl = 'ftp://a'", "http://"),
        ("[[app.webhook]]\nurl = 'http://user:pw@a'", "signed"),
        (
            "[[app.webhook]]\nurl = 'http://a'\ntimeout_ms = 0",
            "timeout_ms",
        ),
    ] {
        let error = of(webhook).expect_err(webhook).to_string();
        assert!(error.contains(word) && !error.contains("pw"), "{error}");
    }
    let many = "[[app.webhook]]\nurl = 'http://a'\n".repeat(WEBHOOKS_MAX + 1);
    assert!(of(&many).is_err());
}

/// Returns the names accepted at a position of the file: the error for an unknown name lists them.
fn names_at(place: &str) -> Vec<String> {
    let mut settings = Settings::default();
    let text = format!("{place}\nno_such_name = 1");
    let error = settings.read_toml("hub.toml", &text).expect_err(&text);
    let error = error.to_string();
    let (_, names) = error.split_once("expected one of ").expect(&error);
    let names = names.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// A message must name only settings that the user can set.
#[test]
fn messages_name_settings_that_exist() {
    // Terms of the Pusher and Mercure protocols, and a setting of the PHP server that the hub may run in.
    const OTHERS: [&str; 13] = [
        "auth_key",
        "auth_signature",
        "auth_timestamp",
        "body_md5",
        "channel_data",
        "event_bytes_max",
        "filter_by_prefix",
        "resource_metadata",
        "socket_id",
        "subscription_count",
        "user_count",
        "user_id",
        "user_info",
    ];
    let mut known: Vec<String> = OTHERS.map(str::to_owned).to_vec();
    known.extend(table::declared().rows.iter().map(|it| it.name.to_owned()));
    for place in ["[[app]]", "[[app]]\n[[app.webhook]]", "[mercure]"] {
        known.extend(names_at(place));
    }
    assert!(known.len() > 40, "{known:?}");
    let crates = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut folders: Vec<_> = ["gateway", "pusher", "mercure"]
        .map(|name| crates.join(name).join("src"))
        .to_vec();
    let (mut named, mut unknown) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.ends_with("tests.rs") {
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("a source");
            for sentence in fermata_testkit::sentences(&source) {
                let words = sentence.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
                // Environment variables are in capitals.
                let words = words.filter(|word| {
                    word.trim_matches('_').contains('_') && word.to_ascii_uppercase() != *word
                });
                for word in words {
                    if known.iter().any(|name| name == word) {
                        named += 1
                    } else {
                        unknown.push(format!("{}: {word}: {sentence}", path.display()))
                    }
                }
            }
        }
    }
    assert_eq!(unknown, Vec::<String>::new());
    assert!(named > 8, "{named}");
}

#[test]
fn errors_have_the_invalid_setting() {
    for (text, word) in [
        (
            "listn = 'x'",
            "listn\" is not a setting; did you mean listen?",
        ),
        ("sockjs_linger_s = 0", "a number from 1 to 3600"),
        ("ping_interval_s = 'often'", "not a whole number"),
        ("connections_max = [1, 2]", "no single value"),
        ("[listen]\na = 1", "listen: use text, a number"),
        ("[[app]]\nid = '1'\nkey = 'k'", "secret"),
        ("[[app]]\nid = 'a/b'\nkey = 'k'\nsecret = 's'", "a/b"),
        ("tls_key = 'x'", "tls_certificate"),
        (
            "[[app]]\nid = '1'\nkey = 'k'\nsecret = 's'\n[[app.webhook]]\nurl = 'http://a'\nevents = ['joined']",
            "member_added",
        ),
    ] {
        let error = Settings::default()
            .read_toml("hub.toml", text)
            .expect_err(text);
        let error = error.to_string();
        assert!(
            error.contains("hub.toml") && error.contains(word),
            "{error}"
        );
    }
    let error = Settings::default().check().expect_err("no application");
    assert!(error.to_string().contains("--app"));
    for text in ["", "1", "1:2", "1:2:"] {
        assert!(parse_app(text).is_err(), "{text}");
    }
}

#[test]
fn reads_mercure_from_its_environment() {
    let variables = [
        ("MERCURE_PUBLISHER_JWT_KEY", "a"),
        ("MERCURE_SUBSCRIBER_JWT_KEY", "b"),
        ("SERVER_NAME", ":3000, http://localhost"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut settings = Settings::default();
    settings.read_environment(variables).expect("settings");
    settings.check().expect("settings");
    assert_eq!(settings.own.listen, ["0.0.0.0:3000", "127.0.0.1:80"]);
    let mut settings = Settings::default();
    let text =
        "[mercure]\npublisher_key = 'a'\nanonymous = true\ncors_origins = '*'\npusher_app = '1'";
    settings.read_toml("hub.toml", text).expect("settings");
    let error = settings.check().expect_err("no such application");
    assert!(error.to_string().contains("pusher_app"));
}

#[test]
fn file_with_only_tls_opens_no_plain_address() {
    let of = |text: &str| {
        let mut settings = Settings::default();
        settings.read_toml("hub.toml", text).expect(text);
        (settings.own.listen, settings.own.listen_tls)
    };
    let tls = "listen_tls = '0.0.0.0:443'\n";
    let list = |address: &str| vec![address.to_owned()];
    assert_eq!(of(""), (list("127.0.0.1:8080"), Vec::new()));
    assert_eq!(of(tls), (Vec::new(), list("0.0.0.0:443")));
    let both = format!("listen = '127.0.0.1:80'\n{tls}");
    assert_eq!(of(&both), (list("127.0.0.1:80"), list("0.0.0.0:443")));
}

#[test]
fn reads_reverb_from_its_environment() {
    let variables = [
        ("REVERB_APP_ID", "1"),
        ("REVERB_APP_KEY", "key"),
        ("REVERB_APP_SECRET", "secret"),
        ("REVERB_SERVER_PORT", "9000"),
        ("REVERB_APP_MAX_MESSAGE_SIZE", "20000"),
        ("REVERB_SCHEME", "https"),
        ("PATH", "/bin"),
    ];
    let of = |variables: &[(&str, &str)]| {
        let mut settings = Settings::default();
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        settings.read_environment(variables).map(|()| settings)
    };
    let settings = of(&variables).expect("settings");
    assert_eq!(settings.own.listen, ["0.0.0.0:9000"]);
    assert_eq!(settings.apps[0].limits.message_bytes_max, 20_000);
    assert!(of(&variables[..2]).is_err());
    assert!(of(&[("REVERB_APP_PING_INTERVAL", "often")]).is_err());
}
