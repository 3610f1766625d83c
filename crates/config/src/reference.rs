//! Generates `docs/reference/settings.md` from the table.

use std::fmt::Write as _;

use crate::Kind;
use crate::table::table;
use crate::value::bytes_text;

/// Returns the complete page in Markdown.
///
/// The committed file must match; `make generate` updates the file.
pub fn markdown() -> String {
    let mut page = String::from(HEAD);
    for setting in table() {
        // Writing to a String cannot fail.
        if let Some((_, title)) = GROUPS.iter().find(|(first, _)| *first == setting.name) {
            let _ = writeln!(page, "\n## {title}");
        }
        let default = match (setting.default, setting.kind) {
            ("", _) => "empty".to_owned(),
            (text, Kind::Bytes { .. }) => match text.parse() {
                Ok(bytes) => bytes_text(bytes),
                Err(_) => text.to_owned(),
            },
            (text, _) => text.to_owned(),
        };
        let unit = match setting.kind.unit() {
            "" => String::new(),
            unit => format!(" in {unit}"),
        };
        let code = match setting.alias {
            Some(code) => match code.split_once(' ') {
                Some((class, argument)) => format!(", `new {class}({argument}: …)`"),
                None => format!(", `{code}`"),
            },
            None => String::new(),
        };
        let _ = writeln!(
            page,
            "\n### {}\n\n{}\n\n`{}`{code}: {}{unit}, default {default}; {}",
            setting.name,
            setting.doc,
            setting.environment_name(),
            setting.kind.type_name(),
            setting.kind.range(),
        );
    }
    page
}

/// First setting and title of each section, in the order of the table.
const GROUPS: [(&str, &str); 14] = [
    ("listen", "Addresses, TLS and HTTP/2"),
    ("workers", "Processes"),
    ("cluster", "Several machines"),
    ("control", "Publishing, proxies and edges"),
    ("io", "Event loop and logs"),
    ("otlp_endpoint", "Traces"),
    ("connections_max", "Requests and responses"),
    ("compression", "Compression"),
    ("keep_alive_ms", "Held clients and WebSockets"),
    ("channels_per_hold_max", "Channels and history"),
    ("fibers_max", "Handlers and tasks"),
    ("file_io", "Files"),
    ("members_max", "Presence"),
    ("publish_wait_ms_max", "Supervision"),
];

const HEAD: &str = "\
# Settings

<!-- Generated from crates/config/src/table.rs by `make generate`; do not edit. -->

Every limit, time-out and address is a setting with a default. A later source in this list overrides the earlier ones:

1. the default,
2. `php.ini` or `php -d`, as `fermata.NAME`,
3. the script, as an argument of `Server`, `Tls`, `Limits`, `History`, `Log` or `AccessLog`,
4. the environment, as `FERMATA_NAME`.

`PORT` in the environment replaces the port of `listen`, unless `FERMATA_LISTEN` is set.
Sizes are bytes; the suffixes `k`, `m` and `g` multiply by 1024, 1024² and 1024³. Durations are milliseconds.
A value out of range stops the server at the start, and so does a misspelled name. The log warns about other variables that begin with `FERMATA_`.
`php --ri fermata` prints the values in force.
";

#[cfg(test)]
mod tests {
    use super::{GROUPS, markdown};
    use crate::table::table;

    #[test]
    fn every_section_begins_with_a_setting_of_the_table() {
        let positions = GROUPS.map(|(first, _)| table().iter().position(|it| it.name == first));
        assert!(positions.iter().all(Option::is_some));
        assert!(positions.is_sorted());
    }

    #[test]
    fn the_committed_page_is_the_rendered_one() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/settings.md"
        );
        fermata_testkit::generated(path, &markdown());
    }
}
