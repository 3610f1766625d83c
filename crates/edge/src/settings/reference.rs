//! Renders docs/reference/edge.md from the table of settings.

use super::{Kind, Setting, table};

const HEAD: &str = "# Settings of the edge

<!-- Generated from crates/edge/src/settings/table.rs by `make generate`; do not edit. -->

A later source in this list overrides the earlier ones:

1. the default,
2. a file: `--config FILE` (TOML, with these names as keys), or `--pushpin-config DIR`, Pushpin's own folder,
3. the environment, as `FERMATA_EDGE_NAME`; lists are separated by spaces,
4. the command line, as `--name` with `-` for `_`; lists by repeating the option.

An invalid value stops the edge at the start, with a message that names the setting and its range.
Sizes are bytes; the suffixes `k`, `m` and `g` multiply by 1024, 1024² and 1024³.
Durations are milliseconds.

| Setting | Default | Value | In `pushpin.conf` | What it does |
|---|---|---|---|---|
";

#[test]
fn the_committed_reference_is_the_rendered_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/edge.md");
    let rendered = HEAD.to_owned() + &table().iter().map(row).collect::<String>();
    fermata_testkit::generated(path, &rendered);
}

fn row(setting: &Setting) -> String {
    let default = match setting.default {
        "" => String::new(),
        default => format!("`{default}`"),
    };
    let kind = match setting.kind {
        Kind::Choice(names) => names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", "),
        Kind::Secret => "a text".to_owned(),
        kind => kind.range(),
    };
    let pushpin = match setting.alias {
        None => String::new(),
        Some((section, key, 1)) => format!("`[{section}] {key}`"),
        Some((section, key, _)) => format!("`[{section}] {key}`, in seconds"),
    };
    let doc = setting.doc.replace('|', "\\|");
    format!(
        "| `{}` | {default} | {kind} | {pushpin} | {doc} |\n",
        setting.name
    )
}
