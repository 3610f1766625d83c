//! Pipes between the parent and a child.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;

use fermata_io::Fd;
use serde::Serialize;
use serde::de::DeserializeOwned;

const READ_BYTES: usize = 64 * 1024;

/// One end of a link: sends lines of one type and receives lines of another.
#[derive(Debug)]
pub(crate) struct Link {
    read_end: PipeReader,
    write_end: PipeWriter,
    /// Start of an incomplete line.
    partial: Vec<u8>,
}

impl Link {
    /// Creates both ends of a link.
    pub fn pair() -> io::Result<(Link, Link)> {
        let (down_read, down_write) = io::pipe()?;
        let (up_read, up_write) = io::pipe()?;
        let link = |read_end, write_end| Link {
            read_end,
            write_end,
            partial: Vec::new(),
        };
        Ok((link(up_read, down_write), link(down_read, up_write)))
    }

    /// Sends one line; blocks while the pipe is full.
    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.write_end.write_all(&line)
    }

    /// Reads the available bytes and passes each complete line to `each`. Call it when the descriptor is readable.
    /// Returns false if the other end is closed.
    pub fn receive<T: DeserializeOwned>(&mut self, mut each: impl FnMut(T)) -> io::Result<bool> {
        let mut bytes = [0; READ_BYTES];
        let count = match self.read_end.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            read => read?,
        };
        self.partial.extend_from_slice(&bytes[..count]);
        let mut start = 0;
        while let Some(len) = memchr::memchr(b'\n', &self.partial[start..]) {
            each(serde_json::from_slice(&self.partial[start..start + len])?);
            start += len + 1;
        }
        self.partial.drain(..start);
        Ok(count != 0)
    }

    /// Descriptor to poll for reading.
    pub fn fd(&self) -> Fd {
        self.read_end.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_longer_than_a_read_arrive_whole() {
        let (mut parent, mut child) = Link::pair().expect("pipes");
        let long = "x".repeat(READ_BYTES * 2);
        let sender = std::thread::spawn({
            let long = long.clone();
            move || {
                child.send(&"short").expect("sent");
                child.send(&long).expect("sent");
            }
        });
        let mut received: Vec<String> = Vec::new();
        while parent.receive(|line| received.push(line)).expect("read") {}
        sender.join().expect("no panic");
        assert_eq!(received, ["short".to_string(), long]);
    }
}
