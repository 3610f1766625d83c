//! Terminal output of `fermata dev`.

use super::failure::Failure;
use crate::format::harmless;

/// Prints that the server is ready.
pub fn ready(addresses: &str, took_ms: u128, why: &str, is_coloured: bool) {
    let (begin, end) = colours("32", is_coloured);
    eprintln!("{begin}ready{end} at {addresses} in {took_ms} ms{why}");
}

/// Prints the error of a script that could not be served.
pub fn failure(failure: &Failure, has_old: bool, is_coloured: bool) {
    let (begin, end) = colours("31", is_coloured);
    eprintln!("{begin}{}{end}", harmless(&failure.message));
    if let (Some(file), Some(line)) = (&failure.file, failure.line) {
        eprintln!("  {}:{line}\n", harmless(file));
    }
    for (number, text) in &failure.source {
        let is_it = failure.line == Some(*number);
        let (mark, (begin, end)) = if is_it {
            (">", colours("31", is_coloured))
        } else {
            (" ", ("", ""))
        };
        eprintln!(
            "{begin}{mark}{number:5}  {}{end}",
            text.replace('\t', "    ")
        );
    }
    let rest = failure
        .text
        .lines()
        .skip_while(|line| !line.contains("Stack trace"));
    for line in rest {
        eprintln!("  {}", harmless(line));
    }
    eprintln!(
        "{}; waiting for a change",
        if has_old {
            "the previous version keeps serving"
        } else {
            "nothing is served"
        }
    );
}

fn colours(code: &str, is_coloured: bool) -> (&'static str, &'static str) {
    match (is_coloured, code) {
        (true, "31") => ("\x1b[31m", "\x1b[0m"),
        (true, _) => ("\x1b[32m", "\x1b[0m"),
        _ => ("", ""),
    }
}
