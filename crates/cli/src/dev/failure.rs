//! Extracts message, file and line from the output of a PHP script that failed, and reads the source around that line.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde::Serialize;

/// Lines of source shown before and after the line of the error.
const AROUND: usize = 6;
/// Maximum size of a source file that is read, and maximum length of a shown line.
const SOURCE_BYTES_MAX: u64 = 4 * 1024 * 1024;
const LINE_CHARS_MAX: usize = 300;

/// Maximum size of a script's exception file.
const THROWN_BYTES_MAX: u64 = 1024 * 1024;

/// Minimum length of a message that identifies an exception by itself; a shorter message may occur in the output by chance.
const MESSAGE_CHARS_MIN: usize = 16;

/// Length of the part of a message that is searched in the output, which may be truncated.
const MESSAGE_BYTES: usize = 200;

/// Exception that the script threw before run(), caught or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thrown {
    class: String,
    message: String,
    file: String,
    line: usize,
}

impl Thrown {
    /// Reads the exceptions that the extension wrote to the file, most recent first.
    pub fn read(path: &Path) -> Vec<Self> {
        let mut bytes = Vec::new();
        if let Ok(file) = fs::File::open(path) {
            let _ = file.take(THROWN_BYTES_MAX).read_to_end(&mut bytes);
        }
        let text = String::from_utf8_lossy(&bytes);
        let parts: Vec<&str> = text.split('\0').collect();
        let of = |it: &[&str]| {
            let [class, message, file, line] = it else {
                return None;
            };
            Some(Self {
                class: (*class).to_owned(),
                message: (*message).to_owned(),
                file: (*file).to_owned(),
                line: line.parse().ok()?,
            })
        };
        parts.chunks(4).filter_map(of).collect()
    }

    /// Returns true if `text`, stripped of whitespace, contains the message. A short message also requires its class or location.
    fn is_in(&self, text: &str) -> bool {
        let message: String = without_blanks(&self.message).take(MESSAGE_BYTES).collect();
        if message.is_empty() || !text.contains(&message) {
            return false;
        }
        let last = |name: &str, separator| {
            let name = name.rsplit(separator).next().unwrap_or_default();
            without_blanks(name).collect::<String>()
        };
        let place = format!("{}line{}", last(&self.file, '/'), self.line);
        message.chars().count() >= MESSAGE_CHARS_MIN
            || text.contains(&last(&self.class, '\\'))
            || text.contains(&place)
    }
}

fn without_blanks(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|it| !it.is_whitespace())
}

/// Error in a PHP script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// PHP's message.
    pub message: String,
    pub file: Option<String>,
    pub line: Option<usize>,
    /// Line numbers and lines around the error.
    pub source: Vec<(usize, String)>,
    /// Complete output.
    pub text: String,
}

impl Failure {
    /// Parses the output of a script, and adds the location from the recorded exceptions: frameworks print exceptions without a
    /// location.
    pub fn of(text: &str, thrown: &[Thrown]) -> Self {
        let failure = Self::of_text(text);
        if failure.file.is_some() {
            return failure;
        }
        let printed: String = without_blanks(text).collect();
        let Some(thrown) = thrown.iter().find(|it| it.is_in(&printed)) else {
            return failure;
        };
        Self {
            message: format!("{}: {}", thrown.class, thrown.message.replace('\n', " ")),
            file: Some(thrown.file.clone()),
            line: Some(thrown.line),
            source: source(Path::new(&thrown.file), thrown.line),
            ..failure
        }
    }

    /// Parses the output that a script printed before it exited.
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

    /// Describes the exit of a running server.
    pub fn ended(exit: &str, startup_output: &str, thrown: &[Thrown]) -> Self {
        if startup_output.trim().is_empty() {
            Self::of_text(&format!("the server has ended: {exit}"))
        } else {
            Self::of(startup_output, thrown)
        }
    }
}

/// Splits `… in FILE on line 3` or `… in FILE:3` into message, file and line.
fn place_of(text: &str) -> Option<(&str, &str, usize)> {
    let (before, place) = text.rsplit_once(" in /")?;
    // Restore the slash, which is part of the path.
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
    fn what_a_framework_prints_is_found_among_what_was_thrown() {
        let thrown = |message: &str, line| Thrown {
            class: "ParseError".to_owned(),
            message: message.to_owned(),
            file: "/srv/app.php".to_owned(),
            line,
        };
        let all = [
            thrown("", 1),
            thrown("syntax error, unexpected end", 2),
            thrown("of before", 3),
        ];
        // Console output of Symfony and Laravel.
        let startup_output = "\nIn app.php line 2:\n\n  syntax error,   \n  unexpected end  \n";
        let failure = Failure::of(startup_output, &all);
        assert_eq!(failure.message, "ParseError: syntax error, unexpected end");
        assert_eq!(failure.file.as_deref(), Some("/srv/app.php"));
        assert_eq!(failure.line, Some(2));
        assert_eq!(
            Failure::of("nothing of it", &all),
            Failure::of_text("nothing of it")
        );
        // A short message matches only together with its class or location.
        let all = [thrown("app", 4)];
        for (startup_output, line) in [
            ("In b.php line 4:\n\n  another app  \n", None),
            ("In app.php line 4:\n\n  app  \n", Some(4)),
            ("   ParseError\n\n  app\n", Some(4)),
        ] {
            assert_eq!(
                Failure::of(startup_output, &all).line,
                line,
                "{startup_output}"
            );
        }
        // PHP's own message with a location takes precedence over recorded exceptions.
        let all = [thrown("of before", 3)];
        let startup_output = "PHP Fatal error:  of before in /srv/b.php on line 7";
        assert_eq!(
            Failure::of(startup_output, &all),
            Failure::of_text(startup_output)
        );
    }

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
