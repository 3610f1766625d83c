//! One request to PHP-FPM.

use std::fs::File;
use std::io::Read as _;

use fermata_engine::stats::Counter;
use fermata_engine::{RequestId, Temporary, WireId};

use fermata_io::Deadline;

use crate::BODY_MEMORY_BYTES_MAX;
use crate::codec::{Exchange, Head, Request, Variables};
use crate::spool::Spool;

/// Bytes per read of a socket or file, and bytes that wait for PHP-FPM before more of a body is read.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// The part of the request's body that was not written for PHP-FPM yet.
pub(crate) enum Body {
    /// None.
    Done,
    /// The body is being collected; its length is known afterwards.
    Collecting(Box<Collected>),
    /// The body is forwarded while its client sends it.
    Arriving,
    /// The body is in a file, with this number of bytes left.
    Stored(File, u64),
}

/// A body that is being collected.
pub(crate) struct Collected {
    /// The CGI variables, which precede the body.
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

    /// Appends a piece. `open` creates a file if the body exceeds the limit of memory.
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
            let (file, temporary) = self.file.insert(open()?);
            return temporary.append(file, &std::mem::take(&mut self.memory));
        }
        match &mut self.file {
            Some((file, temporary)) => temporary.append(file, piece),
            None => Ok(()),
        }
    }

    /// Writes the collected request as far as possible, and returns the rest.
    pub fn finish(mut self, out: &mut Vec<u8>, keeps: bool) -> std::io::Result<Body> {
        let length = self.bytes.to_string().into_bytes();
        self.variables.push((b"CONTENT_LENGTH".to_vec(), length));
        begin(out, &self.variables, keeps);
        match self.file {
            Some((_, temporary)) => {
                let file = File::open(temporary.path())?;
                // The file's name is removed here; the file is deleted when it is closed.
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

/// Writes the part before a body.
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

/// State of the client's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// No response was sent.
    None,
    /// The head was sent, and the client has not received the last piece.
    Busy,
    /// The head was sent, and the client is ready for more.
    Asking,
    /// Complete; the client may have needed only the head.
    Whole,
}

/// The connection to PHP-FPM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// There is no connection.
    None,
    Opening(WireId),
    Open(WireId),
}

/// One request to PHP-FPM.
pub(crate) struct FastCgiRequest {
    pub handle: RequestId,
    /// Index of the site.
    pub site: usize,
    pub link: Link,
    /// The connection has carried a request before, and may have been closed since.
    pub is_reused: bool,
    /// PHP-FPM accepts no more of the request.
    pub is_refused: bool,
    pub body: Body,
    /// Bytes to send to PHP-FPM, from `sent` on.
    pub out: Vec<u8>,
    pub sent: usize,
    /// True if `out` contains the complete request, so that it can be repeated.
    pub is_repeatable: bool,
    pub exchange: Exchange,
    pub head: Option<Head>,
    /// Bytes to send to the client; at most one read.
    pub pending: Vec<u8>,
    /// The part of the response that follows `pending`.
    pub spool: Spool,
    /// PHP-FPM has sent the complete response, or failed during it, and its connection was released.
    pub is_detached: bool,
    pub answer: Answer,
    /// True if any byte was received.
    pub has_received: bool,
    /// Bytes that were read and dropped.
    pub drained: usize,
    /// Time at which PHP-FPM's time limit is over.
    pub deadline: Deadline,
    /// Time since which the request has been waiting for a connection, or has been using one.
    pub since_ms: u64,
    /// Counter of the request's failure. A response that has started is cut after the bytes that were read ahead.
    pub failure: Option<Counter>,
}

impl FastCgiRequest {
    pub fn new(
        handle: RequestId,
        site: usize,
        (body, out): (Body, Vec<u8>),
        spool: Spool,
    ) -> FastCgiRequest {
        FastCgiRequest {
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
            spool,
            is_detached: false,
            answer: Answer::None,
            has_received: false,
            drained: 0,
            deadline: Deadline::NEVER,
            since_ms: 0,
            failure: None,
        }
    }

    /// Returns the counter of the request's result.
    pub fn outcome(&self) -> Counter {
        let ended = if self.exchange.is_complete() {
            Counter::FastCgiAnswered
        } else {
            Counter::FastCgiLeft
        };
        self.failure.unwrap_or(ended)
    }

    /// Returns true if the request waits for its client.
    pub fn waits_for_client(&self) -> bool {
        match self.body {
            Body::Collecting(_) => true,
            Body::Arriving if self.sent == self.out.len() => true,
            _ => self.is_detached || self.spool.holding_since_ms().is_some(),
        }
    }

    /// Returns true if the connection can carry another request.
    pub fn is_clean(&self) -> bool {
        let is_sent = self.sent == self.out.len() && matches!(self.body, Body::Done);
        self.exchange.is_complete() && is_sent && !self.is_refused
    }
}

#[cfg(test)]
mod tests {
    use fermata_config::Settings;

    use super::*;
    use crate::spool::Ledger;

    /// Returns the content of all records of one type.
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
    fn small_body_is_sent_with_its_length() {
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
    fn reports_a_body_that_cannot_be_stored() {
        let mut collected = Collected::new(Vec::new());
        let full = || Err(std::io::ErrorKind::StorageFull.into());
        collected
            .take(&[0; BODY_MEMORY_BYTES_MAX], never)
            .expect("memory");
        let error = collected.take(b"x", full).expect_err("it is full");
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }

    #[test]
    fn keeps_a_connection_after_a_complete_exchange() {
        let handle = RequestId::from_raw(1).expect("it is not zero");
        let spool = Spool::new(&Ledger::new(&Settings::default()), None);
        let mut request = FastCgiRequest::new(handle, 0, (Body::Done, b"abc".to_vec()), spool);
        assert!(request.is_repeatable && !request.is_clean());
        let end = [
            1, 6, 0, 1, 0, 2, 0, 0, b'\r', b'\n', 1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        request
            .exchange
            .handle(&end, &mut Vec::new())
            .expect("an answer");
        assert!(!request.is_clean());
        request.sent = 3;
        assert!(request.is_clean());
        request.is_refused = true;
        assert!(!request.is_clean());
    }
}
