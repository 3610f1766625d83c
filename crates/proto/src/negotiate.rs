//! Content negotiation: content codings (RFC 9110, section 12.5.3) and media types (section 12.5.1).

/// A supported content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// `br` (RFC 7932)
    Brotli,
    /// `zstd` (RFC 8878)
    Zstd,
    /// `gzip` (RFC 1952)
    Gzip,
}

impl Coding {
    /// All supported codings.
    pub const ALL: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

    /// Returns the coding's name in `Content-Encoding`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }
}

/// Weight of a list item (its `q` parameter) in thousandths; 0 means not acceptable.
type Weight = u16;

/// A parsed `Accept-Encoding` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codings {
    /// Weights indexed by `Coding`.
    weights: [Weight; 3],
    /// Weight of the uncompressed form. `None`: not mentioned, acceptable if no coding of the client is available.
    identity: Option<Weight>,
}

impl Codings {
    /// Codings of a client that sent no `Accept-Encoding`: it receives the uncompressed form.
    pub const NONE: Codings = Codings {
        weights: [0; 3],
        identity: None,
    };

    /// Parses the value of `Accept-Encoding`. Skips malformed items.
    #[must_use]
    pub fn parse(value: &[u8]) -> Codings {
        let mut named = [None; 3];
        let mut identity = None;
        let mut others = None;
        for (name, weight) in items(value) {
            if name.eq_ignore_ascii_case(b"identity") {
                identity = Some(weight);
            } else if name == b"*" {
                others = Some(weight);
            } else if let Some(coding) = coding(name) {
                named[coding as usize] = Some(weight);
            }
        }
        Codings {
            weights: named.map(|weight| weight.or(others).unwrap_or(0)),
            // `*` with a weight of 0 forbids `identity`. With any other weight it does not apply to `identity`.
            identity: identity.or(others.filter(|&weight| weight == 0)),
        }
    }

    /// Returns the coding of `available` with the highest weight; on a tie the first one. `None` means no coding.
    ///
    /// A client that accepts neither an available coding nor `identity` gets the uncompressed form, which is more useful
    /// than a 406 response.
    #[must_use]
    pub fn best(&self, available: impl IntoIterator<Item = Coding>) -> Option<Coding> {
        let mut best = None;
        // Start below the weight of `identity`, so that a coding of the same weight is preferred to it.
        let mut best_weight = self.identity.unwrap_or(1).saturating_sub(1);
        for coding in available {
            let weight = self.weights[coding as usize];
            if weight > best_weight {
                (best, best_weight) = (Some(coding), weight);
            }
        }
        best
    }

    /// Returns true if the client accepts no coding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.weights == [0; 3]
    }
}

/// Format of an error page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorFormat {
    /// `text/plain`
    Text,
    /// `text/html`
    Html,
    /// `application/json`
    Json,
}

impl ErrorFormat {
    /// Returns the format that a client with this `Accept` header prefers: by weight, then by the more specific media
    /// range, then by order in the header. Returns text if the header prefers none.
    #[must_use]
    pub fn for_client(accept: Option<&[u8]>) -> ErrorFormat {
        let formats = [
            (ErrorFormat::Text, &b"text/plain"[..]),
            (ErrorFormat::Html, b"text/html"),
            (ErrorFormat::Json, b"application/json"),
        ];
        let mut best = (ErrorFormat::Text, Liking::default());
        for (format, media_type) in formats {
            let liking = Liking::of(accept.unwrap_or(b""), media_type);
            if liking > best.1 {
                best = (format, liking);
            }
        }
        best.0
    }
}

/// Preference of a client for a media type. The order of the fields is the order of comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Liking {
    weight: Weight,
    /// 3: exact type, 2: `text/*`, 1: `*/*`.
    exactness: u8,
    earliness: usize,
}

impl Liking {
    fn of(accept: &[u8], media_type: &[u8]) -> Liking {
        let slash = media_type.iter().position(|&byte| byte == b'/');
        let family = &media_type[..slash.map_or(0, |slash| slash + 1)];
        let mut liking = Liking::default();
        for (at, (range, weight)) in items(accept).enumerate() {
            let exactness = if range.eq_ignore_ascii_case(media_type) {
                3
            } else if range
                .strip_suffix(b"*")
                .is_some_and(|start| start.eq_ignore_ascii_case(family))
            {
                2
            } else if range == b"*/*" {
                1
            } else {
                continue;
            };
            // The most specific media range applies (RFC 9110, section 12.5.1).
            if exactness > liking.exactness {
                liking = Liking {
                    weight,
                    exactness,
                    earliness: usize::MAX - at,
                };
            }
        }
        liking
    }
}

fn coding(name: &[u8]) -> Option<Coding> {
    // `x-gzip` is equivalent to `gzip` (RFC 9110, section 8.4.1.3).
    if name.eq_ignore_ascii_case(b"x-gzip") {
        return Some(Coding::Gzip);
    }
    Coding::ALL
        .into_iter()
        .find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
}

