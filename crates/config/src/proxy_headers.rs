//! Headers in which proxies pass the client's address, scheme and host.

use crate::value_error::ProxyHeadersError;

/// Header that a proxy may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHeader {
    /// `Forwarded` (RFC 7239): client address, scheme and host.
    Forwarded,
    /// `X-Forwarded-For`: client address.
    For,
    /// `X-Forwarded-Proto`: scheme.
    Proto,
    /// `X-Forwarded-Host`: host.
    Host,
}

impl ProxyHeader {
    const ALL: [ProxyHeader; 4] = [Self::Forwarded, Self::For, Self::Proto, Self::Host];

    /// Returns the header name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::For => "x-forwarded-for",
            Self::Proto => "x-forwarded-proto",
            Self::Host => "x-forwarded-host",
        }
    }
}

/// Headers that the proxies in front of a server set; at least one. Other proxy headers may come from clients and are not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyHeaders {
    written: Vec<ProxyHeader>,
}

impl ProxyHeaders {
    /// Parses a list of header names, such as `x-forwarded-for, x-forwarded-proto`.
    pub(crate) fn parse(text: &str) -> Result<ProxyHeaders, ProxyHeadersError> {
        let mut written = Vec::new();
        for part in text.split(',').map(str::trim) {
            let header = ProxyHeader::ALL
                .into_iter()
                .find(|header| part.eq_ignore_ascii_case(header.name()))
                .ok_or_else(|| ProxyHeadersError::Unknown(part.to_owned()))?;
            if written.contains(&header) {
                return Err(ProxyHeadersError::Twice(part.to_owned()));
            }
            written.push(header);
        }
        Ok(ProxyHeaders { written })
    }

    /// Returns true if the proxies set this header.
    pub fn contains(&self, header: ProxyHeader) -> bool {
        self.written.contains(&header)
    }

    /// Returns true if the proxies set any `X-Forwarded` header.
    pub fn has_customary(&self) -> bool {
        self.written.iter().any(|it| *it != ProxyHeader::Forwarded)
    }

    /// Formats the list as text that `parse` accepts.
    pub(crate) fn text(&self) -> String {
        let names: Vec<&str> = self.written.iter().map(|it| it.name()).collect();
        names.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_back() {
        for text in [
            "forwarded",
            "x-forwarded-for,x-forwarded-proto,x-forwarded-host",
        ] {
            let headers = ProxyHeaders::parse(text).expect(text);
            assert_eq!(headers.text(), text);
        }
        let headers = ProxyHeaders::parse("X-Forwarded-For, x-forwarded-host").expect("a list");
        assert!(headers.contains(ProxyHeader::Host) && !headers.contains(ProxyHeader::Proto));
        assert!(headers.has_customary());
    }

    #[test]
    fn what_is_no_such_list_is_named() {
        for text in ["", "x-real-ip", "forwarded,", "forwarded,forwarded"] {
            assert!(ProxyHeaders::parse(text).is_err(), "{text}");
        }
    }
}
