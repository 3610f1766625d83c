//! Local addresses to which clients have connected.
//!
//! An application that reads `SERVER_ADDR` needs it for every request, and querying the kernel
//! costs a system call. A machine has few addresses, so a connection stores the index of its
//! address in one byte.

use std::net::SocketAddr;

/// Maximum number of stored addresses: the values of a byte other than [`OwnAddress::UNKNOWN`].
/// Further addresses are queried each time.
const ADDRESSES_MAX: usize = u8::MAX as usize;

/// Index of a connection's local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnAddress(u8);

impl OwnAddress {
    /// The address was not queried yet.
    pub const UNKNOWN: OwnAddress = OwnAddress(u8::MAX);
}

/// The addresses of a worker, in order of their first query.
#[derive(Debug, Default)]
pub(crate) struct OwnAddresses(Vec<SocketAddr>);

impl OwnAddresses {
    pub fn get(&self, which: OwnAddress) -> Option<SocketAddr> {
        self.0.get(usize::from(which.0)).copied()
    }

    /// Stores an address; returns [`OwnAddress::UNKNOWN`] if there are too many.
    pub fn note(&mut self, address: SocketAddr) -> OwnAddress {
        if let Some(at) = self.0.iter().position(|it| *it == address) {
            return OwnAddress(at as u8);
        }
        if self.0.len() == ADDRESSES_MAX {
            return OwnAddress::UNKNOWN;
        }
        self.0.push(address);
        OwnAddress((self.0.len() - 1) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_each_address_once_up_to_255() {
        let mut addresses = OwnAddresses::default();
        let of_port = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(addresses.get(OwnAddress::UNKNOWN), None);
        for port in 0..255 {
            let which = addresses.note(of_port(port));
            assert_eq!(addresses.note(of_port(port)), which);
            assert_eq!(addresses.get(which), Some(of_port(port)));
        }
        assert_eq!(addresses.note(of_port(255)), OwnAddress::UNKNOWN);
        assert_eq!(addresses.note(of_port(254)), OwnAddress(254));
        assert_eq!(addresses.0.len(), ADDRESSES_MAX);
    }
}
