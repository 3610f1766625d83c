//! One request that PHP-FPM is asked about.

use std::fs::File;
use std::io::{Read as _, Write as _};

use fermata_engine::stats::Counter;
use fermata_engine::{RequestId, Temporary, WireId};

use fermata_io::Deadline;

use crate::BODY_MEMORY_BYTES_MAX;
use crate::codec::{Exchange, Head, Request, Variables};

/// Bytes that are read of a socket or a file at once, and that wait for PHP-FPM before more of a body is read.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// What of the request's body has not been written for PHP-FPM.
pub(crate) enum Body {
    /// Nothing.
    Done,
    /// It is collected; then it is known how long it is.
    Collecting(Box<Collected>),
    /// Its client is still sending it, and it is passed on.
    Arriving,
    /// It is in a file, of which so many bytes are left.
    Stored(File, u64),
}

/// A body that is collected.
pub(crate) struct Collected {
    /// What goes before it.
    pub variables: Variables,
    memory: Vec<u8>,
    file: Option<(File, Temporary)>,
    bytes: u64,
}

impl Collected {
    pub fn new(variables: Variables) -> Collected {
        Collected {
            variables,
            memory: Vec::new(),
            file: None,
            bytes: 0,
        }
    }

    /// Takes a piece; `open` makes a file when it is too much for memory.
    pub fn take(
        &mut self,
        piece: &[u8],
        open: impl FnOnce() -> std::io::Result<(File, Temporary)>,
    ) -> std::io::Result<()> {
        self.bytes += piece.len() as u64;
        if self.file.is_none() {
            self.memory.extend_from_slice(piece);
            if self.memory.len() <= BODY_MEMORY_BYTES_MAX {
                return Ok(());
            }
            let (file, _) = self.file.insert(open()?);
            return file.write_all(&std::mem::take(&mut self.memory));
        }
        match &mut self.file {
            Some((file, _)) => file.write_all(piece),
            None => Ok(()),
        }
    }

    /// All of it has come: writes the request as far as it goes, and tells what is left.
    pub fn finish(mut self, out: &mut Vec<u8>, keeps: bool) -> std::io::Result<Body> {
        let length = self.bytes.to_string().into_bytes();
        self.variables.push((b"CONTENT_LENGTH".to_vec(), length));
        begin(out, &self.variables, keeps);
        match self.file {
            Some((_, temporary)) => {
                let file = File::open(temporary.path())?;
                // Its name is removed from here on, and its bytes when it is closed.
                Ok(Body::Stored(file, self.bytes))
            }
            None => {
                Request::body(out, &self.memory);
                Request::body_end(out);
                Ok(Body::Done)
            }
        }
    }
}

/// Writes what goes before a body.
pub(crate) fn begin(out: &mut Vec<u8>, variables: &Variables, keeps: bool) {
    let lines = variables
        .iter()
        .map(|(name, value)| (&name[..], &value[..]));
    Request::begin(out, keeps).params(lines);
}

/// Writes the next piece of a file.
pub(crate) fn write_stored(
    out: &mut Vec<u8>,
    file: &mut File,
    left: &mut u64,
) -> std::io::Result<()> {
    let mut piece = vec![0; (*left).min(PIECE_BYTES as u64) as usize];
    file.read_exact(&mut piece)?;
    *left -= piece.len() as u64;
    Request::body(out, &piece);
    if *left == 0 {
        Request::body_end(out);
    }
    Ok(())
}

/// What the client has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing.
    None,
    /// The head, and it has still to take what was given last.
    Busy,
    /// The head, and it wants more.
    Asking,
    /// All that it wants, which may have been the head.
    Whole,
}

/// The connection to PHP-FPM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Not yet, or not any more.
    None,
    Opening(WireId),
    Open(WireId),
}

