//! Tests that every exported function consists of one `guard` or `ask` call (`abi.rs`), and that `unsafe` blocks stay
//! few and documented.

use std::path::Path;

use crate::abi::FmRequest;

/// Maximum number of `unsafe` blocks: the converters, and pointer-length pairs in structs from C.
const UNSAFE_BLOCKS_MAX: usize = 30;

/// Name of this file. The tests skip it, because it contains the patterns for which they search.
const THIS_FILE: &str = "gate.rs";

fn sources() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = std::fs::read_dir(folder).expect("the sources of the crate");
    files
        .map(|file| file.expect("a file").path())
        .filter(|path| !path.ends_with(THIS_FILE))
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a source");
            (path.display().to_string(), text)
        })
        .collect()
}

/// Returns the index of the bracket that closes the one at the start of `text`. Brackets in strings must be balanced.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    panic!("a bracket is not closed: {text}");
}

/// Returns true if the body is only a call of `guard` or `ask`. With `result`, the body returns a value after the
/// call.
fn is_gated(body: &str) -> bool {
    let body = body.trim();
    let (call, result) = match body.strip_prefix("let mut ") {
        None => (body, None),
        Some(rest) => {
            let (result, call) = rest
                .split_once(" = None;")
                .expect("a result that is not there yet");
            (call.trim(), Some(result))
        }
    };
    let Some(arguments) = call
        .strip_prefix("guard")
        .or_else(|| call.strip_prefix("ask"))
    else {
        return false;
    };
    if !arguments.starts_with('(') {
        return false;
    }
    let rest = arguments[closing(arguments) + 1..]
        .trim_start_matches(';')
        .trim();
    rest == result.unwrap_or("")
}

#[test]
fn every_export_is_gated() {
    let mut exports = 0;
    for (path, text) in sources() {
        for (at, _) in text.match_indices("extern \"C\" fn ") {
            let export = &text[at..];
            let name = &export["extern \"C\" fn ".len()..export.find('(').expect("parameters")];
            let open = export.find("{\n").expect("a body");
            let body = &export[open..][1..closing(&export[open..])];
            assert!(
                is_gated(body),
                "{path}: {name} does not go through guard() or ask()"
            );
            exports += 1;
        }
    }
    assert!(exports > 100, "{exports} exports were found");
}

#[test]
fn unsafe_stays_in_few_places() {
    let blocks: usize = sources()
        .iter()
        .map(|(_, text)| text.matches("unsafe {").count())
        .sum();
    assert!(blocks <= UNSAFE_BLOCKS_MAX, "{blocks} blocks of unsafe");
}

#[test]
fn a_missing_object_is_no_crash() {
    assert_eq!(crate::fm_next_event(None, None), crate::FM_INTERNAL);
    assert_eq!(
        crate::fm_respond(None, FmRequest::NONE, None),
        crate::FM_INTERNAL
    );
    assert!(!crate::fm_worker_is_draining(None));
    crate::fm_worker_free(None);
}
