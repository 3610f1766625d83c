//! Masks secrets in printed text; every log line and every settings error passes through [`mask_secrets`].

use std::borrow::Cow;

/// Replacement for a secret.
const MASK: &str = "***";

/// Names whose values are secrets, in lower case with `_` instead of `-`.
const NAMES: [&str; 14] = [
    "auth",
    "jwt",
    "key",
    "pass",
    "passwd",
    "password",
    "pin",
    "pwd",
    "secret",
    "sig",
    "signature",
    "token",
    "apikey",
    "credentials",
];

/// Suffixes of names whose values are secrets.
const ENDINGS: [&str; 6] = [
    "_key",
    "_pass",
    "_password",
    "_secret",
    "_token",
    "password",
];

/// Headers whose values are secrets, in lower case.
const HEADERS: [&str; 6] = [
    "authorization",
    "cookie",
    "grip-sig",
    "proxy-authorization",
    "set-cookie",
    "x-api-key",
];

/// Replaces secrets in `text` with `***`: passwords in URLs (`scheme://user:password@host`), values of known names (`key=…`,
/// `"token": "…"`, `password=…` in a DSN) and headers with credentials.
///
/// Secrets are found by their names; a secret in running text without a name is not masked.
#[must_use]
pub fn mask_secrets(text: &str) -> Cow<'_, str> {
    let mut masked = String::new();
    let mut copied = 0;
    let mut at = 0;
    // Start of the line that contains `at`. `looked_at` is the end of the text that was searched for line ends, so that no text is
    // searched twice.
    let (mut line, mut looked_at) = (0, 0);
    while let Some(found) = text[at..].find(['=', ':', '>']) {
        at += found + 1;
        if let Some(end) = text[looked_at..at].rfind('\n') {
            line = looked_at + end + 1;
        }
        looked_at = at;
        let (before, rest) = (&text[copied.max(line)..at - 1], &text[at..]);
        let Some((skip, len)) = secret_behind(before, text.as_bytes()[at - 1], rest) else {
            continue;
        };
        if len > 0 && !rest[skip..].starts_with(MASK) {
            masked.push_str(&text[copied..at + skip]);
            masked.push_str(MASK);
            copied = at + skip + len;
        }
        at += skip + len;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    masked.push_str(&text[copied..]);
    Cow::Owned(masked)
}

/// Returns offset and length of a secret in `rest`, which follows `before` and `separator`.
fn secret_behind(before: &str, separator: u8, rest: &str) -> Option<(usize, usize)> {
    if separator == b':' && rest.starts_with('/') {
        // Path normalization may have removed one of the two slashes of the URL.
        let slashes = 1 + usize::from(rest[1..].starts_with('/'));
        return password_of_url(&rest[slashes..]).map(|(start, len)| (start + slashes, len));
    }
    let blanks = rest.len() - rest.trim_start_matches(' ').len();
    let unquoted = before.trim_end_matches(' ').trim_end_matches(['"', '\'']);
    let is_quoted = unquoted.len() < before.trim_end_matches(' ').len();
    if separator == b':' && is_header(unquoted) {
        let value = &rest[blanks..];
        let opening = value.len() - value.trim_start_matches(['"', '\'', '[']).len();
        let value = &value[opening..];
        let len = value.find(['\n', '\r', '"', '\'']).unwrap_or(value.len());
        // A token contains more than lower-case letters. Lower-case letters only are probably a sentence about the header.
        let word = value[..len].split(' ').next().unwrap_or_default();
        let is_sentence = word.len() < len && word.bytes().all(|byte| byte.is_ascii_lowercase());
        if is_sentence && last_word(unquoted).eq_ignore_ascii_case("grip-sig") {
            return None;
        }
        return Some((blanks + opening, len));
    }
    if rest.starts_with(['=', '>']) {
        return None;
    }
    // `=>` in a PHP array.
    let name = match separator {
        b'>' => before.strip_suffix('=')?.trim_end_matches(' '),
        // After an unquoted word, a colon is usually punctuation.
        b':' if !is_quoted => return None,
        _ => before.trim_end_matches(' '),
    };
    if !is_telling(last_word(name.trim_end_matches(['"', '\'']))) {
        return None;
    }
    let value = &rest[blanks..];
    Some(match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let inner = &value[1..];
            (blanks + 1, inner.find(quote).unwrap_or(inner.len()))
        }
        _ if separator == b'=' && blanks > 0 => return None,
        _ => (blanks, value.find(ends_value).unwrap_or(value.len())),
    })
}

