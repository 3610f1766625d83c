//! The types a setting can have: how its text is read, checked and written.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::listen::{Listen, parse_control};
use crate::networks::Networks;
use crate::proxy_headers::ProxyHeaders;
use crate::value_error::ValueError;

/// Longest [`Kind::Label`].
const LABEL_BYTES_MAX: usize = 64;
/// Longest [`Kind::Text`], and longest [`Kind::Pairs`] together.
const TEXT_BYTES_MAX: usize = 256;
const PAIRS_BYTES_MAX: usize = 4096;

/// What text a setting accepts, with its bounds. Bounds are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `http://HOST:PORT` or `https://HOST:PORT`, several with commas between them.
    Addresses,
    /// `unix:/path`, or empty for none.
    Control,
    /// `http://HOST:PORT`, or empty for none.
    Address,
    /// A user or group of the machine by name or number, or empty for none.
    Account,
    /// A file path, or empty for none.
    Path,
    /// File paths with commas between them, or empty for none.
    Paths,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number of something.
    Count {
        /// Smallest accepted value.
        min: u64,
        /// Largest accepted value.
        max: u64,
        /// What is counted, in the plural.
        unit: &'static str,
    },
    /// Addresses, networks such as `10.0.0.0/8`, and `unix`, with commas between them.
    Networks,
    /// Names of headers that proxies write, with commas between them.
    ProxyHeaders,
    /// URLs of GRIP edges with blanks between them, or empty for none. They may hold keys, so no message repeats them.
    Edges,
    /// `nats://HOST:PORT` or `redis://HOST:PORT`, or `tls://` and `rediss://` over TLS, several with commas between them, or empty for none. They may
    /// hold passwords, so no message repeats them.
    LogServers,
    /// Letters, digits, `_` and `-`.
    Label,
    /// `http://…` or `https://…`, or empty for none.
    Url,
    /// `name=value`, several with commas between them, or empty for none. They may hold keys, so no message repeats them.
    Pairs,
    /// A line of text, or empty for none.
    Text,
    /// The same, as long as need be.
    Line,
    /// Several of those, with blanks between them where one text has them all.
    Lines,
    /// A line of text that nothing shows, or empty for none.
    Secret,
    /// A number from 0 to 1.
    Ratio,
    /// A size in bytes; the suffixes `k`, `m` and `g` multiply by 1024, 1024² and 1024³.
    Bytes {
        /// Smallest accepted value.
        min: u64,
        /// Largest accepted value.
        max: u64,
    },
    /// A duration in milliseconds.
    Milliseconds {
        /// Smallest accepted value.
        min: u64,
        /// Largest accepted value.
        max: u64,
    },
}

impl Kind {
    /// The name of the type, as documentation shows it.
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

    /// The values in a text of the table or the environment: of a list, those between blanks.
    pub fn split(self, text: &str) -> Vec<&str> {
        match self {
            Self::Lines => text.split_whitespace().collect(),
            _ => vec![text],
        }
    }

    /// The word for what PHP makes of `on` and `off` in a file of settings when they stand without quotes: `1` and nothing.
    pub(crate) fn as_php_read(self, text: &str) -> &str {
        match (self, text) {
            (Self::Choice(words), "1") if words.contains(&"on") => "on",
            (Self::Choice(words), "") if words.contains(&"off") => "off",
            _ => text,
        }
    }

    /// The unit of the value, empty where the type has none.
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

    /// The accepted values in words.
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

    /// What to write instead of a refused value; completes "… give ".
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
            Self::Bytes { .. } => {
                format!("a size from {}, such as 65536, 64k or 1m", self.range())
            }
            Self::Milliseconds { .. } => {
                format!(
                    "milliseconds from {}, such as 5000 for five seconds",
                    self.range()
                )
            }
        }
    }

    /// Reads a number of this kind; the error is the cause, as a clause after "it is …".
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
        // More digits than a u64 has can only be too large, never wrong in another way.
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

