//! Types of settings: parsing, checking and formatting of their values.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::listen::{Listen, parse_control};
use crate::networks::Networks;
use crate::proxy_headers::ProxyHeaders;
use crate::value_error::ValueError;

/// Maximum length of a [`Kind::Label`].
const LABEL_BYTES_MAX: usize = 64;
/// Maximum length of a [`Kind::Text`] and of a complete [`Kind::Pairs`].
const TEXT_BYTES_MAX: usize = 256;
const PAIRS_BYTES_MAX: usize = 4096;

/// Type of a setting and its bounds, which are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `http://HOST:PORT` or `https://HOST:PORT`, comma-separated.
    Addresses,
    /// `unix:/path`, or empty.
    Control,
    /// `http://HOST:PORT`, or empty.
    Address,
    /// Name or number of a local user or group, or empty.
    Account,
    /// File path, or empty.
    Path,
    /// Comma-separated file paths, or empty.
    Paths,
    /// One of the listed words.
    Choice(&'static [&'static str]),
    /// Integer that counts units.
    Count {
        /// Minimum value.
        min: u64,
        /// Maximum value.
        max: u64,
        /// Unit in the plural.
        unit: &'static str,
    },
    /// Comma-separated addresses, networks such as `10.0.0.0/8`, and `unix`.
    Networks,
    /// Comma-separated names of headers that proxies set.
    ProxyHeaders,
    /// Space-separated URLs of GRIP edges, or empty. Messages never contain these URLs because they may include keys.
    Edges,
    /// Comma-separated `nats://HOST:PORT` or `redis://HOST:PORT`, with TLS `tls://` or `rediss://`, or empty. Messages never
    /// contain these URLs because they may include passwords.
    LogServers,
    /// Letters, digits, `_` and `-`.
    Label,
    /// `http://…` or `https://…`, or empty.
    Url,
    /// Comma-separated `name=value` pairs, or empty. Messages never contain these pairs because they may include keys.
    Pairs,
    /// Line of text of at most 256 bytes, or empty.
    Text,
    /// Line of text without a length limit, or empty.
    Line,
    /// List of lines; space-separated if given as one text.
    Lines,
    /// Line of text that is never printed, or empty.
    Secret,
    /// Number from 0 to 1.
    Ratio,
    /// Size in bytes; the suffixes `k`, `m` and `g` multiply by 1024, 1024² and 1024³.
    Bytes {
        /// Minimum value.
        min: u64,
        /// Maximum value.
        max: u64,
    },
    /// Duration in milliseconds.
    Milliseconds {
        /// Minimum value.
        min: u64,
        /// Maximum value.
        max: u64,
    },
}

