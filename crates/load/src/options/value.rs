//! Parsers of option values.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::clock::micros;
use crate::course::Step;
use crate::report::Rates;

/// Reasons why an option's value is invalid; clap adds the option's name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValueError {
    #[error("\"{0}\" is no unit of time; use ms, s, m or h")]
    Unit(String),
    #[error("\"{0}\" is no duration; give one like 10s or 500ms")]
    Duration(String),
    #[error("\"{0}\" is too long")]
    TooLong(String),
    #[error("give a step as NAME=TIME[,groups=PER_SECOND][,all=PER_SECOND]")]
    Step,
    #[error("give 10ms to 1m")]
    Interval,
    #[error("{0}; give an address with a port, like 127.0.0.1:8125")]
    Unresolved(io::Error),
    #[error("the name has no address")]
    NoAddress,
    #[error("give a status or a range of them, like 200-399")]
    Statuses,
    #[error("give how many per second, more than zero; leave it out for no limit")]
    Rate,
    #[error("give it as \"Name: value\"")]
    HeaderForm,
    #[error("\"{0}\" is no header name")]
    HeaderName(String),
    #[error("the value contains a control character")]
    HeaderValue,
    #[error("{0} is set by fermata load itself")]
    HeaderOurs(String),
    #[error("a method is a word like GET or POST")]
    Method,
    #[error("give one name of letters, digits and . - _ ~ + * $ & ^")]
    Subprotocol,
}

/// Parses `10s`, `500ms`, `2m` or `1h`; a number without unit is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, ValueError> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(ValueError::Unit(unit.into())),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| ValueError::Duration(text.into()))?;
    Duration::try_from_secs_f64(number * factor).map_err(|_| ValueError::TooLong(text.into()))
}

/// Parses `NAME=TIME[,groups=PER_SECOND][,all=PER_SECOND]`.
pub(crate) fn step(text: &str) -> Result<Step, ValueError> {
    let (name, rest) = text.split_once('=').ok_or(ValueError::Step)?;
    let mut parts = rest.split(',');
    let mut step = Step {
        name: name.to_string(),
        hold_us: micros(duration(parts.next().unwrap_or_default())?),
        rates: Rates::default(),
    };
    for part in parts {
        match part.split_once('=') {
            Some(("groups", per_s)) => step.rates.groups = rate(per_s)?,
            Some(("all", per_s)) => step.rates.all = rate(per_s)?,
            _ => return Err(ValueError::Step),
        }
    }
    if name.is_empty() {
        Err(ValueError::Step)
    } else {
        Ok(step)
    }
}

/// Parses a duration from 10 ms to one minute.
pub(crate) fn interval(text: &str) -> Result<Duration, ValueError> {
    let interval = duration(text)?;
    let range = Duration::from_millis(10)..=Duration::from_secs(60);
    if range.contains(&interval) {
        Ok(interval)
    } else {
        Err(ValueError::Interval)
    }
}

/// Parses `HOST:PORT`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, ValueError> {
    let mut found = text.to_socket_addrs().map_err(ValueError::Unresolved)?;
    found.next().ok_or(ValueError::NoAddress)
}

/// Parses `200-399` or `204`.
pub(crate) fn statuses(text: &str) -> Result<RangeInclusive<u16>, ValueError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if (100..=599).contains(&first) && first <= last => Ok(first..=last),
        _ => Err(ValueError::Statuses),
    }
}

/// Parses a rate per second: positive and finite.
pub(crate) fn rate(text: &str) -> Result<f64, ValueError> {
    let value: Option<f64> = text.parse().ok();
    value
        .filter(|value| value.is_finite() && *value > 0.0)
        .ok_or(ValueError::Rate)
}

/// Parses `Name: value` and returns it as a header line with CRLF.
pub(crate) fn header(text: &str) -> Result<String, ValueError> {
    let (name, value) = text.split_once(':').ok_or(ValueError::HeaderForm)?;
    let value = value.trim();
    if !fermata_proto::response::valid_name(name.as_bytes()) {
        return Err(ValueError::HeaderName(name.into()));
    }
    if !fermata_proto::response::valid_value(value.as_bytes()) {
        return Err(ValueError::HeaderValue);
    }
    let own = ["host", "content-length", "transfer-encoding", "connection"];
    if own.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(ValueError::HeaderOurs(name.into()));
    }
    Ok(format!("{name}: {value}\r\n"))
}

/// Parses a token such as `GET`.
pub(crate) fn method(text: &str) -> Result<String, ValueError> {
    if fermata_proto::response::valid_name(text.as_bytes()) {
        Ok(text.to_ascii_uppercase())
    } else {
        Err(ValueError::Method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("10").ok(), Some(Duration::from_secs(10)));
        assert_eq!(duration("1.5s").ok(), Some(Duration::from_millis(1500)));
        assert_eq!(duration("250ms").ok(), Some(Duration::from_millis(250)));
        assert_eq!(duration("2m").ok(), Some(Duration::from_secs(120)));
        assert!(duration("2d").is_err() && duration("").is_err() && duration("-1").is_err());
    }

    #[test]
    fn steps() {
        let expected = |groups, all| Step {
            name: "a b".to_string(),
            hold_us: 2_500_000,
            rates: Rates { groups, all },
        };
        assert_eq!(step("a b=2.5s").ok(), Some(expected(0.0, 0.0)));
        assert_eq!(step("a b=2.5,groups=20").ok(), Some(expected(20.0, 0.0)));
        assert_eq!(
            step("a b=2.5,all=0.2,groups=1").ok(),
            Some(expected(1.0, 0.2))
        );
        for wrong in [
            "",
            "a",
            "=1s",
            "a=",
            "a=1s,",
            "a=1s,all",
            "a=1s,all=0",
            "a=1s,x=1",
        ] {
            assert!(step(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn others() {
        assert_eq!(statuses("200-399").ok(), Some(200..=399));
        assert_eq!(statuses("204").ok(), Some(204..=204));
        assert!(statuses("399-200").is_err() && statuses("x").is_err());
        assert_eq!(header("A:  b ").ok(), Some("A: b\r\n".to_string()));
        assert!(header("A").is_err() && header("Host: x").is_err() && header("a b: c").is_err());
        assert!(rate("0").is_err() && rate("inf").is_err() && matches!(rate("0.5"), Ok(0.5)));
        assert_eq!(method("post").ok(), Some("POST".to_string()));
        assert!(method("a b").is_err());
    }
}
