//! HTTP/1.1 requests.

use std::ops::RangeInclusive;

use fermata_proto::response_reader::RequestKind;

use super::{Answer, Protocol};
use crate::error::Fault;
use crate::response::Reader;
use crate::target::{Template, Values};

/// Template of all requests.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub method: String,
    pub host: String,
    pub path: Template,
    /// Additional headers, each with its line end.
    pub headers: Vec<u8>,
    pub body: Option<Template>,
}

impl Request {
    /// Appends one request.
    pub fn render(
        &self,
        values: Values<'_>,
        close: bool,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(self.method.as_bytes());
        out.push(b' ');
        self.path.render(values, out);
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(self.host.as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.headers);
        if close {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        if let Some(body) = &self.body {
            scratch.clear();
            body.render(values, scratch);
            out.extend_from_slice(b"Content-Length: ");
            fermata_proto::number::decimal(out, scratch.len() as u64);
            out.extend_from_slice(b"\r\n\r\n");
            out.extend_from_slice(scratch);
        } else {
            out.extend_from_slice(b"\r\n");
        }
    }

    fn is_constant(&self) -> bool {
        self.path.is_constant() && self.body.as_ref().is_none_or(Template::is_constant)
    }
}

/// Protocol of the scenario `http`.
#[derive(Debug)]
pub(crate) struct Http {
    request: Request,
    /// Rendered request, if it is always the same.
    constant: Option<Vec<u8>>,
    close: bool,
    request_kind: RequestKind,
    accepted: RangeInclusive<u16>,
    scratch: Vec<u8>,
}

impl Http {
    /// Creates the protocol. With `close`, each request asks the server to close the connection. A status outside `accepted` counts
    /// as an error.
    pub fn new(request: Request, close: bool, accepted: RangeInclusive<u16>) -> Self {
        let mut constant = None;
        if request.is_constant() {
            let mut bytes = Vec::new();
            request.render(Values::default(), close, &mut Vec::new(), &mut bytes);
            constant = Some(bytes);
        }
        Self {
            request_kind: RequestKind {
                is_head: request.method == "HEAD",
                ..RequestKind::default()
            },
            request,
            constant,
            close,
            accepted,
            scratch: Vec::new(),
        }
    }
}

impl Protocol for Http {
    type Wire = Reader;

    fn open(&mut self, wire: &mut Reader, _out: &mut Vec<u8>) -> bool {
        wire.reset();
        false
    }

    fn request(&mut self, _wire: &mut Reader, number: u64, out: &mut Vec<u8>) {
        if let Some(constant) = &self.constant {
            out.extend_from_slice(constant);
        } else {
            let values = Values {
                number,
                client: number,
                message: b"",
            };
            self.request
                .render(values, self.close, &mut self.scratch, out);
        }
    }

    fn handle(
        &mut self,
        wire: &mut Reader,
        input: &mut [u8],
        _out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Answer>), Fault> {
        let mut rest = &*input;
        let done = wire.handle(&mut rest, self.request_kind)?;
        let answer = done.map(|done| Answer::Response {
            good: self.accepted.contains(&done.status),
            keep_alive: done.keep_alive && !self.close,
        });
        Ok((input.len() - rest.len(), answer))
    }

    fn handle_end(&mut self, wire: &mut Reader) -> Option<Answer> {
        wire.handle_end().map(|done| Answer::Response {
            good: self.accepted.contains(&done.status),
            keep_alive: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_with_everything() {
        let request = Request {
            method: "POST".to_string(),
            host: "h:1".to_string(),
            path: Template::parse(b"/{n}"),
            headers: b"A: b\r\n".to_vec(),
            body: Some(Template::parse(b"<{n}>")),
        };
        let mut http = Http::new(request, true, 200..=399);
        let mut out = Vec::new();
        http.request(&mut Reader::default(), 12, &mut out);
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "POST /12 HTTP/1.1\r\nHost: h:1\r\nA: b\r\nConnection: close\r\nContent-Length: 4\r\n\r\n<12>"
        );
    }
}
