//! A client that reads the responses of both servers and returns them unchanged.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::{Duration, Instant};

use fermata_testkit::{Chunked, deadline};

use crate::bench::PROBE;

/// Status line and headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub reason: String,
    /// In the order and spelling received.
    pub headers: Vec<(String, String)>,
}

/// A complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub head: Head,
    pub body: Vec<u8>,
    /// True if the body is complete.
    pub is_whole: bool,
}

/// Framing of a stream's body.
#[derive(Debug)]
enum Framing {
    Length(usize),
    Chunked(Chunked),
    UntilClose,
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    host: String,
    inbox: Vec<u8>,
    framing: Framing,
    /// Decoded bytes of a stream that were not read yet.
    text: Vec<u8>,
    has_ended: bool,
}

impl Head {
    /// Returns the values of a header, joined.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<&str> = self
            .headers
            .iter()
            .filter(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

impl Answer {
    /// Returns the values of a header, joined.
    pub fn header(&self, name: &str) -> Option<String> {
        self.head.header(name)
    }

    /// Returns the body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }
}

impl Client {
    /// Connects to a port of this machine.
    #[track_caller]
    pub fn open(port: u16, host: &str) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        Self {
            stream,
            host: host.to_owned(),
            inbox: Vec::new(),
            framing: Framing::UntilClose,
            text: Vec::new(),
            has_ended: false,
        }
    }

    /// Sends a GET and returns the response.
    #[track_caller]
    pub fn get(&mut self, target: &str) -> Answer {
        self.request("GET", target, &[], b"")
    }

    /// Sends a request and returns the response.
    #[track_caller]
    pub fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.send(method, target, headers, body);
        self.read_answer(method == "HEAD")
    }

