//! Formats and parses HTTP dates (RFC 9110, section 5.6.7).

use crate::number::{pair, parse_decimal};

const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

const DAY_S: u64 = 86_400;
/// 9999-12-31 23:59:59, the last second that the format can express.
const LAST_S: u64 = 253_402_300_799;

/// Formats `unix_s` as `Sun, 06 Nov 1994 08:49:37 GMT`. Times after the year 9999 become its last second.
#[must_use]
pub fn imf_fixdate(unix_s: u64) -> [u8; 29] {
    let unix_s = unix_s.min(LAST_S);
    let days = unix_s / DAY_S;
    let second = (unix_s % DAY_S) as u32;
    let (year, month, day) = civil(days);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[0..3].copy_from_slice(DAYS[(days % 7) as usize]);
    text[5..7].copy_from_slice(&pair(day));
    text[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    text[12..14].copy_from_slice(&pair(year / 100));
    text[14..16].copy_from_slice(&pair(year % 100));
    text[17..19].copy_from_slice(&pair(second / 3600));
    text[20..22].copy_from_slice(&pair(second / 60 % 60));
    text[23..25].copy_from_slice(&pair(second % 60));
    text
}

/// Parses a date in any of the three formats that a recipient must accept. Returns `None` for another format or a date
/// before 1970.
///
/// `now_s` decides the century of the two-digit year in RFC 850 dates. The name of the day is not checked.
#[must_use]
pub fn parse(text: &[u8], now_s: u64) -> Option<u64> {
    let comma = text.iter().position(|&byte| byte == b',');
    match comma {
        // Sun, 06 Nov 1994 08:49:37 GMT
        Some(3) if text.len() == 29 => {
            let (date, zone) = text[5..].split_at(20);
            let spaces = [text[4], date[2], date[6], date[11]];
            if spaces != *b"    " || zone != b" GMT" {
                return None;
            }
            seconds(&date[7..11], &date[3..6], &date[0..2], &date[12..20])
        }
        // Sunday, 06-Nov-94 08:49:37 GMT
        Some(at) => {
            let date = text[at + 1..].strip_prefix(b" ")?.strip_suffix(b" GMT")?;
            if date.len() != 18 || date[2] != b'-' || date[6] != b'-' || date[9] != b' ' {
                return None;
            }
            let short = parse_decimal(&date[7..9])?;
            let this_year = u64::from(civil(now_s.min(LAST_S) / DAY_S).0);
            // A date more than 50 years in the future belongs to the most recent past year with these digits (RFC 9110,
            // section 5.6.7).
            let mut year = this_year - this_year % 100 + short;
            if year > this_year + 50 {
                year -= 100;
            }
            seconds(
                format!("{year:04}").as_bytes(),
                &date[3..6],
                &date[0..2],
                &date[10..18],
            )
        }
        // Sun Nov  6 08:49:37 1994
        None if text.len() == 24 => {
            if text[3] != b' ' || text[7] != b' ' || text[10] != b' ' || text[19] != b' ' {
                return None;
            }
            let day = if text[8] == b' ' {
                &text[9..10]
            } else {
                &text[8..10]
            };
            seconds(&text[20..24], &text[4..7], day, &text[11..19])
        }
        None => None,
    }
}

fn seconds(year: &[u8], month: &[u8], day: &[u8], time: &[u8]) -> Option<u64> {
    let year = parse_decimal(year)?;
    let month = MONTHS.iter().position(|name| &name[..] == month)? as u64 + 1;
    let day = parse_decimal(day)?;
    if time[2] != b':' || time[5] != b':' {
        return None;
    }
    let (hour, minute, second) = (
        parse_decimal(&time[0..2])?,
        parse_decimal(&time[3..5])?,
        parse_decimal(&time[6..8])?,
    );
    // 60 is a leap second. Unix time gives it the same number as the following second.
    if year < 1970
        || day == 0
        || day > month_days(year, month)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    Some(days_since_1970(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second)
}

fn leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn month_days(year: u64, month: u64) -> u64 {
    match month {
        2 if leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the number of days from 1970-01-01; `year` must be 1970 or later.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let before = year - 1;
    let leaps = before / 4 - before / 100 + before / 400 - 477;
    let months: u64 = (1..month).map(|month| month_days(year, month)).sum();
    (year - 1970) * 365 + leaps + months + day - 1
}

/// Returns year, month and day of a day number counted from 1970-01-01 (proleptic Gregorian calendar).
///
/// Counts from 1 March of year 0: the leap day is then the last day of a year, and all months follow one formula.
fn civil(days: u64) -> (u32, u32, u32) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year as u32, month as u32, day as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_795_000_000;

    #[test]
    fn known_dates() {
        let cases: &[(u64, &str)] = &[
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for &(unix_s, text) in cases {
            assert_eq!(std::str::from_utf8(&imf_fixdate(unix_s)), Ok(text));
            assert_eq!(parse(text.as_bytes(), NOW_S), Some(unix_s));
        }
        assert_eq!(imf_fixdate(u64::MAX), imf_fixdate(LAST_S));
    }

    #[test]
    fn every_day_reads_back() {
        for day in 0..(LAST_S / DAY_S) {
            let unix_s = day * DAY_S + day % DAY_S;
            assert_eq!(parse(&imf_fixdate(unix_s), NOW_S), Some(unix_s));
        }
    }

    #[test]
    fn old_forms() {
        assert_eq!(
            parse(b"Sunday, 06-Nov-94 08:49:37 GMT", NOW_S),
            Some(784_111_777)
        );
        assert_eq!(parse(b"Sun Nov  6 08:49:37 1994", NOW_S), Some(784_111_777));
        assert_eq!(parse(b"Wed Nov 16 08:49:37 1994", NOW_S), Some(784_975_777));
    }

    #[test]
    fn refuses_what_is_no_date() {
        for bad in [
            "",
            "0",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 1999 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 1994 08-49-37 GMT",
            "Sun,x06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37",
            "Sun Nov  6 08:49:37 19x4",
        ] {
            assert_eq!(parse(bad.as_bytes(), NOW_S), None, "{bad}");
        }
    }
}