/// A [`Kind::Ratio`] in parts of 1,000,000,000; `None`: it is none. Finer parts are left out. By hand: the standard library's
/// floating-point parser is 15 KB of tables and code that nothing else here needs.
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

/// Checks `name=value,name=value`, as OpenTelemetry has it in environment variables.
fn check_pairs(text: &str) -> Result<(), ValueError> {
    if text.len() > PAIRS_BYTES_MAX {
        return Err(ValueError::TooLong(PAIRS_BYTES_MAX));
    }
    // Some become headers: no byte may end one, percent-encoded or not.
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

/// A size with its binary unit when it is a whole number of one: `16384 (16 KiB)`.
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

/// A field type of settings: from text and back.
pub trait Value: Sized {
    /// Reads and checks; the error is the cause, as a clause after "it is …".
    ///
    /// # Errors
    /// It is no value of this kind.
    fn read(text: &str, kind: &Kind) -> Result<Self, ValueError>;
    /// Reads the values that were given for one setting, of which only lists take several.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn read_all(values: &[&str], kind: &Kind) -> Result<Self, ValueError> {
        match values {
            [value] => Self::read(value, kind),
            _ => Err(ValueError::Several),
        }
    }
    /// Writes text that `read` accepts and that gives the same value.
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

/// Read from one text as those between its blanks.
impl Value for Vec<String> {
    fn read(text: &str, kind: &Kind) -> Result<Self, ValueError> {
        Self::read_all(&kind.split(text), kind)
    }
    fn read_all(values: &[&str], _kind: &Kind) -> Result<Self, ValueError> {
        match values.iter().all(|value| is_line(value)) {
            true => Ok(values.iter().map(|&value| value.to_owned()).collect()),
            false => Err(ValueError::Form("one line")),
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
                match (1..=LABEL_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
                    true => Ok(text.to_owned()),
                    false => Err(ValueError::Form("such a name")),
                }
            }
            Kind::Text => match text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control)
            {
                true => Ok(text.to_owned()),
                false => Err(ValueError::Line),
            },
            Kind::Line => match is_line(text) {
                true => Ok(text.to_owned()),
                false => Err(ValueError::Form("one line")),
            },
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
            Kind::Account => match text.contains([':', ' ', '\t', '\n', '\0']) {
                false => Ok(Some(text.to_owned())),
                true => Err(ValueError::Form("a name")),
            },
            // The engine reads them as a whole.
            Kind::LogServers => {
                let schemes = [
                    "nats://",
                    "tls://",
                    "redis://",
                    "rediss://",
                    "redis+sentinel://",
                    "rediss+sentinel://",
                ];
                match schemes.iter().any(|scheme| text.starts_with(scheme)) {
                    true => Ok(Some(text.to_owned())),
                    false => Err(ValueError::Form("a list of nats:// or redis:// addresses")),
                }
            }
            Kind::Secret => {
                match text.len() <= PAIRS_BYTES_MAX && !text.chars().any(char::is_control) {
                    true => Ok(Some(text.to_owned())),
                    false => Err(ValueError::Line),
                }
            }
            Kind::Url => match text.starts_with("http://") || text.starts_with("https://") {
                true => Ok(Some(text.to_owned())),
                false => Err(ValueError::Form("a URL of HTTP")),
            },
            Kind::Pairs => check_pairs(text).map(|()| Some(text.to_owned())),
            Kind::Edges => {
                let is_url =
                    |part: &str| part.starts_with("http://") || part.starts_with("https://");
                match text.split_whitespace().all(is_url) {
                    true => Ok(Some(text.to_owned())),
                    false => Err(ValueError::Form("a list of http:// or https:// URLs")),
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

/// The price of a list that can be written into an environment variable: no path has a comma.
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

/// How a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One line of words, for people.
    Text,
    /// One JSON object per line, for log collectors.
    Json,
}

/// The least severe line that is still written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something failed that should not: an uncaught exception, a dead worker.
    Error,
    /// Something was refused or degraded: a limit reached, a feature missing.
    Warning,
    /// Start, stop and what was bound.
    Info,
    /// Details for finding a fault.
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
