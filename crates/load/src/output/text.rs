//! Numbers formatted for people.

/// Formats a count, with a unit letter from 10,000 on: `9999`, `12.3k`, `4.56M`.
pub(crate) fn count(count: f64) -> String {
    let scaled = |value: f64, unit: &str| {
        let digits = match value {
            ..10.0 => 2,
            ..100.0 => 1,
            _ => 0,
        };
        format!("{value:.digits$}{unit}")
    };
    match count {
        ..10_000.0 => format!("{count:.0}"),
        ..1e6 => scaled(count / 1e3, "k"),
        ..1e9 => scaled(count / 1e6, "M"),
        _ => scaled(count / 1e9, "G"),
    }
}

/// Formats bytes or bytes per second in decimal units: `812 B`, `1.2 MB`.
pub(crate) fn bytes(bytes: f64) -> String {
    match bytes {
        ..1e3 => format!("{bytes:.0} B"),
        ..1e6 => format!("{:.1} kB", bytes / 1e3),
        ..1e9 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.2} GB", bytes / 1e9),
    }
}

/// Formats a time: `87 us`, `1.23 ms`, `4.5 s`.
pub(crate) fn micros(micros: u64) -> String {
    let value = micros as f64;
    match micros {
        0..1000 => format!("{micros} us"),
        1000..10_000 => format!("{:.2} ms", value / 1e3),
        10_000..1_000_000 => format!("{:.1} ms", value / 1e3),
        _ => format!("{:.2} s", value / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(count(0.0), "0");
        assert_eq!(count(9999.0), "9999");
        assert_eq!(count(12_345.0), "12.3k");
        assert_eq!(count(1_000_000.0), "1.00M");
        assert_eq!(bytes(1500.0), "1.5 kB");
        assert_eq!(micros(999), "999 us");
        assert_eq!(micros(1234), "1.23 ms");
        assert_eq!(micros(123_456), "123.5 ms");
        assert_eq!(micros(4_500_000), "4.50 s");
    }
}
