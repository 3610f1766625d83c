//! Why a program cannot be served: what PHP says, and the lines of source that it speaks of.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// Lines of source before and behind the one that PHP names.
const AROUND: usize = 6;
/// The longest source that is looked into, and the longest line that is shown.
const SOURCE_BYTES_MAX: u64 = 4 * 1024 * 1024;
const LINE_CHARS_MAX: usize = 300;

/// A mistake in a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// One sentence, PHP's own.
    pub message: String,
    pub file: Option<String>,
    pub line: Option<usize>,
    /// Numbers and lines around that.
    pub source: Vec<(usize, String)>,
    /// Everything that was said.
    pub text: String,
}

impl Failure {
    /// From what a program has printed before it ended.
    pub fn of_text(text: &str) -> Self {
        let is_failure = |line: &&str| line.contains("error:") || line.contains("Exception:");
        let first = text.lines().find(is_failure);
        let first = first.or_else(|| text.lines().find(|line| !line.trim().is_empty()));
        let first = first.unwrap_or_default();
        let place = place_of(first);
        let message = match &place {
            Some((before, ..)) => before,
            None => first,
        };
        let (file, line) = place.map_or((None, None), |(_, file, line)| {
            (Some(file.to_owned()), Some(line))
        });
        let source = match (&file, line) {
            (Some(file), Some(line)) => source(Path::new(file), line),
            _ => Vec::new(),
        };
        Self {
            message: message.trim_start_matches("PHP ").replace(":  ", ": "),
            file,
            line,
            source,
            text: text.trim_end().to_owned(),
        }
    }

    /// A server that ran has ended.
    pub fn ended(exit: &str, said: &str) -> Self {
        match said.trim().is_empty() {
            true => Self::of_text(&format!("the server has ended: {exit}")),
            false => Self::of_text(said),
        }
    }
}

/// What stands before the place, the file and the line: `… in FILE on line 3` or `… in FILE:3`.
fn place_of(text: &str) -> Option<(&str, &str, usize)> {
    let (before, place) = text.rsplit_once(" in /")?;
    // The slash belongs to the name.
    let place = &text[text.len() - place.len() - 1..];
    let (file, line) = place
        .rsplit_once(" on line ")
        .or_else(|| place.rsplit_once(':'))?;
    Some((before, file, line.trim().parse().ok()?))
}

fn source(file: &Path, line: usize) -> Vec<(usize, String)> {
    let is_short = fs::metadata(file).is_ok_and(|it| it.is_file() && it.len() <= SOURCE_BYTES_MAX);
    let bytes = if is_short {
        fs::read(file)
    } else {
        Ok(Vec::new())
    };
    let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
    let first = line.saturating_sub(AROUND).max(1);
    text.lines()
        .enumerate()
        .map(|(index, text)| (index + 1, text.chars().take(LINE_CHARS_MAX).collect()))
        .skip(first - 1)
        .take(line + AROUND + 1 - first)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_in_what_php_says() {
        for (text, message, line) in [
            (
                "PHP Parse error:  syntax error, unexpected token \"}\" in /srv/a b/server.php on line 5",
                "Parse error: syntax error, unexpected token \"}\"",
                Some(5),
            ),
            (
                "a notice\nPHP Fatal error:  Uncaught RuntimeException: no in here in /srv/a b/server.php:7\nStack trace:\n#0 {main}\n  \
                thrown in /srv/a b/server.php on line 9",
                "Fatal error: Uncaught RuntimeException: no in here",
                Some(7),
            ),
            ("address in use\n", "address in use", None),
            ("", "", None),
        ] {
            let failure = Failure::of_text(text);
            assert_eq!(failure.message, message);
            assert_eq!(failure.line, line);
            let file = line.map(|_| "/srv/a b/server.php".to_owned());
            assert_eq!(failure.file, file);
        }
    }
}
