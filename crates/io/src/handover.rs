//! Hands a connection over from one process to another.

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

/// Length of a message: type of address, port, address.
const MESSAGE_BYTES: usize = 19;

/// Maximum number of bytes of input that are handed over with a connection: the default `header_bytes_max` of 16 KiB and one read
/// of 64 KiB. The send buffer of a Unix socket has space for two such messages.
pub const INPUT_BYTES_MAX: usize = 80 * 1024;

/// Result of [`Inbox::take`].
#[derive(Debug)]
pub enum Taken {
    /// The inbox is empty.
    Nothing,
    /// A connection, and the bytes that the previous process has read from it but not processed.
    Connection(Accepted, Vec<u8>),
    /// A connection that is lost because this process had no descriptor left for it.
    Lost,
}

/// Queue of the connections that other processes have handed to one process. Created before the fork, so that every process can put
/// connections into the inbox of every other process. The content outlives the inbox's process.
#[derive(Debug)]
pub struct Inbox {
    read_end: OwnedFd,
    write_end: OwnedFd,
}

impl Inbox {
    /// Number of descriptors that an inbox needs in every process that can fill it.
    pub const DESCRIPTORS: usize = 2;

    /// Creates an empty inbox.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let kind = SocketType::SEQPACKET;
        let (read_end, write_end) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok(Self {
            read_end,
            write_end,
        })
    }

    /// Appends a connection with `input`, the bytes that were read from it but not processed. The sender then closes its own
    /// descriptor; on an error it keeps the connection.
    ///
    /// # Errors
    /// The inbox is full (some hundred connections without input), `input` is larger than [`INPUT_BYTES_MAX`], or the
    /// kernel's limit of descriptors in flight is reached.
    pub fn put(&self, fd: Fd, peer: Peer, input: &[u8]) -> io::Result<()> {
        if input.len() > INPUT_BYTES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
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
            &[IoSlice::new(&message), IoSlice::new(input)],
            &mut control,
            flags,
        )?;
        Ok(())
    }

    /// Removes and returns the oldest connection.
    #[must_use]
    pub fn take(&self) -> Taken {
        loop {
            let mut message = [0; MESSAGE_BYTES];
            let mut input = vec![0; INPUT_BYTES_MAX];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut pieces = [IoSliceMut::new(&mut message), IoSliceMut::new(&mut input)];
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            match recvmsg(&self.read_end, &mut pieces, &mut control, flags) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return Taken::Nothing,
                Ok(read) if read.bytes == 0 => return Taken::Nothing,
                Ok(read) => input.truncate(read.bytes.saturating_sub(MESSAGE_BYTES)),
            }
            // The buffer has space for the longest input, but most connections have none.
            input.shrink_to_fit();
            let fd = control.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
                _ => None,
            });
            return match fd {
                Some(fd) => {
                    let fd = lift(fd).into_raw_fd();
                    let peer = decode(&message);
                    Taken::Connection(Accepted { fd, peer }, input)
                }
                None => Taken::Lost,
            };
        }
    }

    /// Appends the message of a connection whose descriptor could not be received.
    pub(crate) fn put_lost(&self) -> io::Result<()> {
        rustix::io::write(&self.write_end, &encode(Peer::Unix))?;
        Ok(())
    }

    /// Returns the descriptor for [`crate::Driver::add_wake`].
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
        let largest = vec![b'x'; INPUT_BYTES_MAX];
        let inputs: [&[u8]; 3] = [b"", b"GET / HTTP/1.1\r\n", &largest];
        for (peer, input) in peers.into_iter().zip(inputs) {
            let (ours, theirs) = UnixStream::pair().expect("descriptors are left");
            inbox
                .put(theirs.as_raw_fd(), peer, input)
                .expect("it has room");
            ends.push(ours);
        }
        for ((peer, input), mut end) in peers.into_iter().zip(inputs).zip(ends) {
            let Taken::Connection(taken, got) = inbox.take() else {
                panic!("it was put in");
            };
            assert_eq!((taken.peer, &got[..]), (peer, input));
            // SAFETY: the descriptor was just received, and no other value owns it.
            let mut stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(taken.fd) });
            stream.write_all(b"x").expect("it is connected");
            let mut byte = [0];
            end.read_exact(&mut byte).expect("it is the same pair");
        }
        assert!(matches!(inbox.take(), Taken::Nothing));
    }

    #[test]
    fn refuses_input_larger_than_its_bound() {
        let inbox = Inbox::new().expect("descriptors are left");
        let (ours, _theirs) = UnixStream::pair().expect("descriptors are left");
        let input = vec![b'x'; INPUT_BYTES_MAX + 1];
        assert!(inbox.put(ours.as_raw_fd(), Peer::Unix, &input).is_err());
        assert!(matches!(inbox.take(), Taken::Nothing));
    }

    #[test]
    fn reports_a_lost_connection_and_takes_the_next() {
        let inbox = Inbox::new().expect("descriptors are left");
        let (_ours, theirs) = UnixStream::pair().expect("descriptors are left");
        inbox.put_lost().expect("it has room");
        inbox
            .put(theirs.as_raw_fd(), Peer::Unix, b"")
            .expect("it has room");
        assert!(matches!(inbox.take(), Taken::Lost));
        let Taken::Connection(taken, _) = inbox.take() else {
            panic!("it was put in");
        };
        // SAFETY: the descriptor was just received, and no other value owns it.
        drop(unsafe { OwnedFd::from_raw_fd(taken.fd) });
        assert!(matches!(inbox.take(), Taken::Nothing));
    }

    #[test]
    fn a_full_inbox_refuses() {
        let inbox = Inbox::new().expect("descriptors are left");
        let (ours, _theirs) = UnixStream::pair().expect("descriptors are left");
        let put = (0..100_000)
            .take_while(|_| inbox.put(ours.as_raw_fd(), Peer::Unix, b"").is_ok())
            .count();
        assert!((1..100_000).contains(&put), "{put}");
    }
}
