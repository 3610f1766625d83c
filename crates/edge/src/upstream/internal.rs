//! Internal addresses: links of origins must not make the edge connect to them.

use std::net::{IpAddr, Ipv4Addr};

/// Returns true for loopback, private, link-local and other internal addresses, which untrusted targets must not have.
pub(crate) fn is_internal(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            // 0.0.0.0 reaches this machine; 100.64.0.0/10 is shared address space (RFC 6598).
            let is_shared = first == 100 && (64..128).contains(&second);
            first == 0
                || is_shared
                || v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_broadcast()
        }
        IpAddr::V6(v6) => {
            let segments = v6.segments();
            // IPv4 in IPv6: mapped, compatible (which includes :: and ::1) or translated (RFC 6052).
            let translated = (segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0]).then(|| {
                Ipv4Addr::from_bits(u32::from(segments[6]) << 16 | u32::from(segments[7]))
            });
            match v6.to_ipv4().or(translated) {
                Some(v4) => is_internal(IpAddr::V4(v4)),
                // 64:ff9b:1::/48 is for address translation within one network (RFC 8215).
                None => {
                    segments[..3] == [0x64, 0xff9b, 1]
                        || v6.is_unique_local()
                        || v6.is_unicast_link_local()
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_and_its_network_are_internal() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("0.0.0.0", true),
            ("0.1.2.3", true),
            ("10.1.2.3", true),
            ("100.64.0.1", true),
            ("100.128.0.1", false),
            ("169.254.169.254", true),
            ("93.184.216.34", false),
            ("::", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:93.184.216.34", false),
            ("64:ff9b::7f00:1", true),
            ("64:ff9b::5db8:d822", false),
            ("64:ff9b:1::1", true),
            ("fd00::1", true),
            ("fe80::1", true),
            ("2606:2800::1", false),
        ] {
            let parsed = address.parse().expect("an address");
            assert_eq!(is_internal(parsed), expected, "{address}");
        }
    }
}
