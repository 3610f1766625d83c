//! Reads a `pushpin.conf`. Keys without counterpart are returned as notices.

use std::collections::BTreeMap;
use std::fmt;

use fermata_config::Place;

use super::{Kind, SettingError, Settings, table};

/// A key without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Name of the file.
    pub place: String,
    /// Line number, from 1.
    pub line: usize,
    /// Section and key.
    pub key: String,
    /// Reason why the key has no effect.
    pub reason: &'static str,
}

impl fmt::Display for Notice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}, line {}: {} has no effect: {}",
            self.place, self.line, self.key, self.reason
        )
    }
}

/// Keys without counterpart, and the reasons.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    (
        "global.include",
        "sockets between processes do not exist here",
    ),
    ("global.port_offset", "ports are given as they are"),
    ("runner.services", "there are no separate services"),
    ("runner.logdir", "the log goes to standard error"),
    ("proxy.updates_check", "the edge does not look for updates"),
    (
        "proxy.organization_name",
        "the edge does not look for updates",
    ),
    ("proxy.max_open_requests", "connections_max bounds them"),
    (
        "proxy.stats_connections_max_ttl",
        "a report covers its own interval",
    ),
    ("proxy.stats_report_interval", "[handler] has the same key"),
    ("proxy.prometheus_port", "[handler] has the same key"),
    ("proxy.prometheus_prefix", "[handler] has the same key"),
];

/// Other names of keys. These are older names, and names that Pushpin up to 1.40 reads instead of
/// the documented names.
const ALIASES: &[(&str, &str)] = &[
    ("handler.push_in_sub_spec", "handler.push_in_sub_specs"),
    (
        "handler.push_in_max_headers_size",
        "handler.push_in_http_max_headers_size",
    ),
    (
        "handler.push_in_max_body_size",
        "handler.push_in_http_max_body_size",
    ),
];

/// Reads a file into `settings`; `place` is its name. Returns the keys without effect.
///
/// # Errors
/// A line is not valid in an INI file, or a value is invalid.
pub fn read_pushpin(
    settings: &mut Settings,
    place: &str,
    text: &str,
) -> Result<Vec<Notice>, SettingError> {
    let entries = entries(place, text)?;
    let text_of = |key: &str| {
        entries
            .iter()
            .rev()
            .find(|entry| entry.key == key)
            .map(|entry| entry.value.as_str())
    };
    let variables = BTreeMap::from([
        (
            "{rundir}",
            text_of("global.rundir")
                .or(text_of("runner.rundir"))
                .unwrap_or("run"),
        ),
        (
            "{ipc_prefix}",
            text_of("global.ipc_prefix").unwrap_or("pushpin-"),
        ),
    ]);
    let mut notices = Vec::new();
    // Pushpin logs requests always.
    settings.set(Place::File(place), "log_requests", &["true".to_owned()])?;
    for Entry { line, key, value } in &entries {
        let value = variables.iter().fold(value.clone(), |value, (name, text)| {
            value.replace(name, text)
        });
        let place = format!("{place}, line {line}");
        let alias = ALIASES.iter().find(|(alias, _)| alias == key);
        let key = alias.map_or(key.as_str(), |(_, name)| name);
        let row = table().iter().find(|setting| {
            setting
                .alias
                .is_some_and(|(section, name, _)| key.split_once('.') == Some((section, name)))
        });
        match (row, key) {
            (Some(setting), _) => {
                let (_, _, factor) = setting.alias.unwrap_or(("", "", 1));
                let values = values(setting.name, setting.kind, factor, &value);
                settings.set(Place::File(&place), setting.name, &values)?;
            }
            (None, "global.rundir" | "global.ipc_prefix" | "runner.rundir") => {}
            (None, "handler.push_in_http_addr" | "handler.push_in_http_port") => {
                let host = text_of("handler.push_in_http_addr").unwrap_or("127.0.0.1");
                let port = text_of("handler.push_in_http_port").unwrap_or("5561");
                settings.set(Place::File(&place), "control", &[format!("{host}:{port}")])?;
            }
            (None, key) => {
                let reason = WITHOUT_EFFECT
                    .iter()
                    .find(|(known, _)| *known == key)
                    .map(|(_, reason)| *reason);
                let fallback = match key {
                    key if key.ends_with("_bin") => "no other programs are started",
                    key if key.ends_with("_spec") || key.ends_with("_specs") => {
                        "sockets between processes do not exist here"
                    }
                    key if key.ends_with("ipc_file_mode") => {
                        "sockets have the mode that the umask leaves"
                    }
                    _ => "it is not known here",
                };
                notices.push(Notice {
                    place: place.split(", line").next().unwrap_or_default().to_owned(),
                    line: *line,
                    key: key.to_owned(),
                    reason: reason.unwrap_or(fallback),
                });
            }
        }
    }
    Ok(notices)
}

/// Converts a value to the format of the edge's settings.
fn values(name: &str, kind: Kind, factor: u64, value: &str) -> Vec<String> {
    let value = value.trim();
    match kind {
        Kind::Lines => {
            let parts = value
                .split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty());
            match name {
                "listen" | "listen_tls" => parts.map(address).collect(),
                _ => parts.map(str::to_owned).collect(),
            }
        }
        Kind::Count { .. } | Kind::Bytes { .. } | Kind::Milliseconds { .. } => {
            match value.parse::<u64>() {
                Ok(number) => vec![number.saturating_mul(factor).to_string()],
                // If there are levels per service, the first one is used.
                Err(_) if name == "log_level" => {
                    vec![value.split(',').next().unwrap_or_default().to_owned()]
                }
                Err(_) => vec![value.to_owned()],
            }
        }
        Kind::Line if name == "prometheus" && !value.is_empty() && !value.starts_with("unix:") => {
            vec![address(value)]
        }
        _ => vec![value.to_owned()],
    }
}

/// Returns the address; a port alone listens on every address, as in Pushpin.
fn address(text: &str) -> String {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("0.0.0.0:{text}")
    } else {
        text.to_owned()
    }
}

struct Entry {
    line: usize,
    /// `section.key`.
    key: String,
    value: String,
}

fn entries(place: &str, text: &str) -> Result<Vec<Entry>, SettingError> {
    let (mut entries, mut section) = (Vec::new(), String::new());
    for (at, line) in text.lines().enumerate() {
        let wrong = |problem: &str| SettingError::File {
            place: format!("{place}, line {}", at + 1),
            problem: problem.to_owned(),
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            section = name
                .strip_suffix(']')
                .ok_or_else(|| wrong("a section ends with ]"))?
                .trim()
                .to_owned();
            continue;
        }
        let (key, value) = line
            .split_once('=')
            .ok_or_else(|| wrong("neither [SECTION] nor KEY=VALUE"))?;
        let value = value.trim();
        let value = value
            .strip_prefix('"')
            .and_then(|value| value.strip_suffix('"'))
            .unwrap_or(value);
        entries.push(Entry {
            line: at + 1,
            key: format!("{section}.{}", key.trim()),
            value: value.to_owned(),
        });
    }
    Ok(entries)
}
