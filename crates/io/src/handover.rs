//! Handing a connection from one process to another.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use crate::descriptors::lift;
use crate::driver::{Accepted, Fd, Peer, borrow};

/// A message: which kind of address, port, address.
const MESSAGE_BYTES: usize = 19;

/// What [`Inbox::take`] has found.
#[derive(Debug)]
pub enum Taken {
    /// Nothing is left.
    Nothing,
    /// A connection.
    Connection(Accepted),
    /// That a connection was there, which is lost: this process had no descriptor left for it.
    Lost,
}

/// Where one process finds the connections that others have handed to it. Made before the fork, so
/// that every process can fill every other one's; what is in it outlives its owner.
#[derive(Debug)]
pub struct Inbox {
    read_end: OwnedFd,
    write_end: OwnedFd,
}

impl Inbox {
    /// What each takes of every process that can fill it.
    pub const DESCRIPTORS: usize = 2;

    /// Makes an empty one.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn new() -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let kind = SocketType::SEQPACKET;
        let (read_end, write_end) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok(Self {
            read_end,
            write_end,
        })
    }

    /// Puts a connection in. The sender closes its own descriptor afterwards, and keeps the connection
    /// on an error.
    ///
    /// # Errors
    /// The inbox is full (some hundred connections), or the kernel has no room for descriptors in
    /// flight.
    pub fn put(&self, fd: Fd, peer: Peer) -> io::Result<()> {
        let message = encode(peer);
        let fds = [borrow(fd)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(
            &self.write_end,
            &[IoSlice::new(&message)],
            &mut control,
            flags,
        )?;
        Ok(())
    }

    /// Takes the oldest connection out.
    #[must_use]
    pub fn take(&self) -> Taken {
        loop {
            let mut message = [0; MESSAGE_BYTES];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut pieces = [IoSliceMut::new(&mut message)];
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            match recvmsg(&self.read_end, &mut pieces, &mut control, flags) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return Taken::Nothing,
                Ok(read) if read.bytes == 0 => return Taken::Nothing,
                Ok(_) => {}
            }
            let fd = control.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
                _ => None,
            });
            return match fd {
                Some(fd) => Taken::Connection(Accepted {
                    fd: lift(fd).into_raw_fd(),
                    peer: decode(&message),
                }),
                None => Taken::Lost,
            };
        }
    }

    /// Puts in what is left of a connection when its taker has no descriptor for it.
    pub(crate) fn put_lost(&self) -> io::Result<()> {
        rustix::io::write(&self.write_end, &encode(Peer::Unix))?;
        Ok(())
    }

    /// What to give to [`crate::Driver::add_wake`].
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.read_end.as_fd().as_raw_fd()
    }
}

fn encode(peer: Peer) -> [u8; MESSAGE_BYTES] {
    let mut message = [0; MESSAGE_BYTES];
    message[1..3].copy_from_slice(&peer.port().to_le_bytes());
    match peer {
        Peer::Unix => {}
        Peer::V4(address, _) => {
            message[0] = 4;
            message[3..7].copy_from_slice(&address.octets());
        }
        Peer::V6(address, _) => {
            message[0] = 6;
            message[3..].copy_from_slice(&address.octets());
        }
    }
    message
}

fn decode(message: &[u8; MESSAGE_BYTES]) -> Peer {
    let port = u16::from_le_bytes([message[1], message[2]]);
    let mut octets = [0; 16];
    octets.copy_from_slice(&message[3..]);
    match message[0] {
        4 => Peer::V4(
            Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]),
            port,
        ),
        6 => Peer::V6(Ipv6Addr::from(octets), port),
        _ => Peer::Unix,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::FromRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_connection_arrives_with_its_peer_in_the_order_it_was_put() {
        let inbox = Inbox::new().expect("descriptors are left");
        assert!(matches!(inbox.take(), Taken::Nothing));
        let peers = [
            Peer::V4(Ipv4Addr::new(192, 0, 2, 1), 8080),
            Peer::V6(Ipv6Addr::LOCALHOST, 81),
            Peer::Unix,
        ];
        let mut ends = Vec::new();
        for peer in peers {
            let (ours, theirs) = UnixStream::pair().expect("descriptors are left");
            inbox.put(theirs.as_raw_fd(), peer).expect("it has room");
            ends.push(ours);
        }
        for (peer, mut end) in peers.into_iter().zip(ends) {
            let Taken::Connection(taken) = inbox.take() else {
                panic!("it was put in");
            };
            assert_eq!(taken.peer, peer);
            // SAFETY: received just now, and owned by nobody else.
            let mut stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(taken.fd) });
            stream.write_all(b"x").expect("it is connected");
            let mut byte = [0];
            end.read_exact(&mut byte).expect("it is the same pair");
        }
        assert!(matches!(inbox.take(), Taken::Nothing));
    }

    #[test]
    fn a_connection_that_came_without_its_descriptor_is_told_and_the_next_is_taken() {
        let inbox = Inbox::new().expect("descriptors are left");
        let (_ours, theirs) = UnixStream::pair().expect("descriptors are left");
        inbox.put_lost().expect("it has room");
        inbox
            .put(theirs.as_raw_fd(), Peer::Unix)
            .expect("it has room");
        assert!(matches!(inbox.take(), Taken::Lost));
        let Taken::Connection(taken) = inbox.take() else {
            panic!("it was put in");
        };
        // SAFETY: received just now, and owned by nobody else.
        drop(unsafe { OwnedFd::from_raw_fd(taken.fd) });
        assert!(matches!(inbox.take(), Taken::Nothing));
    }

    #[test]
    fn a_full_inbox_refuses() {
        let inbox = Inbox::new().expect("descriptors are left");
        let (ours, _theirs) = UnixStream::pair().expect("descriptors are left");
        let put = (0..100_000)
            .take_while(|_| inbox.put(ours.as_raw_fd(), Peer::Unix).is_ok())
            .count();
        assert!((1..100_000).contains(&put), "{put}");
    }
}
