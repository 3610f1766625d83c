//! Addresses of origins. A name is looked up when it is first needed and again when its addresses fail or are old; an
//! address is itself.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// How long the addresses of a name are believed.
const AGE_MS_MAX: u64 = 60_000;

/// How soon a name is looked up again when its addresses fail.
const RETRY_MS: u64 = 5_000;

/// Names that are remembered.
const NAMES_MAX: usize = 1_024;

/// What is known of names.
#[derive(Debug, Default)]
pub(super) struct Resolver(HashMap<String, Known>);

#[derive(Debug)]
struct Known {
    addresses: Vec<IpAddr>,
    since_ms: u64,
    has_failed: bool,
}

impl Resolver {
    /// The addresses of a host, the most useful first.
    ///
    /// A name is looked up here and now, which the loop waits for: names of origins belong into `/etc/hosts` or to a
    /// resolver nearby.
    ///
    /// # Errors
    /// The name has none.
    pub fn find(&mut self, host: &str, port: u16, now_ms: u64) -> Result<Vec<SocketAddr>, String> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let is_fresh = self.0.get(host).is_some_and(|known| {
            let age_ms = now_ms.saturating_sub(known.since_ms);
            age_ms
                < if known.has_failed {
                    RETRY_MS
                } else {
                    AGE_MS_MAX
                }
        });
        if !is_fresh {
            if self.0.len() >= NAMES_MAX {
                // Links name hosts, too, and any number of them.
                self.0.clear();
            }
            let found = (host, port).to_socket_addrs();
            let mut addresses: Vec<IpAddr> = match found {
                Ok(found) => found.map(|address| address.ip()).collect(),
                // Old addresses are better than none.
                Err(_) if self.0.contains_key(host) => Vec::new(),
                // Remembered, or each request would wait for the same answer again.
                Err(error) => {
                    let known = Known {
                        addresses: Vec::new(),
                        since_ms: now_ms,
                        has_failed: true,
                    };
                    self.0.insert(host.to_owned(), known);
                    return Err(format!("{host} has no address: {error}"));
                }
            };
            // Servers on the machine itself listen there at least.
            addresses.sort_by_key(IpAddr::is_ipv6);
            addresses.dedup();
            let known = self.0.entry(host.to_owned()).or_insert(Known {
                addresses: Vec::new(),
                since_ms: now_ms,
                has_failed: false,
            });
            if !addresses.is_empty() {
                known.addresses = addresses;
            }
            known.since_ms = now_ms;
            known.has_failed = known.addresses.is_empty();
        }
        match self.0.get(host) {
            Some(known) if !known.addresses.is_empty() => Ok(known
                .addresses
                .iter()
                .map(|&address| SocketAddr::new(address, port))
                .collect()),
            _ => Err(format!("{host} has no address")),
        }
    }

    /// The addresses of a host do not answer.
    pub fn failed(&mut self, host: &str) {
        if let Some(known) = self.0.get_mut(host) {
            known.has_failed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_address_is_not_looked_up_each_time() {
        let mut resolver = Resolver::default();
        // RFC 6761: it never has one.
        let name = "fermata.invalid";
        assert!(resolver.find(name, 80, 0).is_err());
        let known = resolver.0.get(name).expect("remembered");
        assert!(known.has_failed && known.addresses.is_empty());
        assert_eq!(
            resolver.find(name, 80, RETRY_MS - 1),
            Err(format!("{name} has no address"))
        );
        assert_eq!(resolver.0.get(name).map(|it| it.since_ms), Some(0));
    }
}
