//! Renders `docs/reference/settings.md` from the table.

use std::fmt::Write as _;

use crate::Kind;
use crate::table::table;
use crate::value::bytes_text;

/// The whole page, in Markdown.
///
/// The committed file must equal it; `make generate` rewrites the file.
pub fn markdown() -> String {
    let mut page = String::from(HEAD);
    for setting in table() {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "\n### {}\n\n{}\n", setting.name, setting.doc);
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
                Some((class, argument)) => format!("`new {class}({argument}: …)`"),
                None => format!("`{code}`"),
            },
            None => "-".to_owned(),
        };
        let _ = writeln!(
            page,
            "| type | default | range | PHP | INI | environment |\n\
             |---|---|---|---|---|---|\n\
             | {}{unit} | {default} | {} | {code} | `{}` | `{}` |",
            setting.kind.type_name(),
            setting.kind.range(),
            setting.ini_name(),
            setting.environment_name(),
        );
    }
    page
}

const HEAD: &str = "\
# Settings

<!-- Generated from crates/config/src/table.rs by `make generate`; do not edit. -->

Every limit, time-out and address of Fermata is a setting with a default.

A value can be given in four places, and the later one in this list wins:

1. the built-in default,
2. `php.ini` or `php -d`, as `fermata.<name>`,
3. the program, as an argument of `Server`, `Tls`, `Limits`, `History` or `Log`,
4. the environment, as `FERMATA_<NAME>`.

The environment variable `PORT` replaces the port of `listen`, unless `FERMATA_LISTEN` is given too.

Sizes are bytes; the suffixes `k`, `m` and `g` multiply by 1024, 1024² and 1024³.
Durations are milliseconds.

A value that is out of range stops the server at start, with a sentence that names the setting and the range.
So does a name that is almost one of a setting.
Of other environment variables that begin with `FERMATA_` and that nothing reads the log says so; what Kubernetes tells of services is none of them.

`php --ri fermata` prints the values in force.

## All settings
";

#[cfg(test)]
mod tests {
    use super::markdown;

    #[test]
    fn the_committed_page_is_the_rendered_one() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/settings.md"
        );
        fermata_testkit::generated(path, &markdown());
    }
}
