//! Values of options that clap does not know.

use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::clock::micros;
use crate::parent::Step;
use crate::report::Rates;

/// `10s`, `500ms`, `2m`, `1h`; a number alone is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("\"{unit}\" is no unit of time; use ms, s, m or h")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("\"{text}\" is no duration; give one like 10s or 500ms"))?;
    Duration::try_from_secs_f64(number * factor).map_err(|_| format!("\"{text}\" is too long"))
}

/// `NAME=TIME[,groups=PER_SECOND][,all=PER_SECOND]`.
pub(crate) fn step(text: &str) -> Result<Step, String> {
    const FORM: &str = "give a step as NAME=TIME[,groups=PER_SECOND][,all=PER_SECOND]";
    let (name, rest) = text.split_once('=').ok_or(FORM)?;
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
            _ => return Err(FORM.to_string()),
        }
    }
    match name.is_empty() {
        true => Err(FORM.to_string()),
        false => Ok(step),
    }
}

/// A duration from 10 ms to one minute.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    let range = Duration::from_millis(10)..=Duration::from_secs(60);
    match range.contains(&interval) {
        true => Ok(interval),
        false => Err("give 10ms to 1m".to_string()),
    }
}

/// `HOST:PORT`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| format!("{error}; give an address with a port, like 127.0.0.1:8125"))?;
    found
        .next()
        .ok_or_else(|| "the name has no address".to_string())
}

/// `200-399` or `204`.
pub(crate) fn statuses(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if (100..=599).contains(&first) && first <= last => Ok(first..=last),
        _ => Err("give a status or a range of them, like 200-399".to_string()),
    }
}

/// A rate per second: positive and finite.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.parse().ok();
    value
        .filter(|value| value.is_finite() && *value > 0.0)
        .ok_or_else(|| "give how many per second, more than zero; leave it out for no limit".into())
}

/// `Name: value`, as the line of a request.
pub(crate) fn header(text: &str) -> Result<String, String> {
    let (name, value) = text.split_once(':').ok_or("give it as \"Name: value\"")?;
    let value = value.trim();
    if !fermata_proto::response::valid_name(name.as_bytes()) {
        return Err(format!("\"{name}\" is no header name"));
    }
    if !fermata_proto::response::valid_value(value.as_bytes()) {
        return Err("the value contains a control character".to_string());
    }
    let own = ["host", "content-length", "transfer-encoding", "connection"];
    if own.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(format!("{name} is set by fermata load itself"));
    }
    Ok(format!("{name}: {value}\r\n"))
}

/// A token such as `GET`.
pub(crate) fn method(text: &str) -> Result<String, String> {
    match fermata_proto::response::valid_name(text.as_bytes()) {
        true => Ok(text.to_ascii_uppercase()),
        false => Err("a method is a word like GET or POST".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("2d").is_err() && duration("").is_err() && duration("-1").is_err());
    }

    #[test]
    fn steps() {
        let expected = |groups, all| Step {
            name: "a b".to_string(),
            hold_us: 2_500_000,
            rates: Rates { groups, all },
        };
        assert_eq!(step("a b=2.5s"), Ok(expected(0.0, 0.0)));
        assert_eq!(step("a b=2.5,groups=20"), Ok(expected(20.0, 0.0)));
        assert_eq!(step("a b=2.5,all=0.2,groups=1"), Ok(expected(1.0, 0.2)));
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
        assert_eq!(statuses("200-399"), Ok(200..=399));
        assert_eq!(statuses("204"), Ok(204..=204));
        assert!(statuses("399-200").is_err() && statuses("x").is_err());
        assert_eq!(header("A:  b "), Ok("A: b\r\n".to_string()));
        assert!(header("A").is_err() && header("Host: x").is_err() && header("a b: c").is_err());
        assert!(rate("0").is_err() && rate("inf").is_err() && rate("0.5") == Ok(0.5));
        assert_eq!(method("post"), Ok("POST".to_string()));
        assert!(method("a b").is_err());
    }
}