/// Returns the items of a weighted list, without parameters other than the weight. Skips items with a malformed weight.
fn items(list: &[u8]) -> impl Iterator<Item = (&[u8], Weight)> {
    list.split(|&byte| byte == b',').filter_map(|item| {
        let mut parts = item.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let weight = parts.find_map(|part| match part {
            [b'q' | b'Q', b'=', text @ ..] => Some(text),
            _ => None,
        });
        Some((name, weight.map_or(Some(1_000), self::weight)?))
    })
}

/// Parses `0`, `1` or a number with up to three decimals; the maximum is 1.
fn weight(text: &[u8]) -> Option<Weight> {
    let (whole, digits) = match text {
        [whole] => (whole, &[][..]),
        [whole, b'.', digits @ ..] if digits.len() <= 3 => (whole, digits),
        _ => return None,
    };
    let mut value = match whole {
        b'0' => 0,
        b'1' => 1_000,
        _ => return None,
    };
    for (digit, place) in digits.iter().zip([100, 10, 1]) {
        if !digit.is_ascii_digit() {
            return None;
        }
        value += Weight::from(digit - b'0') * place;
    }
    (value <= 1_000).then_some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_best_coding_is_chosen() {
        use Coding::{Brotli, Gzip, Zstd};
        for (value, expected) in [
            ("gzip, deflate, br, zstd", Some(Brotli)),
            ("gzip, deflate", Some(Gzip)),
            ("br;q=0.5, gzip", Some(Gzip)),
            ("br;q=0.5, gzip;q=0.501", Some(Gzip)),
            ("zstd", Some(Zstd)),
            ("X-GZIP", Some(Gzip)),
            ("*", Some(Brotli)),
            ("br;q=0, *", Some(Zstd)),
            ("*;q=0", None),
            ("br;q=0", None),
            ("", None),
            ("identity", None),
            ("identity;q=0.5, gzip;q=0.4", None),
            ("identity;q=0.5, gzip;q=0.5", Some(Gzip)),
            ("identity;q=0, gzip;q=0.001", Some(Gzip)),
            ("gzip;q=0.001", Some(Gzip)),
            ("gzip ; q=1.000 , br; Q=0.9", Some(Gzip)),
            ("gzip;q=1.001", None),
            ("gzip;q=2", None),
            ("gzip;q=", None),
            ("gzip;q=0.0001", None),
            ("gzip;q=-1", None),
            ("gzippy, brr", None),
            (",;,;q=1,", None),
        ] {
            let found = Codings::parse(value.as_bytes()).best(Coding::ALL);
            assert_eq!(found, expected, "{value}");
        }
        let codings = Codings::parse(b"br, zstd, gzip");
        assert_eq!(codings.best([Gzip]), Some(Gzip));
        assert_eq!(codings.best([]), None);
        assert!(!codings.is_empty() && Codings::NONE.is_empty());
    }

    #[test]
    fn error_format_follows_accept() {
        use ErrorFormat::{Html, Json, Text};
        for (accept, expected) in [
            (None, Text),
            (Some(""), Text),
            (Some("*/*"), Text),
            (Some("text/*"), Text),
            (Some("application/json"), Json),
            (Some("application/*"), Json),
            (Some("application/json, text/plain, */*"), Json),
            (Some("text/plain, application/json"), Text),
            (Some("application/json;q=0.1, text/html;q=0.2"), Html),
            (Some("text/html;q=0, */*"), Text),
            (
                Some("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"),
                Html,
            ),
            (Some("image/png"), Text),
        ] {
            let found = ErrorFormat::for_client(accept.map(str::as_bytes));
            assert_eq!(found, expected, "{accept:?}");
        }
    }

    proptest! {
        #[test]
        fn the_heaviest_coding_wins(weights in prop::array::uniform4(0u16..=1000)) {
            let text = |weight: u16| format!("{}.{:03}", weight / 1000, weight % 1000);
            let [br, zstd, gzip, identity] = weights;
            let value = format!(
                "br;q={}, zstd;q={},gzip; q={} ,identity;q={}",
                text(br), text(zstd), text(gzip), text(identity),
            );
            let heaviest = br.max(zstd).max(gzip);
            let expected = if heaviest == 0 || heaviest < identity {
                None
            } else {
                Coding::ALL.into_iter().find(|&coding| weights[coding as usize] == heaviest)
            };
            prop_assert_eq!(Codings::parse(value.as_bytes()).best(Coding::ALL), expected);
        }

        #[test]
        fn any_bytes_are_read(value in prop::collection::vec(any::<u8>(), 0..64)) {
            let codings = Codings::parse(&value);
            let best = codings.best(Coding::ALL);
            prop_assert!(best.is_none_or(|coding| codings.weights[coding as usize] > 0));
            let _ = ErrorFormat::for_client(Some(&value));
        }
    }
}
