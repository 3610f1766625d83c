//! Parses and formats the `traceparent` header (W3C Trace Context), which carries the sender's trace.

/// Length of a version 00 header in bytes: `00-` trace id `-` parent id `-` flags.
const BYTES: usize = 55;

/// Flag `sampled`: the sender may have recorded the request.
const SAMPLED: u8 = 1;

/// A well-formed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent<'a> {
    /// 32 lower-case hexadecimal digits, not all zero.
    pub trace_id: &'a [u8],
    /// Span of the sender: 16 lower-case hexadecimal digits, not all zero.
    pub parent_id: &'a [u8],
    /// True if the sender may have recorded the request.
    pub is_sampled: bool,
}

impl<'a> TraceParent<'a> {
    /// Parses the value of a header. Returns `None` if it is malformed; the receiver then starts a new trace.
    ///
    /// A later version may append fields after another hyphen; they are ignored.
    #[must_use]
    pub fn parse(value: &'a [u8]) -> Option<TraceParent<'a>> {
        let (head, rest) = value.split_at_checked(BYTES)?;
        let (version, trace_id, parent_id, flags) =
            (&head[..2], &head[3..35], &head[36..52], &head[53..]);
        let has_hyphens = [2, 35, 52].iter().all(|at| head[*at] == b'-');
        let is_hexadecimal = [version, trace_id, parent_id, flags]
            .iter()
            .all(|part| part.iter().all(|byte| digit(*byte).is_some()));
        let is_of_version = match version {
            b"ff" => false,
            b"00" => rest.is_empty(),
            _ => rest.first().is_none_or(|byte| *byte == b'-'),
        };
        let is_something = |id: &[u8]| id.iter().any(|byte| *byte != b'0');
        if !(has_hyphens
            && is_hexadecimal
            && is_of_version
            && is_something(trace_id)
            && is_something(parent_id))
        {
            return None;
        }
        Some(TraceParent {
            trace_id,
            parent_id,
            is_sampled: digit(flags[1])? & SAMPLED != 0,
        })
    }

    /// Returns the header that forwards the trace with the `sampled` flag cleared.
    #[must_use]
    pub fn unsampled(self) -> String {
        let text = |digits| String::from_utf8_lossy(digits);
        format!("00-{}-{}-00", text(self.trace_id), text(self.parent_id))
    }
}

/// Returns the value of a lower-case hexadecimal digit; the header allows no other digits.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn is_valid(value: &str) -> bool {
        TraceParent::parse(value.as_bytes()).is_some()
    }

    #[test]
    fn the_example_of_the_specification_is_read() {
        let read = TraceParent::parse(GOOD.as_bytes()).expect("valid");
        assert_eq!(read.trace_id, b"4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(read.parent_id, b"00f067aa0ba902b7");
        assert!(read.is_sampled);
    }

    #[test]
    fn the_last_flag_means_sampled() {
        for (flags, is_sampled) in [("00", false), ("02", false), ("03", true), ("fe", false)] {
            let value = format!("{}{flags}", &GOOD[..53]);
            let read = TraceParent::parse(value.as_bytes()).expect("valid");
            assert_eq!(read.is_sampled, is_sampled, "{flags}");
        }
    }

    #[test]
    fn forwards_a_trace_unsampled() {
        let read = TraceParent::parse(GOOD.as_bytes()).expect("valid");
        assert_eq!(read.unsampled(), format!("{}00", &GOOD[..53]));
    }

    #[test]
    fn rejects_malformed_headers() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_parent = GOOD.replace("00f067aa0ba902b7", &"0".repeat(16));
        let others = [
            "",
            "00",
            &GOOD[..54],
            &GOOD.to_uppercase(),
            &GOOD.replace('-', "_"),
            &GOOD.replace("4bf9", "4bg9"),
            &GOOD.replacen("00-", "ff-", 1),
            &format!("{GOOD}-00"),
            &format!("{GOOD}, {GOOD}"),
            &format!(" {GOOD}"),
            &zero_trace,
            &zero_parent,
        ];
        for value in others {
            assert!(!is_valid(value), "{value}");
        }
    }

    #[test]
    fn a_later_version_may_say_more() {
        let later = GOOD.replacen("00-", "cc-", 1);
        assert!(is_valid(&later));
        assert!(is_valid(&format!("{later}-what-the-future-says")));
        assert!(!is_valid(&format!("{later}.what")));
    }
}