/// One request that PHP-FPM is asked about.
pub(crate) struct Talk {
    pub handle: RequestId,
    /// Which site.
    pub site: usize,
    pub link: Link,
    /// It has carried a request before, and may have been closed since.
    pub is_reused: bool,
    /// PHP-FPM takes no more of the request.
    pub is_refused: bool,
    pub body: Body,
    /// What PHP-FPM has still to be sent, from `sent` on.
    pub out: Vec<u8>,
    pub sent: usize,
    /// Whether all of the request is in `out`, from its beginning: it can be sent once more.
    pub is_repeatable: bool,
    pub exchange: Exchange,
    pub head: Option<Head>,
    /// What the client has still to be given; at most what one read has brought.
    pub pending: Vec<u8>,
    pub answer: Answer,
    /// Whether anything has come.
    pub has_received: bool,
    /// Bytes that were read for nobody.
    pub drained: usize,
    /// When PHP-FPM has taken too long.
    pub deadline: Deadline,
    /// Since when it waits for a connection, or has one.
    pub since_ms: u64,
    /// How it has failed, for the figures.
    pub failure: Option<Counter>,
}

impl Talk {
    pub fn new(handle: RequestId, site: usize, body: Body, out: Vec<u8>) -> Talk {
        Talk {
            handle,
            site,
            link: Link::None,
            is_reused: false,
            is_refused: false,
            is_repeatable: matches!(body, Body::Done),
            body,
            out,
            sent: 0,
            exchange: Exchange::default(),
            head: None,
            pending: Vec::new(),
            answer: Answer::None,
            has_received: false,
            drained: 0,
            deadline: Deadline::NEVER,
            since_ms: 0,
            failure: None,
        }
    }

    /// How it has ended, for the figures.
    pub fn outcome(&self) -> Counter {
        let ended = match self.exchange.is_complete() {
            true => Counter::FastCgiAnswered,
            false => Counter::FastCgiLeft,
        };
        self.failure.unwrap_or(ended)
    }

    /// Whether it is the client that something is waited for.
    pub fn waits_for_client(&self) -> bool {
        match self.body {
            Body::Collecting(_) => true,
            Body::Arriving if self.sent == self.out.len() => true,
            _ => self.answer == Answer::Busy,
        }
    }

    /// Whether its connection may carry another request.
    pub fn is_clean(&self) -> bool {
        let is_sent = self.sent == self.out.len() && matches!(self.body, Body::Done);
        self.exchange.is_complete() && is_sent && !self.is_refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Content of the records of one kind.
    fn stream(mut out: &[u8], kind: u8) -> Vec<u8> {
        let mut found = Vec::new();
        while let Some((head, rest)) = out.split_first_chunk::<8>() {
            let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
            if head[1] == kind {
                found.extend_from_slice(&rest[..len]);
            }
            out = &rest[len + usize::from(head[6])..];
        }
        found
    }

    fn never() -> std::io::Result<(File, Temporary)> {
        panic!("it is small enough for memory")
    }

    #[test]
    fn a_small_body_goes_with_its_length() {
        let mut collected = Collected::new(Vec::new());
        for piece in [&b"one "[..], b"two"] {
            collected.take(piece, never).expect("memory");
        }
        let mut out = Vec::new();
        let body = collected.finish(&mut out, false).expect("memory");
        assert!(matches!(body, Body::Done));
        assert_eq!(stream(&out, 5), b"one two");
        assert_eq!(stream(&out, 4), b"\x0e\x01CONTENT_LENGTH7");
    }

    #[test]
    fn a_body_that_cannot_be_stored_is_an_error() {
        let mut collected = Collected::new(Vec::new());
        let full = || Err(std::io::ErrorKind::StorageFull.into());
        collected
            .take(&[0; BODY_MEMORY_BYTES_MAX], never)
            .expect("memory");
        let error = collected.take(b"x", full).expect_err("it is full");
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_connection_is_kept_when_both_sides_are_done() {
        let handle = RequestId::from_raw(1).expect("it is not zero");
        let mut talk = Talk::new(handle, 0, Body::Done, b"abc".to_vec());
        assert!(talk.is_repeatable && !talk.is_clean());
        let end = [
            1, 6, 0, 1, 0, 2, 0, 0, b'\r', b'\n', 1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        talk.exchange
            .handle(&end, &mut Vec::new())
            .expect("an answer");
        assert!(!talk.is_clean());
        talk.sent = 3;
        assert!(talk.is_clean());
        talk.is_refused = true;
        assert!(!talk.is_clean());
    }
}