fn ends_value(character: char) -> bool {
    character.is_whitespace() || "&;,#\"'<>)]}|`".contains(character)
}

/// Returns offset and length of the password or token in the part of a URL after the slashes.
fn password_of_url(rest: &str) -> Option<(usize, usize)> {
    let ends = |it: char| it.is_whitespace() || "/?#\"'<>)`".contains(it);
    let authority = &rest[..rest.find(ends).unwrap_or(rest.len())];
    let user_info = &authority[..authority.rfind('@')?];
    // Without a colon, the text is a user name or a token, because NATS URLs permit both. So mask it.
    let start = user_info.find(':').map_or(0, |colon| colon + 1);
    Some((start, user_info.len() - start))
}

fn last_word(text: &str) -> &str {
    let is_of_word = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    let start = text.rfind(|it| !is_of_word(it));
    let start = start.map_or(0, |at| {
        at + text[at..].chars().next().map_or(1, char::len_utf8)
    });
    &text[start..]
}

fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    NAMES.contains(&&*name) || ENDINGS.iter().any(|it| name.ends_with(it))
}

fn is_header(before: &str) -> bool {
    let name = last_word(before).to_ascii_lowercase();
    HEADERS.contains(&&*name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_nothing_else_is() {
        for (text, masked) in [
            ("redis://app:hunter2@db:6379/0", "redis://app:***@db:6379/0"),
            (
                "Grip-Sig: the token has expired; the client is held here",
                "Grip-Sig: the token has expired; the client is held here",
            ),
            ("Grip-Sig: eyJh.eyJi.c2ln of a client", "Grip-Sig: ***"),
            ("grip-sig: nonsense", "grip-sig: ***"),
            ("nats://s3cr3t@a:4222,b:4222", "nats://***@a:4222,b:4222"),
            (
                "/srv/http:/u:pw@host/ cannot be opened: /a@b",
                "/srv/http:/u:***@host/ cannot be opened: /a@b",
            ),
            (
                "amqp://u:p@ss@host/v and more",
                "amqp://u:***@host/v and more",
            ),
            (
                "http://localhost:5561?key=hunter2",
                "http://localhost:5561?key=***",
            ),
            (
                "a?verify-key=base64:aGVsbG8=&verify-iss=me b",
                "a?verify-key=***&verify-iss=me b",
            ),
            (
                "GET /a?x=1&access_token=abc&y=2",
                "GET /a?x=1&access_token=***&y=2",
            ),
            (
                "mysql:host=db;password=hunter2;dbname=x",
                "mysql:host=db;password=***;dbname=x",
            ),
            (
                "host=db password='two words' user=u",
                "host=db password='***' user=u",
            ),
            (
                r#"{"user":"u","token": "abc","n":1}"#,
                r#"{"user":"u","token": "***","n":1}"#,
            ),
            (
                "['password' => 'hunter2', 'a' => 1]",
                "['password' => '***', 'a' => 1]",
            ),
            (
                "Authorization: Bearer abc.def.ghi\nHost: x",
                "Authorization: ***\nHost: x",
            ),
            (
                "-H 'Cookie: session=abc; b=c' http://x",
                "-H 'Cookie: ***' http://x",
            ),
            (
                "CONTROL_KEY=hunter2 fermata edge",
                "CONTROL_KEY=*** fermata edge",
            ),
            (
                "two http://a:1@b/?key=2 and token=3",
                "two http://a:***@b/?key=*** and token=***",
            ),
            ("key=***", "key=***"),
        ] {
            assert_eq!(mask_secrets(text), masked);
            assert_eq!(mask_secrets(masked), masked, "once more");
        }
        for text in [
            "",
            "=",
            "key=",
            "unexpected token: give a number",
            "the key: a text, base64:… or file:PATH",
            "http://localhost:8080/a?b=c",
            "http://[::1]:8080 at 2026-11-22T10:00:00Z: fünf == 5 => 6",
            "monkey=1 keys=2 ключ=3",
            "a == b, token == null",
        ] {
            assert_eq!(mask_secrets(text), text);
        }
    }
}
