//! Strict response parser (RFC 9112, sections 4 to 7), so that every test also checks the server's framing.

/// Framing of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// No body: responses to HEAD, and 1xx, 204 and 304.
    None,
    /// Content-Length bytes.
    Length(usize),
    /// Chunks up to the last chunk, which is empty.
    Chunked,
    /// All bytes until the server closes.
    UntilClose,
}

/// Status line and header lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// 0 for HTTP/1.0, 1 for HTTP/1.1.
    pub minor_version: u8,
    /// Three-digit status code.
    pub status: u16,
    /// Reason phrase; may be empty.
    pub reason: String,
    /// Names in lower case and trimmed values, in the order sent.
    pub headers: Vec<(String, String)>,
}

/// A complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Status line and header lines.
    pub head: Head,
    /// Body without transfer coding.
    pub body: Vec<u8>,
    /// Framing of the body.
    pub framing: Framing,
}

impl Head {
    /// Returns the value of the only header line with this lower-case name.
    ///
    /// # Panics
    /// Panics if there are several; a test that expects several reads `headers`.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self
            .headers
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, value)| value);
        let first = values.next();
        assert!(values.next().is_none(), "more than one {name} in {self:?}");
        first.map(String::as_str)
    }

    /// Returns true if the `Connection` header contains `option`.
    pub fn connection_says(&self, option: &str) -> bool {
        let value = self.header("connection").unwrap_or("");
        value
            .split(',')
            .any(|part| part.trim().eq_ignore_ascii_case(option))
    }

    /// Returns the framing of the body (RFC 9112, section 6.3). `to_head` is true for the response to a HEAD request.
    ///
    /// # Errors
    /// Describes the contradiction if the header lines do not frame the message in exactly one way.
    pub fn framing(&self, to_head: bool) -> Result<Framing, String> {
        let lengths: Vec<&str> = self.values("content-length").collect();
        let codings: Vec<&str> = self.values("transfer-encoding").collect();
        if lengths.len() + codings.len() > 1 {
            return Err(format!("framed more than once: {lengths:?} {codings:?}"));
        }
        if (self.status < 200 || self.status == 204) && !(lengths.is_empty() && codings.is_empty())
        {
            return Err(format!("a {} must not carry length headers", self.status));
        }
        let no_body = to_head || self.status < 200 || matches!(self.status, 204 | 304);
        match (lengths.first(), codings.first()) {
            (Some(text), _) => {
                let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let length = text.parse().ok().filter(|_| digits);
                let length = length.ok_or_else(|| format!("content-length {text:?}"))?;
                Ok(if no_body {
                    Framing::None
                } else {
                    Framing::Length(length)
                })
            }
            (None, Some(coding)) if *coding != "chunked" => {
                Err(format!("transfer-encoding {coding:?}"))
            }
            (None, Some(_)) if self.minor_version == 0 => Err("chunked in HTTP/1.0".into()),
            _ if no_body => Ok(Framing::None),
            (None, Some(_)) => Ok(Framing::Chunked),
            (None, None) => Ok(Framing::UntilClose),
        }
    }

    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers
            .iter()
            .filter(move |(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }
}

impl Response {
    /// Returns the status code.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// See [`Head::header`].
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// Returns the body as text.
    ///
    /// # Panics
    /// Panics if it is not UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is UTF-8")
    }
}

/// Parses a response head at the start of `bytes`. Returns `None` if it is incomplete, else the head and its length
/// in bytes.
///
/// # Errors
/// Describes the first malformed line.
pub fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, String> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| "head is not UTF-8".to_string())?;
    let mut lines = text.split("\r\n");
    let (minor_version, status, reason) = parse_status_line(lines.next().unwrap_or(""))?;
    let headers = lines
        .map(parse_header_line)
        .collect::<Result<Vec<_>, String>>()?;
    let head = Head {
        minor_version,
        status,
        reason,
        headers,
    };
    if head.status >= 200 && head.status < 500 {
        let date = head.header("date").ok_or("no date header")?;
        check_date(date)?;
    }
    Ok(Some((head, end + 4)))
}

fn parse_status_line(line: &str) -> Result<(u8, u16, String), String> {
    let wrong = || format!("status line {line:?}");
    let rest = line.strip_prefix("HTTP/1.").ok_or_else(wrong)?;
    let (minor_version, rest) = match rest.split_at_checked(2).ok_or_else(wrong)? {
        ("0 ", rest) => (0, rest),
        ("1 ", rest) => (1, rest),
        _ => return Err(wrong()),
    };
    let (status, reason) = rest.split_at_checked(3).ok_or_else(wrong)?;
    let reason = reason.strip_prefix(' ').ok_or_else(wrong)?;
    let status: u16 = status.parse().map_err(|_| wrong())?;
    if !(100..600).contains(&status) || reason.chars().any(char::is_control) {
        return Err(wrong());
    }
    Ok((minor_version, status, reason.to_string()))
}

fn parse_header_line(line: &str) -> Result<(String, String), String> {
    let (name, value) = line
        .split_once(':')
        .ok_or_else(|| format!("header line {line:?}"))?;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(format!("header name in {line:?}"));
    }
    let value = value.trim_matches([' ', '\t']);
    if value
        .bytes()
        .any(|byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f)
    {
        return Err(format!("control byte in {line:?}"));
    }
    Ok((name.to_ascii_lowercase(), value.to_string()))
}

