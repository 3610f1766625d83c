//! Environment variables of Reverb and the Mercure hub, and their effect here.
//!
//! Users replace either server by changing one command. A variable without effect is therefore reported at the start.
//! If ignoring it would make the server differ from what was requested, the start is refused.

use std::collections::HashMap;

use fermata_config::{Place, nearest};
use fermata_pusher::{App, ClientEvents};

use super::Settings;
use crate::written::SettingsError;

/// Effect of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The variable is a setting.
    Taken,
    /// The variable is for the backend, for web pages, or for a part of Reverb or the Mercure hub that does not exist here.
    Elsewhere,
    /// The variable has no effect, which is reported at the start with this reason.
    Noted(&'static str),
    /// The hub does not start if the variable is on, for this reason.
    Refused(&'static str),
}

use Meaning::{Elsewhere, Noted, Refused, Taken};

const BY_APPLICATION: &str = "limits of an application are settings of its [[app]]";
/// Maximum number of unknown variables that are reported.
const UNKNOWN_MAX: usize = 8;

const CADDYS: &str = "it configures Caddy";

/// Variables of Reverb's `config/reverb.php`.
const REVERB: [(&str, Meaning); 24] = [
    ("REVERB_APP_ID", Taken),
    ("REVERB_APP_KEY", Taken),
    ("REVERB_APP_SECRET", Taken),
    ("REVERB_APP_PING_INTERVAL", Taken),
    ("REVERB_APP_ACTIVITY_TIMEOUT", Taken),
    ("REVERB_APP_MAX_MESSAGE_SIZE", Taken),
    ("REVERB_APP_MAX_CONNECTIONS", Taken),
    ("REVERB_APP_ACCEPT_CLIENT_EVENTS_FROM", Taken),
    ("REVERB_SERVER_HOST", Taken),
    ("REVERB_SERVER_PORT", Taken),
    ("REVERB_SERVER_PATH", Taken),
    // Address of the server for the page and the backend.
    ("REVERB_HOST", Elsewhere),
    ("REVERB_PORT", Elsewhere),
    ("REVERB_SCHEME", Elsewhere),
    // The name of the only server of the configuration.
    ("REVERB_SERVER", Elsewhere),
    ("REVERB_SCALING_CHANNEL", Elsewhere),
    ("REVERB_PULSE_INGEST_INTERVAL", Elsewhere),
    ("REVERB_TELESCOPE_INGEST_INTERVAL", Elsewhere),
    (
        "REVERB_SCALING_ENABLED",
        Refused(
            "several hubs share channels through a log: set FERMATA_CLUSTER=redis://HOST:6379 (or nats://HOST:4222) instead",
        ),
    ),
    (
        "REVERB_MAX_REQUEST_SIZE",
        Noted("event_data_bytes_max and batch_events_max determine the size of a request"),
    ),
    (
        "REVERB_APP_RATE_LIMITING_ENABLED",
        Noted("client_events_per_second of an [[app]] limits client events"),
    ),
    ("REVERB_APP_RATE_LIMIT_MAX_ATTEMPTS", Noted(BY_APPLICATION)),
    ("REVERB_APP_RATE_LIMIT_DECAY_SECONDS", Noted(BY_APPLICATION)),
    ("REVERB_APP_RATE_LIMIT_TERMINATE", Noted(BY_APPLICATION)),
];

/// Variables of the Mercure hub's Caddyfile and documentation, and of `symfony/mercure`.
const MERCURE: [(&str, Meaning); 16] = [
    ("MERCURE_PUBLISHER_JWT_KEY", Taken),
    ("MERCURE_PUBLISHER_JWT_ALG", Taken),
    ("MERCURE_SUBSCRIBER_JWT_KEY", Taken),
    ("MERCURE_SUBSCRIBER_JWT_ALG", Taken),
    ("MERCURE_PUBLISHER_JWKS_URL", Taken),
    ("MERCURE_SUBSCRIBER_JWKS_URL", Taken),
    ("MERCURE_EXTRA_DIRECTIVES", Taken),
    ("MERCURE_PROTOCOL_VERSION", Taken),
    ("SERVER_NAME", Taken),
    // URL to which the backend publishes, URL at which its pages subscribe, and the secret for its tokens.
    ("MERCURE_URL", Elsewhere),
    ("MERCURE_PUBLIC_URL", Elsewhere),
    ("MERCURE_JWT_SECRET", Elsewhere),
    (
        "MERCURE_TRANSPORT_URL",
        Noted(
            "history_bytes_max limits the history, in memory or, if history_path is set, in a file that outlives restarts",
        ),
    ),
    ("GLOBAL_OPTIONS", Noted(CADDYS)),
    ("CADDY_EXTRA_CONFIG", Noted(CADDYS)),
    ("CADDY_SERVER_EXTRA_DIRECTIVES", Noted(CADDYS)),
];

impl Settings {
    /// Reads the environment variables of Reverb and the Mercure hub.
    ///
    /// # Errors
    /// A variable is invalid. The message contains its name.
    pub fn read_environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), SettingsError> {
        let known: HashMap<String, String> = variables
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .collect();
        let is_reverb = ["REVERB_APP_ID", "REVERB_APP_KEY", "REVERB_APP_SECRET"]
            .iter()
            .any(|name| known.contains_key(*name));
        if is_reverb {
            let variables = &REVERB;
            look(variables, &known, &mut self.notes)?;
            look_for_unknown("REVERB_", variables, &known, &mut self.notes);
        }
        self.read_mercure_environment(&known)?;
        let get = |name: &str| known.get(name).map(String::as_str);
        let number = |name: &str| match get(name).map(str::parse::<u64>) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => Err(SettingsError::new(format!(
                "{name}: \"{}\" is not a number",
                get(name).unwrap_or_default().escape_debug()
            ))),
        };
        if get("REVERB_SERVER_HOST").is_some() || get("REVERB_SERVER_PORT").is_some() {
            let host = get("REVERB_SERVER_HOST").unwrap_or("0.0.0.0");
            let port = get("REVERB_SERVER_PORT").unwrap_or("8080");
            self.own.listen = vec![format!("{host}:{port}")];
        }
        for (variable, name) in [
            ("REVERB_SERVER_PATH", "path"),
            ("REVERB_APP_PING_INTERVAL", "ping_interval_s"),
            ("REVERB_APP_ACTIVITY_TIMEOUT", "activity_timeout_s"),
        ] {
            if let Some(value) = get(variable) {
                self.set(Place::Variable(variable), name, &[value.to_owned()])?;
            }
        }
        match (
            get("REVERB_APP_ID"),
            get("REVERB_APP_KEY"),
            get("REVERB_APP_SECRET"),
        ) {
            (None, None, None) => {}
            (Some(id), Some(key), Some(secret)) => {
                let mut app = App::new(id, key, secret)
                    .map_err(|error| SettingsError::new(error.to_string()))?;
                if let Some(bytes) = number("REVERB_APP_MAX_MESSAGE_SIZE")? {
                    app.limits.message_bytes_max = bytes as usize;
                    app.limits.event_data_bytes_max = bytes as usize;
                }
                if let Some(max) = number("REVERB_APP_MAX_CONNECTIONS")? {
                    app.limits.connections_max = Some(max);
                }
                if let Some(from) = get("REVERB_APP_ACCEPT_CLIENT_EVENTS_FROM") {
                    app.client_events = client_events_of(from)?;
                }
                self.apps.push(app);
            }
            _ => {
                return Err(SettingsError::new(
                    "REVERB_APP_ID, REVERB_APP_KEY and REVERB_APP_SECRET belong together; set all three".to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn read_mercure_environment(
        &mut self,
        known: &HashMap<String, String>,
    ) -> Result<(), SettingsError> {
        let is_set = [
            "MERCURE_PUBLISHER_JWT_KEY",
            "MERCURE_SUBSCRIBER_JWT_KEY",
            "MERCURE_PUBLISHER_JWKS_URL",
            "MERCURE_SUBSCRIBER_JWKS_URL",
        ]
        .iter()
        .any(|name| known.contains_key(*name));
        if !is_set && self.mercure.is_none() {
            return Ok(());
        }
        let variables = &MERCURE;
        look(variables, known, &mut self.notes)?;
        look_for_unknown("MERCURE_", variables, known, &mut self.notes);
        let mercure = self.mercure.get_or_insert_default();
        mercure.read_environment(known, &mut self.notes)?;
        mercure.choose_version()?;
        if let Some(name) = known.get("SERVER_NAME").filter(|_| is_set) {
            match listen_of(name) {
                Some(listen) => self.own.listen = listen,
                None => self.notes.push(format!(
                    "SERVER_NAME: {} has no port and no http://, and certificates are not fetched; give --listen",
                    name.escape_debug()
                )),
            }
        }
        Ok(())
    }
}

/// Returns the listen addresses for the `SERVER_NAME` of the Mercure hub; `None` if `SERVER_NAME` does not determine them.
fn listen_of(server_name: &str) -> Option<Vec<String>> {
    let address = |name: &str| {
        let (name, is_plain) = match name.strip_prefix("http://") {
            Some(name) => (name, true),
            None => (name.strip_prefix("https://").unwrap_or(name), false),
        };
        let (host, port) = match name.rsplit_once(':') {
            Some((host, port)) => (host, port.parse::<u16>().ok()?),
            None if is_plain => (name, 80),
            None => return None,
        };
        let is_local = host == "localhost" || host.starts_with("127.");
        let host = if is_local { "127.0.0.1" } else { "0.0.0.0" };
        Some(format!("{host}:{port}"))
    };
    let names = server_name.split([',', ' ']).filter(|it| !it.is_empty());
    names.map(address).collect()
}

/// Parses Reverb's setting for client events.
fn client_events_of(from: &str) -> Result<ClientEvents, SettingsError> {
    match from {
        "members" => Ok(ClientEvents::Members),
        "none" => Ok(ClientEvents::Refused),
        other => Err(SettingsError::new(format!(
            "REVERB_APP_ACCEPT_CLIENT_EVENTS_FROM: \"{}\": use members or none; only subscribers of a channel can send to it",
            other.escape_debug()
        ))),
    }
}

/// Reports set variables that are not settings here.
///
/// # Errors
/// A variable requests something that is not supported.
fn look(
    variables: &[(&str, Meaning)],
    known: &HashMap<String, String>,
    notes: &mut Vec<String>,
) -> Result<(), SettingsError> {
    for (name, meaning) in variables {
        let Some(value) = known.get(*name) else {
            // Not set.
            continue;
        };
        match meaning {
            Taken | Elsewhere => {}
            Noted(reason) => notes.push(format!("{name} changes nothing here: {reason}")),
            Refused(reason) if is_on(value) => {
                return Err(SettingsError::new(format!("{name}: {reason}")));
            }
            Refused(_) => {}
        }
    }
    Ok(())
}

/// Reports unknown variables with a server's prefix, because a mistyped variable would have no effect.
fn look_for_unknown(
    prefix: &str,
    variables: &[(&str, Meaning)],
    known: &HashMap<String, String>,
    notes: &mut Vec<String>,
) {
    // Directives may refer to variables chosen by the user.
    let directives = known.get("MERCURE_EXTRA_DIRECTIVES");
    let is_known = |name: &str| {
        variables.iter().any(|(it, _)| *it == name)
            || directives.is_some_and(|it| it.contains(name))
    };
    let mut unknown: Vec<&String> = known
        .keys()
        .filter(|name| name.starts_with(prefix) && !is_known(name))
        .collect();
    unknown.sort_unstable();
    for name in unknown.into_iter().take(UNKNOWN_MAX) {
        let meant = nearest(name, variables.iter().map(|(name, _)| *name));
        let text = match meant.filter(|(_, changes)| changes * 3 <= name.len() - prefix.len() + 3) {
            Some((meant, _)) => format!("did you mean {meant}?"),
            None => "unknown variable".to_owned(),
        };
        notes.push(format!(
            "{} changes nothing here: {text}",
            name.escape_debug()
        ));
    }
}

/// Parses a boolean like Laravel's `env()`.
fn is_on(value: &str) -> bool {
    let off = ["0", "false", "(false)", "no", "off", "null", "(null)"];
    !off.iter().any(|it| value.eq_ignore_ascii_case(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variables that an application and a Mercure hub need.
    const NEEDED: [(&str, &str); 5] = [
        ("REVERB_APP_ID", "1"),
        ("REVERB_APP_KEY", "key"),
        ("REVERB_APP_SECRET", "secret"),
        ("MERCURE_PUBLISHER_JWT_KEY", "a"),
        ("MERCURE_SUBSCRIBER_JWT_KEY", "b"),
    ];

    /// Every other supported variable, with a value that differs from the default.
    const VALUES: [(&str, &str); 15] = [
        ("REVERB_APP_PING_INTERVAL", "7"),
        ("REVERB_APP_ACTIVITY_TIMEOUT", "8"),
        ("REVERB_APP_MAX_MESSAGE_SIZE", "20001"),
        ("REVERB_APP_MAX_CONNECTIONS", "9"),
        ("REVERB_APP_ACCEPT_CLIENT_EVENTS_FROM", "none"),
        ("REVERB_SERVER_HOST", "192.0.2.1"),
        ("REVERB_SERVER_PORT", "9001"),
        ("REVERB_SERVER_PATH", "/ws"),
        ("MERCURE_PUBLISHER_JWT_ALG", "HS384"),
        ("MERCURE_SUBSCRIBER_JWT_ALG", "HS512"),
        ("MERCURE_PUBLISHER_JWKS_URL", "https://a.example/keys"),
        ("MERCURE_SUBSCRIBER_JWKS_URL", "https://a.example/keys"),
        ("MERCURE_EXTRA_DIRECTIVES", "anonymous"),
        ("MERCURE_PROTOCOL_VERSION", "0.x"),
        ("SERVER_NAME", ":3001"),
    ];

    fn all() -> impl Iterator<Item = (&'static str, Meaning)> {
        REVERB.into_iter().chain(MERCURE)
    }

    fn read(more: &[(&str, &str)]) -> Result<Settings, String> {
        let variables = NEEDED.iter().chain(more);
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut settings = Settings::default();
        settings
            .read_environment(variables)
            .map_err(|error| error.to_string())?;
        settings.check().map_err(|error| error.to_string())?;
        Ok(settings)
    }

    #[test]
    fn uses_or_reports_every_variable() {
        let plain = read(&[]).expect("settings");
        assert_eq!(plain.notes, [""; 0]);
        for (name, meaning) in all() {
            let value = VALUES.iter().find(|(it, _)| *it == name);
            let value = value.map_or("1", |(_, value)| *value);
            let found = read(&[(name, value)]);
            match meaning {
                Taken => {
                    let is_needed = NEEDED.iter().any(|(it, _)| *it == name);
                    let found = found.expect(name);
                    // The debug output does not contain the algorithm of a key, so check that an unsupported one is refused.
                    let changed = if name.ends_with("_ALG") {
                        read(&[(name, "none")]).is_err()
                    } else {
                        format!("{found:?}") != format!("{plain:?}")
                    };
                    assert!(is_needed || changed, "{name} changes nothing");
                    assert_eq!(found.notes, plain.notes, "{name}");
                }
                Elsewhere => {
                    let found = found.expect(name);
                    assert_eq!(format!("{found:?}"), format!("{plain:?}"), "{name}");
                }
                Noted(reason) => {
                    let notes = found.expect(name).notes;
                    assert_eq!(notes.len(), 1, "{name}");
                    assert!(
                        notes[0].contains(name) && notes[0].contains(reason),
                        "{notes:?}"
                    );
                }
                Refused(reason) => {
                    let error = found.expect_err(name);
                    assert!(error.contains(name) && error.contains(reason), "{error}");
                    for off in ["false", "0", "(false)", "FALSE"] {
                        assert!(read(&[(name, off)]).is_ok(), "{name}={off}");
                    }
                }
            }
        }
        for (name, _) in VALUES.iter().chain(&NEEDED) {
            assert!(all().any(|it| it == (*name, Taken)), "{name}");
        }
    }

    #[test]
    fn every_variable_is_documented() {
        let pages = ["replace-reverb.md", "replace-mercure.md"].map(|name| {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/");
            std::fs::read_to_string(format!("{path}{name}")).expect("a page of ours")
        });
        for (page, variables) in pages.iter().zip([&REVERB[..], &MERCURE[..]]) {
            for (name, _) in variables {
                assert!(page.contains(&format!("`{name}`")), "{name}");
            }
        }
    }

    #[test]
    fn suggests_names_for_mistyped_variables() {
        let notes = |name| read(&[(name, "1")]).expect("settings").notes;
        for (name, meant) in [
            (
                "REVERB_APP_MAX_CONNECTION",
                "did you mean REVERB_APP_MAX_CONNECTIONS?",
            ),
            (
                "MERCURE_PUBLISHER_JWT_ALGO",
                "did you mean MERCURE_PUBLISHER_JWT_ALG?",
            ),
            ("MERCURE_DEMO", "unknown variable"),
        ] {
            let notes = notes(name);
            assert!(
                notes.len() == 1 && notes[0].contains(name) && notes[0].ends_with(meant),
                "{notes:?}"
            );
        }
    }

    #[test]
    fn ignores_variables_of_a_server_that_is_not_replaced() {
        let variables = [("GLOBAL_OPTIONS", "debug"), ("REVERB_SCALING_ENABLED", "1")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut settings = Settings::default();
        settings.read_environment(variables).expect("settings");
        assert_eq!(settings.notes, [""; 0]);
    }

    #[test]
    fn accepts_only_safe_settings_for_client_events() {
        let of = |value| read(&[("REVERB_APP_ACCEPT_CLIENT_EVENTS_FROM", value)]);
        let client_events = |value| of(value).map(|it| it.apps[0].client_events);
        use fermata_pusher::ClientEvents;
        assert_eq!(client_events("members"), Ok(ClientEvents::Members));
        assert_eq!(client_events("none"), Ok(ClientEvents::Refused));
        for value in ["all", "x"] {
            let error = of(value).expect_err(value);
            assert!(error.contains("members"), "{error}");
        }
    }
}