impl Kind {
    /// Returns the name of the type for documentation.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Addresses => "addresses",
            Self::Control => "socket",
            Self::Address => "address",
            Self::Account => "name",
            Self::Path => "path",
            Self::Paths => "paths",
            Self::Networks => "networks",
            Self::ProxyHeaders => "headers",
            Self::Edges | Self::LogServers => "URLs",
            Self::Label => "name",
            Self::Url => "URL",
            Self::Pairs => "pairs",
            Self::Text | Self::Line => "text",
            Self::Lines => "texts",
            Self::Secret => "secret",
            Self::Ratio => "ratio",
            Self::Choice(_) => "word",
            Self::Count { .. } => "number",
            Self::Bytes { .. } => "size",
            Self::Milliseconds { .. } => "duration",
        }
    }

    /// Splits a text from the table or the environment into values; only a [`Kind::Lines`] can have more than one.
    pub fn split(self, text: &str) -> Vec<&str> {
        match self {
            Self::Lines => text.split_whitespace().collect(),
            _ => vec![text],
        }
    }

    /// Maps a value from `php.ini` back to its word: PHP reads an unquoted `on` as `1` and an unquoted `off` as an empty string.
    pub(crate) fn as_php_read(self, text: &str) -> &str {
        match (self, text) {
            (Self::Choice(words), "1") if words.contains(&"on") => "on",
            (Self::Choice(words), "") if words.contains(&"off") => "off",
            _ => text,
        }
    }

    /// Returns the unit of the value; empty for types without a unit.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Count { unit, .. } => unit,
            Self::Bytes { .. } => "bytes",
            Self::Milliseconds { .. } => "ms",
            Self::Addresses
            | Self::Control
            | Self::Address
            | Self::Account
            | Self::Path
            | Self::Paths
            | Self::Networks
            | Self::ProxyHeaders
            | Self::Edges
            | Self::LogServers
            | Self::Label
            | Self::Url
            | Self::Pairs
            | Self::Text
            | Self::Line
            | Self::Lines
            | Self::Secret
            | Self::Ratio
            | Self::Choice(_) => "",
        }
    }

    /// Describes the accepted values.
    pub fn range(&self) -> String {
        match self {
            Self::Addresses => {
                "http://HOST:PORT, https://HOST:PORT, unix:/path, systemd:NAME, several with commas"
                    .to_owned()
            }
            Self::Control => "unix:/path/to.sock, or empty for none".to_owned(),
            Self::Address => "http://HOST:PORT, or empty for none".to_owned(),
            Self::Account => "a name or number, or empty for none".to_owned(),
            Self::Path => "a file path, or empty for none".to_owned(),
            Self::Paths => "file paths with commas, or empty for none".to_owned(),
            Self::Networks => {
                "addresses, networks and unix with commas, or empty for none".to_owned()
            }
            Self::ProxyHeaders => {
                "forwarded, x-forwarded-for, x-forwarded-proto, x-forwarded-host, several with commas"
                    .to_owned()
            }
            Self::Edges => {
                "http://HOST:PORT?key=KEY, several with blanks, or empty for none".to_owned()
            }
            Self::LogServers => {
                "nats://HOST:PORT, tls://…, redis://… or rediss://…, several with commas, or empty for none"
                    .to_owned()
            }
            Self::Label => format!("1 to {LABEL_BYTES_MAX} letters, digits, _ and -"),
            Self::Url => "http://HOST:PORT/path or https://…, or empty for none".to_owned(),
            Self::Pairs => "name=value, several with commas, or empty for none".to_owned(),
            Self::Text => format!("up to {TEXT_BYTES_MAX} bytes in one line"),
            Self::Line => "a text".to_owned(),
            Self::Lines => "several texts".to_owned(),
            Self::Secret => format!("up to {PAIRS_BYTES_MAX} bytes in one line"),
            Self::Ratio => "0 to 1".to_owned(),
            Self::Choice(words) => words.join(", "),
            Self::Count { min, max, .. } => format!("{min} to {max}"),
            Self::Bytes { min, max } => format!("{} to {}", bytes_text(*min), bytes_text(*max)),
            Self::Milliseconds { min, max } => format!("{min} to {max}"),
        }
    }

    /// Returns the fix for a rejected value; the text completes "… give ".
    pub(crate) fn fix(&self) -> String {
        match self {
            Self::Addresses => {
                "http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:8080, or unix:/path.sock".to_owned()
            }
            Self::Control => "unix:/path/to.sock, or nothing for no control socket".to_owned(),
            Self::Address => {
                "http://HOST:PORT, such as http://127.0.0.1:9464, or nothing".to_owned()
            }
            Self::Account => "a name or number, such as www-data, or nothing".to_owned(),
            Self::Path => "a file path, or nothing".to_owned(),
            Self::Paths => "file paths with commas between them, or nothing".to_owned(),
            Self::Networks => "addresses such as 127.0.0.1, networks such as 10.0.0.0/8, or unix, with commas between them, or nothing".to_owned(),
            Self::ProxyHeaders => "one or more of forwarded, x-forwarded-for, x-forwarded-proto and x-forwarded-host, with commas between them".to_owned(),
            Self::LogServers => "nats://HOST:PORT or redis://HOST:PORT, tls:// or rediss:// over TLS, several with commas between them, redis+sentinel://HOST:PORT/NAME for Sentinels, or nothing".to_owned(),
            Self::Label => format!("1 to {LABEL_BYTES_MAX} letters, digits, _ and -"),
            Self::Url => "a URL that begins with http:// or https://, or nothing".to_owned(),
            Self::Pairs => "name=value, several with commas between them, commas and percent signs in values percent-encoded, or nothing".to_owned(),
            Self::Text => format!("up to {TEXT_BYTES_MAX} bytes without control characters"),
            Self::Line | Self::Lines => "one line of text".to_owned(),
            Self::Secret => format!("up to {PAIRS_BYTES_MAX} bytes without control characters, or nothing"),
            Self::Ratio => "a number from 0 to 1, such as 0.25".to_owned(),
            Self::Edges => "the URL of an edge's control port, such as http://localhost:5561?key=SECRET, several with blanks between them, or nothing".to_owned(),
            Self::Choice([only]) => format!("{only}, the only choice"),
            Self::Choice([first, second]) => format!("{first} or {second}"),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Count { unit: "", .. } => format!("a number from {}", self.range()),
            Self::Count { unit, .. } => format!("a number from {} ({unit})", self.range()),
            Self::Bytes { min, max } => {
                let range = self.range();
                match size_examples(*min, *max) {
                    Some(examples) => format!("a size from {range}, such as {examples}"),
                    None => format!("a size from {range}"),
                }
            }
            Self::Milliseconds { min, max } => {
                let range = self.range();
                if (*min..=*max).contains(&5000) {
                    format!("milliseconds from {range}, such as 5000 for five seconds")
                } else {
                    format!("milliseconds from {range}")
                }
            }
        }
    }

    /// Parses a number of this kind. The error text completes "that is …".
    fn number(&self, text: &str) -> Result<u64, ValueError> {
        let (digits, unit, min, max) = match self {
            Self::Count { min, max, .. } | Self::Milliseconds { min, max } => (text, 1, min, max),
            Self::Bytes { min, max } => {
                let (digits, unit) = split_size(text);
                (digits, unit, min, max)
            }
            Self::Addresses
            | Self::Control
            | Self::Address
            | Self::Account
            | Self::Path
            | Self::Paths
            | Self::Networks
            | Self::ProxyHeaders
            | Self::Edges
            | Self::LogServers
            | Self::Label
            | Self::Url
            | Self::Pairs
            | Self::Text
            | Self::Line
            | Self::Lines
            | Self::Secret
            | Self::Ratio
            | Self::Choice(_) => {
                return Err(ValueError::Form("a number"));
            }
        };
        if digits.is_empty() {
            return Err(ValueError::Empty);
        }
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(match self {
                _ if digits.starts_with('-') => ValueError::Negative,
                Self::Bytes { .. } => ValueError::Form("a size"),
                _ => ValueError::Form("a whole number"),
            });
        }
        // Only digits remain, so parsing fails only on overflow.
        let number = digits
            .parse::<u64>()
            .ok()
            .and_then(|count| count.checked_mul(unit));
        match number {
            Some(number) if number < *min => Err(ValueError::TooSmall),
            Some(number) if number <= *max => Ok(number),
            Some(_) | None => Err(ValueError::TooLarge),
        }
    }

    fn word(&self, text: &str) -> Result<String, ValueError> {
        match self {
            Self::Choice(words) if words.contains(&text) => Ok(text.to_owned()),
            _ if text.is_empty() => Err(ValueError::Empty),
            _ => Err(ValueError::Unknown),
        }
    }
}