/// Checks the form of an IMF-fixdate such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, section 5.6.7).
fn check_date(date: &str) -> Result<(), String> {
    let shape = "Aaa, 00 Aaa 0000 00:00:00 GMT";
    let fits = date.len() == shape.len()
        && date
            .bytes()
            .zip(shape.bytes())
            .enumerate()
            .all(|(at, (byte, model))| match model {
                _ if at >= 26 => byte == model,
                b'A' => byte.is_ascii_uppercase(),
                b'a' => byte.is_ascii_lowercase(),
                b'0' => byte.is_ascii_digit(),
                _ => byte == model,
            });
    if fits {
        Ok(())
    } else {
        Err(format!("date {date:?}"))
    }
}

/// Incremental decoder of a chunked body. Refuses chunk extensions and trailer fields, which this server never sends.
#[derive(Debug, Default)]
pub struct Chunked {
    state: ChunkState,
}

#[derive(Debug, Default)]
enum ChunkState {
    #[default]
    Size,
    Data {
        left: usize,
    },
    DataEnd,
    LastEnd,
    Done,
}

impl Chunked {
    /// Moves body bytes from the start of `input` to the end of `out`. Returns the number of input bytes consumed,
    /// and true after the last chunk.
    ///
    /// # Errors
    /// Describes the error at the first invalid byte.
    pub fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(usize, bool), String> {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            match self.state {
                ChunkState::Size => {
                    let Some((size, len)) = parse_chunk_size(rest)? else {
                        break;
                    };
                    used += len;
                    self.state = match size {
                        0 => ChunkState::LastEnd,
                        left => ChunkState::Data { left },
                    };
                }
                ChunkState::Data { left } => {
                    let len = left.min(rest.len());
                    out.extend_from_slice(&rest[..len]);
                    used += len;
                    if len < left {
                        self.state = ChunkState::Data { left: left - len };
                        break;
                    }
                    self.state = ChunkState::DataEnd;
                }
                ChunkState::DataEnd | ChunkState::LastEnd => {
                    if rest.len() < 2 {
                        break;
                    }
                    if !rest.starts_with(b"\r\n") {
                        return Err(format!("no CRLF after a chunk: {:?}", lossy(rest)));
                    }
                    used += 2;
                    self.state = match self.state {
                        ChunkState::LastEnd => ChunkState::Done,
                        _ => ChunkState::Size,
                    };
                }
                ChunkState::Done => break,
            }
        }
        Ok((used, matches!(self.state, ChunkState::Done)))
    }
}

fn parse_chunk_size(input: &[u8]) -> Result<Option<(usize, usize)>, String> {
    let wrong = || format!("chunk size {:?}", lossy(&input[..input.len().min(20)]));
    let Some(end) = input.windows(2).position(|window| window == b"\r\n") else {
        return if input.len() > 18 {
            Err(wrong())
        } else {
            Ok(None)
        };
    };
    let digits = &input[..end];
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(wrong());
    }
    let size = usize::from_str_radix(&lossy(digits), 16).map_err(|_| wrong())?;
    Ok(Some((size, end + 2)))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

    fn head(text: &str) -> Result<Option<(Head, usize)>, String> {
        parse_head(text.as_bytes())
    }

    #[test]
    fn a_head_is_parsed_when_complete() {
        let text = format!("HTTP/1.1 200 OK\r\n{DATE}Content-Length: 2\r\n\r\nhi");
        assert_eq!(head(&text[..text.len() - 4]), Ok(None));
        let (head, len) = head(&text)
            .expect("it is well formed")
            .expect("it is complete");
        assert_eq!(len, text.len() - 2);
        assert_eq!((head.status, head.reason.as_str()), (200, "OK"));
        assert_eq!(head.framing(false), Ok(Framing::Length(2)));
        assert_eq!(head.framing(true), Ok(Framing::None));
    }

    #[test]
    fn malformed_heads_are_refused() {
        for text in [
            "HTTP/1.1 200\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
            "HTTP/2.0 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
            "HTTP/1.1 099 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nA : b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nA: b\nC: d\r\n\r\n",
            "HTTP/1.1 200 OK\r\nDate: Sun, 6 Nov 1994 08:49:37 GMT\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
        ] {
            assert!(head(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_message_framed_twice_is_refused() {
        for lines in [
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: +1\r\n",
            "Transfer-Encoding: gzip\r\n",
        ] {
            let text = format!("HTTP/1.1 200 OK\r\n{DATE}{lines}\r\n");
            let (head, _) = head(&text)
                .expect("the lines are fine")
                .expect("it is complete");
            assert!(head.framing(false).is_err(), "{lines:?}");
        }
    }

    #[test]
    fn chunks_decode_in_any_split() {
        let wire = b"3\r\nabc\r\n0A\r\n0123456789\r\n0\r\n\r\nnext";
        for cut in 0..=wire.len() {
            let (mut decoder, mut out) = (Chunked::default(), Vec::new());
            let (first, _) = decoder
                .decode(&wire[..cut], &mut out)
                .expect("it is well formed");
            let (second, done) = decoder
                .decode(&wire[first..], &mut out)
                .expect("well formed");
            assert!(done);
            assert_eq!(first + second, wire.len() - 4);
            assert_eq!(out, b"abc0123456789");
        }
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for wire in [
            "\r\n",
            "x\r\n",
            "1;a=b\r\n",
            "1\r\nab\r\n",
            "0\r\nTrailer: x\r\n\r\n",
            "1\n",
        ] {
            let wire = format!("{wire}{}", " ".repeat(40));
            let result = Chunked::default().decode(wire.as_bytes(), &mut Vec::new());
            assert!(result.is_err(), "{wire:?}");
        }
    }
}
