//! Formats numbers for terminals: short and with a stable width.

use crate::error::{Error, at};
use std::io::{self, Write};
use std::process::Command;

/// Formats a count or a rate; from 10,000 on with three digits and an SI prefix.
pub fn count(value: u64) -> String {
    if value < 10_000 {
        return value.to_string();
    }
    scaled(value, &["", "k", "M", "G", "T"])
}

/// Formats a number of bytes in units of powers of 1,000.
pub fn bytes(value: u64) -> String {
    scaled(value, &[" B", " kB", " MB", " GB", " TB"])
}

/// Formats a duration in its two largest units.
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Replaces control characters with `?`, so that untrusted text cannot control the terminal.
pub fn harmless(text: &str) -> String {
    let replace = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(replace).collect()
}

/// Writes to standard output; a closed pipe is not an error.
pub fn print(text: &str) -> Result<(), Error> {
    match io::stdout().write_all(text.as_bytes()) {
        // The reader closed the pipe, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.map_err(at("standard output")),
    }
}

/// Formats a command as a shell command line.
pub fn command(command: &Command) -> String {
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.display(), value?.display())))
        .collect();
    words.push(command.get_program().display().to_string());
    words.extend(command.get_args().map(|it| it.display().to_string()));
    words.join(" ") + "\n"
}

fn scaled(value: u64, units: &[&str]) -> String {
    let mut unit = 0;
    let mut scaled = value as f64;
    // From 999.5 on, rounding would show 1000 of the smaller unit.
    while scaled >= 999.5 && unit + 1 < units.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    let digits = match scaled {
        _ if unit == 0 => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.digits$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_short() {
        for (value, expected) in [
            (0, "0"),
            (9_999, "9999"),
            (10_000, "10.0k"),
            (99_949, "99.9k"),
            (99_950, "100k"),
            (999_499, "999k"),
            (999_500, "1.00M"),
            (20_000_000_000_000_000, "20000T"),
        ] {
            assert_eq!(count(value), expected);
        }
        for (value, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (999_999, "1.00 MB"),
            (16_777_216, "16.8 MB"),
        ] {
            assert_eq!(bytes(value), expected);
        }
    }

    #[test]
    fn durations_have_two_units() {
        for (ms, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (59_999, "59 s"),
            (61_000, "1 m 01 s"),
            (3_661_000, "1 h 01 m"),
            (90_000_000, "1 d 01 h"),
        ] {
            assert_eq!(duration(ms), expected);
        }
    }

    #[test]
    fn channel_names_cannot_steer_the_terminal() {
        assert_eq!(harmless("a\x1b[2Jü\n"), "a?[2Jü?");
    }
}
