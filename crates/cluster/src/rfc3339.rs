//! Timestamps of NATS.

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Parses a UTC timestamp of RFC 3339 in Go's form, such as `2026-11-22T14:00:00.123456789Z`, to Unix time in nanoseconds.
pub(crate) fn unix_ns(text: &str) -> Option<u64> {
    let number = |from: usize, len: usize| text.get(from..from + len)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    let fraction = text.get(19..)?.strip_suffix('Z')?;
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let mut ns = 0;
    if !fraction.is_empty() {
        let digits = fraction.strip_prefix('.')?;
        for at in 0..9 {
            let digit = digits
                .as_bytes()
                .get(at)
                .map_or(Some(0), |it| char::from(*it).to_digit(10));
            ns = ns * 10 + u64::from(digit?);
        }
    }
    // Number of days since 1970. Years begin in March, so that the leap day is the last day of a year.
    let (years, months) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * years + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day
        - 1
        - 719_468;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    seconds.checked_mul(NS_PER_SECOND)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_times_of_go() {
        for (text, ns) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59.5Z", 951_868_799_500_000_000),
            ("2026-11-24T15:41:07.123456789Z", 1_795_534_867_123_456_789),
            ("2100-03-01T00:00:00.001Z", 4_107_542_400_001_000_000),
        ] {
            assert_eq!(unix_ns(text), Some(ns), "{text}");
        }
        for text in [
            "",
            "2026-11-24",
            "2026-11-24T15:41:07+01:00",
            "2026-13-01T00:00:00Z",
            "9999-01-01T00:00:00Z",
        ] {
            assert_eq!(unix_ns(text), None, "{text}");
        }
    }
}
