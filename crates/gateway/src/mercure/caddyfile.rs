//! Words and durations in the syntax of a Caddyfile.

use std::collections::HashMap;

/// Splits a line of a Caddyfile into words. Quotes group a word, `#` starts a comment, `{$NAME}` and `{env.NAME}` are
/// replaced by variables.
pub(super) fn words_of(line: &str, known: &HashMap<String, String>) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == '#' {
            break;
        }
        let (word, after) = match first {
            '"' | '`' => {
                let inside = &rest[1..];
                inside.split_once(first).unwrap_or((inside, ""))
            }
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                rest.split_at(end)
            }
        };
        let inside = word.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        let variable = inside.and_then(|it| it.strip_prefix("env.").or(it.strip_prefix('$')));
        words.push(match variable {
            Some(text) => {
                let (name, default) = text.split_once(':').unwrap_or((text, ""));
                known
                    .get(name)
                    .cloned()
                    .unwrap_or_else(|| default.to_owned())
            }
            None => word.to_owned(),
        });
        rest = after.trim_start();
    }
    words
}

/// Parses a Caddy duration: `40s`, `1m30s`, `500ms`; 0 needs no unit.
pub(super) fn duration_ms(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let mut rest = text;
    let mut sum = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].find(|it: char| it.is_ascii_digit());
        let (unit, after) = rest[digits..].split_at(unit.unwrap_or(rest.len() - digits));
        let ms = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        sum = sum.checked_add(number.checked_mul(ms)?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_durations() {
        for (text, ms) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("40s", Some(40_000)),
            ("1h1ms", Some(3_600_001)),
        ] {
            assert_eq!(duration_ms(text), ms, "{text}");
        }
        for text in ["", "s", "1", "1x", "-1s", "99999999999999999999s"] {
            assert_eq!(duration_ms(text), None, "{text}");
        }
    }
}