/// Parses a [`Kind::Ratio`] into parts of 1,000,000,000, truncating further digits; returns `None` for any other text. Avoids the
/// floating-point parser of the standard library, whose 15 KB of tables and code no other function here needs.
pub fn billionths(text: &str) -> Option<u64> {
    const ONE: u64 = 1_000_000_000;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if text.is_empty() || text == "." || !is_number(whole) || !is_number(part) {
        return None;
    }
    let digits = part.bytes().chain(std::iter::repeat(b'0')).take(9);
    let part = digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let whole = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    Some(ONE.checked_mul(whole)?.checked_add(part)?).filter(|parts| *parts <= ONE)
}

/// Checks `name=value,name=value`, the list format of OpenTelemetry environment variables.
fn check_pairs(text: &str) -> Result<(), ValueError> {
    if text.len() > PAIRS_BYTES_MAX {
        return Err(ValueError::TooLong(PAIRS_BYTES_MAX));
    }
    // Some pairs become HTTP headers: reject control characters, also percent-encoded, to prevent header injection.
    let is_control = |code: &str| match u8::from_str_radix(code, 16) {
        Ok(byte) => byte < b' ' || byte == 0x7f,
        Err(_) => false,
    };
    let mut codes = text.split('%').skip(1).filter_map(|rest| rest.get(..2));
    if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) || codes.any(is_control) {
        return Err(ValueError::Form("all printable ASCII"));
    }
    let parts = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    for part in parts {
        let name = part.split_once('=').map(|(name, _)| name.trim());
        if name.is_none_or(|name| name.is_empty() || name.contains([' ', ':', '"'])) {
            return Err(ValueError::Form("a list of name=value"));
        }
    }
    Ok(())
}