    /// Sends a request. Adds a Content-Length unless `headers` define the framing.
    pub fn send(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n", self.host);
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        let is_framed = headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding"));
        if !is_framed && (!body.is_empty() || method == "POST" || method == "PUT") {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text += "\r\n";
        self.raw(&[text.as_bytes(), body].concat());
    }

    /// Sends raw bytes. Ignores errors, because the server may have closed the connection.
    pub fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Returns true if bytes arrive or the connection closes within `patience`.
    pub fn has_data(&mut self, patience: Duration) -> bool {
        !self.inbox.is_empty() || self.has_ended || self.receive(patience).is_some()
    }

    /// Returns the status of a response, or `None` if none arrives in time.
    pub fn try_status(&mut self, patience: Duration) -> Option<u16> {
        while self.inbox.len() < 12 {
            self.receive(patience).filter(|len| *len > 0)?;
        }
        std::str::from_utf8(&self.inbox[9..12]).ok()?.parse().ok()
    }

    /// Reads the head of a response; the methods for streams read its body.
    #[track_caller]
    pub fn read_head(&mut self) -> Head {
        let end = loop {
            if let Some(at) = self.inbox.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            let got = self.receive(deadline());
            assert!(
                got.is_some_and(|len| len > 0),
                "no head: {:?} then {got:?}",
                String::from_utf8_lossy(&self.inbox)
            );
        };
        let text: Vec<u8> = self.inbox.drain(..end + 4).collect();
        let text = String::from_utf8(text).expect("a head is UTF-8");
        let mut lines = text.trim_end().split("\r\n");
        let line = lines.next().unwrap_or_default();
        // Pushpin can send statuses of one or of seven digits; they become 0 here.
        let mut words = line.splitn(3, ' ').skip(1);
        let status = words.next().and_then(|code| code.parse::<u32>().ok());
        let status = status.map(|code| u16::try_from(code).unwrap_or_default());
        let head = Head {
            status: status.unwrap_or_else(|| panic!("status line {line:?}")),
            reason: words.next().unwrap_or_default().to_owned(),
            headers: lines
                .filter_map(|line| line.split_once(':'))
                .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
                .collect(),
        };
        self.framing = match (
            head.header("content-length"),
            head.header("transfer-encoding"),
        ) {
            (_, Some(coding)) if coding.eq_ignore_ascii_case("chunked") => {
                Framing::Chunked(Chunked::default())
            }
            (Some(length), _) => Framing::Length(length.parse().expect("a length")),
            _ => Framing::UntilClose,
        };
        if matches!(head.status, 204 | 304) {
            self.framing = Framing::Length(0);
        }
        head
    }

    /// Returns the final response; skips interim ones.
    #[track_caller]
    pub fn read_answer(&mut self, to_head: bool) -> Answer {
        let mut head = self.read_head();
        while head.status == 100 {
            head = self.read_head();
        }
        if to_head {
            self.framing = Framing::Length(0);
        }
        self.text.clear();
        let is_whole = loop {
            if self.decode() {
                break true;
            }
            match self.receive(deadline()) {
                Some(0) => {
                    let is_whole = matches!(self.framing, Framing::UntilClose);
                    break is_whole;
                }
                Some(_) => {}
                None => panic!(
                    "no end of {head:?}, {} bytes so far",
                    self.text.len() + self.inbox.len()
                ),
            }
        };
        Answer {
            status: head.status,
            head,
            body: std::mem::take(&mut self.text),
            is_whole,
        }
    }

    /// Reads a stream's body until it contains `part`. Returns the text up to and including `part`,
    /// without probes.
    #[track_caller]
    pub fn read_until(&mut self, part: &str) -> String {
        let end = Instant::now() + deadline();
        loop {
            self.decode();
            self.drop_probes();
            if let Some(at) = find(&self.text, part.as_bytes()) {
                let text: Vec<u8> = self.text.drain(..at + part.len()).collect();
                return String::from_utf8(text).expect("UTF-8");
            }
            let left = end.saturating_duration_since(Instant::now());
            let has_more = !self.has_ended && self.receive(left).is_some_and(|len| len > 0);
            self.decode();
            assert!(
                has_more || find(&self.text, part.as_bytes()).is_some(),
                "no {part:?} in {:?}",
                String::from_utf8_lossy(&self.text)
            );
        }
    }

    /// Reads a stream's body until it contains `part` or ends.
    #[track_caller]
    pub fn read_until_or_end(&mut self, part: &str) -> String {
        let end = Instant::now() + deadline();
        loop {
            let is_over = self.decode() || self.has_ended;
            self.drop_probes();
            let found = find(&self.text, part.as_bytes());
            if is_over || found.is_some() {
                let len = found.map_or(self.text.len(), |at| at + part.len());
                let text: Vec<u8> = self.text.drain(..len).collect();
                return String::from_utf8(text).expect("UTF-8");
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(self.receive(left).is_some(), "neither {part:?} nor an end");
        }
    }

    /// Reads a stream's body to its end. Returns the remaining text, and true if the framing ended
    /// cleanly.
    #[track_caller]
    pub fn read_end(&mut self) -> (String, bool) {
        let mut is_clean = matches!(self.framing, Framing::UntilClose);
        loop {
            if self.decode() {
                is_clean = true;
                break;
            }
            match self.receive(deadline()) {
                Some(0) => break,
                Some(_) => {}
                None => panic!("no end after {:?}", String::from_utf8_lossy(&self.text)),
            }
        }
        self.drop_probes();
        let text = String::from_utf8(std::mem::take(&mut self.text)).expect("UTF-8");
        (text, is_clean)
    }

    /// Returns true if a body ends cleanly, false if it is cut off; `None` if it does not end in
    /// time.
    pub fn ends_within(&mut self, patience: Duration) -> Option<bool> {
        let end = Instant::now() + patience;
        self.read_head();
        loop {
            if self.decode() {
                return Some(true);
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.receive(left) {
                Some(0) => return Some(matches!(self.framing, Framing::UntilClose)),
                Some(_) => {}
                None => return None,
            }
        }
    }

    /// Returns true if the stream has received a probe.
    pub fn has_probe(&mut self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        loop {
            self.decode();
            if find(&self.text, PROBE.as_bytes()).is_some() {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.receive(left).is_none_or(|len| len == 0) {
                return false;
            }
        }
    }

    /// Returns the received text of a stream's body after waiting up to `patience` for more.
    pub fn read_some(&mut self, patience: Duration) -> String {
        self.receive(patience);
        self.decode();
        String::from_utf8(std::mem::take(&mut self.text)).expect("UTF-8")
    }

    /// Returns true if the peer closes the connection within `patience`.
    pub fn has_ended(&mut self, patience: Duration) -> bool {
        while !self.has_ended && self.receive(patience).is_some() {}
        self.has_ended
    }

    /// Closes the sending side.
    pub fn end_side(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Returns true if the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        self.receive(deadline()) == Some(0)
    }

    /// Returns the socket and its unread bytes, for another protocol.
    pub fn into_stream(self) -> (TcpStream, Vec<u8>) {
        (self.stream, self.inbox)
    }

    fn drop_probes(&mut self) {
        while let Some(at) = find(&self.text, PROBE.as_bytes()) {
            self.text.drain(at..at + PROBE.len());
        }
    }

    /// Decodes the bytes received. Returns true at the end of the body.
    fn decode(&mut self) -> bool {
        match &mut self.framing {
            Framing::Chunked(chunked) => {
                let decoded = chunked.decode(&self.inbox, &mut self.text);
                let (used, is_done) = decoded.expect("chunks");
                self.inbox.drain(..used);
                is_done
            }
            Framing::UntilClose => {
                self.text.append(&mut self.inbox);
                false
            }
            Framing::Length(left) => {
                let len = self.inbox.len().min(*left);
                self.text.extend(self.inbox.drain(..len));
                *left -= len;
                *left == 0
            }
        }
    }

    /// Returns the number of bytes received; 0 at the end of the stream, `None` at a time-out.
    fn receive(&mut self, patience: Duration) -> Option<usize> {
        if self.has_ended {
            return Some(0);
        }
        let mut buffer = [0; 65_536];
        let patience = patience.max(Duration::from_millis(1));
        self.stream
            .set_read_timeout(Some(patience))
            .expect("a socket");
        loop {
            match self.stream.read(&mut buffer) {
                Ok(len) => {
                    self.has_ended = len == 0;
                    self.inbox.extend_from_slice(&buffer[..len]);
                    return Some(len);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    return None;
                }
                Err(_) => {
                    self.has_ended = true;
                    return Some(0);
                }
            }
        }
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    match part {
        [] => Some(0),
        part => text.windows(part.len()).position(|window| window == part),
    }
}
