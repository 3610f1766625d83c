//! The addresses of this machine that clients have connected to.
//!
//! A program that reads `SERVER_ADDR` asks for it with every request, and the kernel's answer costs a system call. Machines have
//! few addresses, so a connection remembers in one byte which of them is its own.

use std::net::SocketAddr;

/// How many a worker remembers: as many as a byte can tell apart from [`OwnAddress::UNKNOWN`]. The kernel is asked each time for
/// others.
const ADDRESSES_MAX: usize = u8::MAX as usize;

/// Which of the addresses a connection has been made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnAddress(u8);

impl OwnAddress {
    /// The kernel has not been asked yet.
    pub const UNKNOWN: OwnAddress = OwnAddress(u8::MAX);
}

/// Those of a worker, in the order in which they were first asked for.
#[derive(Debug, Default)]
pub(crate) struct OwnAddresses(Vec<SocketAddr>);

impl OwnAddresses {
    pub fn get(&self, which: OwnAddress) -> Option<SocketAddr> {
        self.0.get(usize::from(which.0)).copied()
    }

    /// Remembers an address; [`OwnAddress::UNKNOWN`] when there are too many.
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
    fn an_address_is_kept_once_and_no_more_than_a_byte_can_name() {
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