fn is_line(text: &str) -> bool {
    !text.contains(['\r', '\n', '\0'])
}

fn split_size(text: &str) -> (&str, u64) {
    let unit = match text.as_bytes().last() {
        Some(b'k' | b'K') => 1 << 10,
        Some(b'm' | b'M') => 1 << 20,
        Some(b'g' | b'G') => 1 << 30,
        _ => return (text, 1),
    };
    (&text[..text.len() - 1], unit)
}

/// Returns example sizes between `min` and `max`, or `None` if no example is in that range.
fn size_examples(min: u64, max: u64) -> Option<String> {
    let mut examples: Vec<&str> = ["65536", "64k", "1m", "1g"]
        .into_iter()
        .filter(|example| {
            let (digits, unit) = split_size(example);
            let size = digits.parse::<u64>().ok().map(|it| it * unit);
            size.is_some_and(|it| (min..=max).contains(&it))
        })
        .take(3)
        .collect();
    let last = examples.pop()?;
    Some(if examples.is_empty() {
        last.to_owned()
    } else {
        format!("{} or {last}", examples.join(", "))
    })
}

/// Formats a size, adding the largest binary unit that divides it: `16384 (16 KiB)`.
pub(crate) fn bytes_text(bytes: u64) -> String {
    let mut text = bytes.to_string();
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            // Writing to a String cannot fail.
            let _ = write!(text, " ({} {unit})", bytes >> shift);
            break;
        }
    }
    text
}

/// Conversion of a settings field from text and back.
pub trait Value: Sized {
    /// Parses and checks `text`. The error text completes "that is …".
    ///
    /// # Errors
    /// Fails if the text is not a valid value of this kind.
    fn read(text: &str, kind: &Kind) -> Result<Self, ValueError>;
    /// Parses the values of one setting; only lists accept more than one.
    ///
    /// # Errors
    /// See [`read`](Self::read); also fails unless a setting that is not a list has exactly one value.
    fn read_all(values: &[&str], kind: &Kind) -> Result<Self, ValueError> {
        match values {
            [value] => Self::read(value, kind),
            _ => Err(ValueError::Several),
        }
    }
    /// Formats the value as text from which `read` restores it.
    fn text(&self) -> String;
}

