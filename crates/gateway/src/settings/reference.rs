//! Renders docs/reference/hub.md from the table of settings.

use super::table::{Setting, declared};

const HEAD: &str = "# Settings of the hub

<!-- Generated from crates/gateway/src/settings/table.rs by `make generate`; do not edit. -->

Each setting of `fermata hub` is a key of the TOML file that `--config` names.
The later source in this list wins:

1. the built-in default,
2. the file,
3. the environment, with the names of [Reverb](../replace-reverb.md) and [the Mercure hub](../replace-mercure.md),
4. the command line, for the settings in `fermata hub --help`.

The hub does not start with an invalid value: the error has the setting and its valid values.
Sizes are bytes; the suffixes `k`, `m` and `g` multiply by 1024, 1024² and 1024³.
Each application is a table `[[app]]`, and Mercure is a table `[mercure]`.

| Setting | Default | Value | What it does |
|---|---|---|---|
";

#[test]
fn the_committed_reference_is_the_rendered_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/hub.md");
    let rendered = HEAD.to_owned() + &declared().rows.iter().map(row).collect::<String>();
    fermata_testkit::generated(path, &rendered);
}

fn row(setting: &Setting) -> String {
    let default = match setting.default {
        "" => String::new(),
        default => format!("`{default}`"),
    };
    let (name, range) = (setting.name, setting.kind.range());
    format!("| `{name}` | {default} | {range} | {} |\n", setting.doc)
}
