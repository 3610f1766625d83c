//! Lists of networks in settings: addresses, CIDR ranges, and `unix`.

use std::net::IpAddr;
use std::str::FromStr as _;

use crate::value_error::NetworkError;

/// List of networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    ranges: Vec<Range>,
    has_unix: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: IpAddr,
    prefix_bits: u8,
}

impl Networks {
    /// Parses `127.0.0.1, 10.0.0.0/8, fd00::/8, unix`. The error text completes "that is …".
    pub(crate) fn parse(text: &str) -> Result<Networks, NetworkError> {
        let mut networks = Networks::default();
        if text.trim().is_empty() {
            return Ok(networks);
        }
        for part in text.split(',').map(str::trim) {
            if part.is_empty() {
                return Err(NetworkError::EmptyPlace);
            }
            if part == "unix" {
                networks.has_unix = true;
            } else {
                networks.ranges.push(Range::parse(part)?);
            }
        }
        Ok(networks)
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && !self.has_unix
    }

    /// Returns true if a network contains the address; `None` is a peer on a Unix socket.
    pub fn contains(&self, address: Option<IpAddr>) -> bool {
        match address {
            None => self.has_unix,
            Some(address) => {
                let address = address.to_canonical();
                self.ranges.iter().any(|range| range.contains(address))
            }
        }
    }

    /// Formats the list as text that `parse` accepts.
    pub(crate) fn text(&self) -> String {
        let ranges = self.ranges.iter();
        let mut parts: Vec<String> = ranges
            .map(|range| format!("{}/{}", range.first, range.prefix_bits))
            .collect();
        if self.has_unix {
            parts.push("unix".to_owned());
        }
        parts.join(",")
    }
}

impl Range {
    fn parse(text: &str) -> Result<Range, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let first = IpAddr::from_str(address).map_err(|_| NetworkError::Form(text.to_owned()))?;
        let bits_max = if first.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix {
            None => bits_max,
            Some(prefix) => prefix
                .parse::<u8>()
                .ok()
                .filter(|bits| {
                    *bits <= bits_max && prefix.bytes().all(|byte| byte.is_ascii_digit())
                })
                .ok_or_else(|| NetworkError::Prefix {
                    text: text.to_owned(),
                    bits_max,
                })?,
        };
        if bits(first) & !mask(prefix_bits, bits_max) != 0 {
            return Err(NetworkError::HostBits(text.to_owned()));
        }
        Ok(Range { first, prefix_bits })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let bits_max = if self.first.is_ipv4() { 32 } else { 128 };
        self.first.is_ipv4() == address.is_ipv4()
            && bits(address) & mask(self.prefix_bits, bits_max) == bits(self.first)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Returns a mask of the first `prefix_bits` of `bits_max` bits.
fn mask(prefix_bits: u8, bits_max: u8) -> u128 {
    let all = u128::MAX >> (128 - bits_max);
    all & !all.checked_shr(u32::from(prefix_bits)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(networks: &str, address: &str) -> bool {
        let networks = Networks::parse(networks).expect(networks);
        networks.contains(address.parse().ok())
    }

    #[test]
    fn addresses_and_ranges_of_both_kinds() {
        for (networks, address, is_in) in [
            ("", "127.0.0.1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "8.8.8.8", false),
            ("::/0", "::1", true),
            ("192.168.4.0/22, ::1", "192.168.7.255", true),
            ("192.168.4.0/22, ::1", "192.168.8.0", false),
            ("192.168.4.0/22, ::1", "::1", true),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fc00::1", false),
        ] {
            assert_eq!(
                contains(networks, address),
                is_in,
                "{address} in {networks}"
            );
        }
        assert!(contains("unix", "a socket"));
        assert!(!contains("0.0.0.0/0,::/0", "a socket"));
    }

    #[test]
    fn what_is_no_network_is_named() {
        for text in [
            ",",
            "127.0.0.1,",
            "localhost",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0.0/",
            "10.0.0.1/8",
            "::1/64",
            "10.0.0",
            "/8",
            "::/129",
        ] {
            assert!(Networks::parse(text).is_err(), "{text}");
        }
        let text = "127.0.0.1/32,fd00::/8,unix";
        assert_eq!(
            Networks::parse(text).map(|is| is.text()),
            Ok(text.to_owned())
        );
    }
}
