//! Writes `ext/fermata_core.h`, the C side of the ABI, from `crates/ffi`.
//!
//! `fermata-header` rewrites the file. `fermata-header --check` only compares and fails on a
//! difference, so CI detects a changed ABI whose header was not regenerated.

#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use cbindgen::{Builder, Config, Language, Style};

const NOTE: &str = "/* The C ABI between ext/ and the Rust core.\n   \
                    Generated from crates/ffi by `make generate`; do not edit.\n\n   \
                    A pointer is NULL or valid. Objects (FmServer, FmWorker, FmOpenFile, ...) come from a function here and\n   \
                    are not used any more once they are freed or consumed; inputs, their strings and arrays stay as they\n   \
                    are until the function returns; a place for an answer may be NULL and need not hold anything. A\n   \
                    function that is not given an object or input it needs returns FM_INTERNAL, or as after a panic. */";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let header_path = root.join("ext/fermata_core.h");
    let header = header(&root.join("crates/ffi"))?;
    let committed = std::fs::read_to_string(&header_path).unwrap_or_default();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] if committed == header => {}
        [] => std::fs::write(&header_path, header)?,
        ["--check"] if committed == header => {}
        ["--check"] => {
            eprintln!("ext/fermata_core.h is old: run `make generate`");
            return Ok(ExitCode::FAILURE);
        }
        _ => {
            eprintln!("usage: fermata-header [--check]");
            return Ok(ExitCode::from(2));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the text of the header for the crate in this folder.
fn header(crate_path: &Path) -> Result<String, Box<dyn Error>> {
    let mut config = Config {
        language: Language::C,
        style: Style::Both,
        header: Some(NOTE.to_owned()),
        pragma_once: true,
        no_includes: true,
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h"]
            .map(str::to_owned)
            .to_vec(),
        usize_is_size_t: true,
        line_length: 100,
        ..Config::default()
    };
    // Constants become preprocessor macros, so that C can use them in #if and case labels.
    config.constant.allow_static_const = false;
    let bindings = Builder::new()
        .with_crate(crate_path)
        .with_config(config)
        .generate()?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    Ok(String::from_utf8(text)?)
}
