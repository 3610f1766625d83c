//! What a control port answers, as far as it has come.

/// The final answer: its head is whole, and perhaps its body.
pub(crate) struct Reply<'a> {
    pub status: u16,
    pub body: &'a [u8],
    head: &'a [u8],
}

impl<'a> Reply<'a> {
    /// The answer after those that only say "go on"; `None`: its head is not there yet, or it is no HTTP.
    pub fn read(mut answer: &'a [u8]) -> Option<Self> {
        loop {
            let (head, body) = answer.split_at(head_end(answer)?);
            let digits = head.strip_prefix(b"HTTP/1.")?.get(2..5)?;
            let status = std::str::from_utf8(digits).ok()?.parse().ok()?;
            if !(100..200).contains(&status) {
                return Some(Self { status, body, head });
            }
            answer = body;
        }
    }

    /// Whether another request may follow on the connection.
    pub fn keeps_connection(&self) -> bool {
        let is_closed = field(self.head, "connection")
            .is_some_and(|value| !value.eq_ignore_ascii_case(b"keep-alive"));
        !is_closed && self.head.starts_with(b"HTTP/1.1")
    }

    fn is_complete(&self) -> bool {
        if let Some(length) = field(self.head, "content-length") {
            let length = std::str::from_utf8(length).ok();
            let length = length.and_then(|length| length.parse::<usize>().ok());
            return length.is_some_and(|length| self.body.len() >= length);
        }
        let is_chunked = field(self.head, "transfer-encoding").is_some();
        self.status == 204 || is_chunked && has_last_chunk(self.body)
    }
}

/// Whether the answer says that it ends here; without a length it ends with the connection.
pub(crate) fn is_complete(answer: &[u8]) -> bool {
    Reply::read(answer).is_some_and(|reply| reply.is_complete())
}

fn head_end(answer: &[u8]) -> Option<usize> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    end.map(|at| at + 4)
}

/// The value of a header. Others may have bytes that are no text.
fn field<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    head.split(|&byte| byte == b'\n').find_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (field, value) = line.split_at(colon);
        let is_it = field.eq_ignore_ascii_case(name.as_bytes());
        is_it.then(|| value[1..].trim_ascii())
    })
}

/// Whether the body in chunks has come to its end. What is within a chunk may look like one.
fn has_last_chunk(mut body: &[u8]) -> bool {
    loop {
        let Some(end) = body.windows(2).position(|two| two == b"\r\n") else {
            return false;
        };
        let (line, rest) = (&body[..end], &body[end + 2..]);
        let size = line.split(|&byte| byte == b';').next().unwrap_or_default();
        let size = std::str::from_utf8(size.trim_ascii()).ok();
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
        match size {
            // Trailers may follow.
            Some(0) => return rest.starts_with(b"\r\n") || head_end(rest).is_some(),
            Some(size) => match rest.get(size.saturating_add(2)..) {
                Some(next) => body = next,
                None => return false,
            },
            None => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_where_it_says() {
        for whole in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[..],
            b"HTTP/1.1 204 No Content\r\n\r\n",
            // What comes before a length is no matter.
            b"HTTP/1.1 200 OK\r\nServer: caf\xe9\r\ncontent-length:2\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n0\r\n\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\nA: b\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        ] {
            for len in 0..whole.len() {
                let shown = whole[..len].escape_ascii();
                assert!(!is_complete(&whole[..len]), "{shown}");
            }
            assert!(is_complete(whole), "{}", whole.escape_ascii());
        }
    }

    #[test]
    fn the_final_answer_counts() {
        let answer =
            b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.0 403 Forbidden\r\n\r\nno";
        let reply = Reply::read(answer).expect("an answer");
        assert_eq!((reply.status, reply.body), (403, &b"no"[..]));
        assert!(!reply.keeps_connection() && !is_complete(answer));
        for (head, keeps) in [
            ("", true),
            ("Connection: Keep-Alive\r\n", true),
            ("connection: close\r\n", false),
        ] {
            let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n");
            let reply = Reply::read(answer.as_bytes()).expect("an answer");
            assert_eq!(reply.keeps_connection(), keeps, "{head}");
        }
        for none in [
            &b"SSH-2.0-x\r\n\r\n"[..],
            b"HTTP/1.1 2\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n",
        ] {
            assert!(Reply::read(none).is_none());
        }
    }
}