macro_rules! number_value {
    ($($type:ty),+) => {$(
        impl Value for $type {
            fn read(text: &str, kind: &Kind) -> Result<Self, ValueError> {
                Self::try_from(kind.number(text)?).map_err(|_| ValueError::TooLarge)
            }
            fn text(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

number_value!(u16, u64, usize);

impl Value for bool {
    fn read(text: &str, kind: &Kind) -> Result<Self, ValueError> {
        Ok(kind.word(text)? == "true")
    }
    fn text(&self) -> String {
        self.to_string()
    }
}

/// Splits a single text at its spaces.
impl Value for Vec<String> {
    fn read(text: &str, kind: &Kind) -> Result<Self, ValueError> {
        Self::read_all(&kind.split(text), kind)
    }
    fn read_all(values: &[&str], _kind: &Kind) -> Result<Self, ValueError> {
        if values.iter().all(|value| is_line(value)) {
            Ok(values.iter().map(|&value| value.to_owned()).collect())
        } else {
            Err(ValueError::Form("one line"))
        }
    }
    fn text(&self) -> String {
        self.join(" ")
    }
}

impl Value for String {
    fn read(text: &str, kind: &Kind) -> Result<Self, ValueError> {
        match kind {
            Kind::Addresses => Ok(Listen::parse_list(text).map(|_| text.to_owned())?),
            Kind::Label => {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                if (1..=LABEL_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
                    Ok(text.to_owned())
                } else {
                    Err(ValueError::Form("such a name"))
                }
            }
            Kind::Text => {
                if text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control) {
                    Ok(text.to_owned())
                } else {
                    Err(ValueError::Line)
                }
            }
            Kind::Line => {
                if is_line(text) {
                    Ok(text.to_owned())
                } else {
                    Err(ValueError::Form("one line"))
                }
            }
            Kind::Secret => Option::read(text, kind).map(Option::unwrap_or_default),
            Kind::Ratio => match billionths(text) {
                Some(_) => Ok(text.to_owned()),
                None => Err(ValueError::Form("a number from 0 to 1")),
            },
            _ => kind.word(text),
        }
    }
    fn text(&self) -> String {
        self.clone()
    }
}

impl Value for Option<String> {
    fn read(text: &str, kind: &Kind) -> Result<Self, ValueError> {
        match kind {
            _ if text.is_empty() => Ok(None),
            Kind::Control => Ok(parse_control(text).map(|()| Some(text.to_owned()))?),
            Kind::Address => Ok(Listen::parse_plain(text).map(|_| Some(text.to_owned()))?),
            Kind::Account => {
                if text.contains([':', ' ', '\t', '\n', '\0']) {
                    Err(ValueError::Form("a name"))
                } else {
                    Ok(Some(text.to_owned()))
                }
            }
            // Check only the schemes here; the engine parses the list itself.
            Kind::LogServers => {
                let schemes = [
                    "nats://",
                    "tls://",
                    "redis://",
                    "rediss://",
                    "redis+sentinel://",
                    "rediss+sentinel://",
                ];
                if schemes.iter().any(|scheme| text.starts_with(scheme)) {
                    Ok(Some(text.to_owned()))
                } else {
                    Err(ValueError::Form("a list of nats:// or redis:// addresses"))
                }
            }
            Kind::Secret => {
                if text.len() <= PAIRS_BYTES_MAX && !text.chars().any(char::is_control) {
                    Ok(Some(text.to_owned()))
                } else {
                    Err(ValueError::Line)
                }
            }
            Kind::Url => {
                if text.starts_with("http://") || text.starts_with("https://") {
                    Ok(Some(text.to_owned()))
                } else {
                    Err(ValueError::Form("a URL of HTTP"))
                }
            }
            Kind::Pairs => check_pairs(text).map(|()| Some(text.to_owned())),
            Kind::Edges => {
                let is_url =
                    |part: &str| part.starts_with("http://") || part.starts_with("https://");
                if text.split_whitespace().all(is_url) {
                    Ok(Some(text.to_owned()))
                } else {
                    Err(ValueError::Form("a list of http:// or https:// URLs"))
                }
            }
            _ => kind.word(text).map(Some),
        }
    }
    fn text(&self) -> String {
        self.clone().unwrap_or_default()
    }
}

impl Value for Option<PathBuf> {
    fn read(text: &str, _kind: &Kind) -> Result<Self, ValueError> {
        if text.contains('\0') {
            return Err(ValueError::NulInPath);
        }
        Ok((!text.is_empty()).then(|| PathBuf::from(text)))
    }
    fn text(&self) -> String {
        self.as_deref()
            .map(|path| path.display().to_string())
            .unwrap_or_default()
    }
}

/// Comma-separated, so that a list fits into one environment variable. Paths therefore cannot contain a comma.
impl Value for Vec<PathBuf> {
    fn read(text: &str, _kind: &Kind) -> Result<Self, ValueError> {
        if text.contains('\0') {
            return Err(ValueError::NulInPath);
        }
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let parts = text.split(',').map(str::trim);
        if parts.clone().any(str::is_empty) {
            return Err(ValueError::EmptyPath);
        }
        Ok(parts.map(PathBuf::from).collect())
    }
    fn text(&self) -> String {
        let paths: Vec<String> = self.iter().map(|path| path.display().to_string()).collect();
        paths.join(",")
    }
}

impl Value for Networks {
    fn read(text: &str, _kind: &Kind) -> Result<Self, ValueError> {
        Ok(Networks::parse(text)?)
    }
    fn text(&self) -> String {
        Networks::text(self)
    }
}

impl Value for ProxyHeaders {
    fn read(text: &str, _kind: &Kind) -> Result<Self, ValueError> {
        Ok(ProxyHeaders::parse(text)?)
    }
    fn text(&self) -> String {
        ProxyHeaders::text(self)
    }
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Plain text, one line per event.
    Text,
    /// One JSON object per line.
    Json,
}

/// Minimum severity of logged lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Failures: an uncaught exception, a crashed worker.
    Error,
    /// Rejections and degradations: a limit was reached, a feature is unavailable.
    Warning,
    /// Start, stop and bound addresses.
    Info,
    /// Details for debugging.
    Debug,
}

macro_rules! word_value {
    ($type:ident { $($variant:ident = $word:literal),+ }) => {
        impl Value for $type {
            fn read(text: &str, kind: &Kind) -> Result<Self, ValueError> {
                match kind.word(text)?.as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(ValueError::Unknown),
                }
            }
            fn text(&self) -> String {
                match self { $(Self::$variant => $word),+ }.to_owned()
            }
        }
    };
}

word_value!(LogFormat { Text = "text", Json = "json" });
word_value!(LogLevel { Error = "error", Warning = "warning", Info = "info", Debug = "debug" });

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Kind = Kind::Bytes {
        min: 1024,
        max: 1 << 30,
    };

    #[test]
    fn ratios_are_read_in_billionths() {
        for (text, parts) in [
            ("0", Some(0)),
            ("1", Some(1_000_000_000)),
            ("1.000", Some(1_000_000_000)),
            ("0.25", Some(250_000_000)),
            (".5", Some(500_000_000)),
            ("0.0000000019", Some(1)),
            ("1.1", None),
            ("-0.5", None),
            ("99999999999999999999", None),
            ("1e-3", None),
            ("", None),
            (".", None),
        ] {
            assert_eq!(billionths(text), parts, "{text}");
        }
    }

    #[test]
    fn no_pair_ends_the_header_that_it_becomes() {
        assert_eq!(check_pairs("api-key=a%2Cb%20c,x=100%,"), Ok(()));
        for text in [
            "a=b\r\nc: d",
            "a=b%0d%0ac: d",
            "a=%7F",
            "a=%00",
            "a b=c",
            "a",
        ] {
            assert!(check_pairs(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_take_binary_suffixes() {
        for (text, bytes) in [
            ("1024", 1024),
            ("16k", 16384),
            ("16K", 16384),
            ("3m", 3 << 20),
            ("1g", 1 << 30),
        ] {
            assert_eq!(usize::read(text, &SIZE), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn numbers_outside_the_range_or_the_grammar_say_why() {
        let count = Kind::Count {
            min: 1,
            max: 64,
            unit: "processes",
        };
        for (text, kind, cause) in [
            ("", count, "empty"),
            ("k", SIZE, "empty"),
            ("0", count, "too small"),
            ("65", count, "too large"),
            ("1k", count, "not a whole number"),
            ("-1", count, "negative"),
            ("+1", count, "not a whole number"),
            (" 1", count, "not a whole number"),
            ("1.5m", SIZE, "not a size"),
            ("1kk", SIZE, "not a size"),
            ("99999999999999999999", count, "too large"),
            ("99999999999999999g", SIZE, "too large"),
        ] {
            let refused = u64::read(text, &kind).map_err(|error| error.to_string());
            assert_eq!(refused, Err(cause.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn a_u16_never_truncates() {
        let kind = Kind::Count {
            min: 0,
            max: 100_000,
            unit: "things",
        };
        assert_eq!(u16::read("70000", &kind), Err(ValueError::TooLarge));
    }
}
