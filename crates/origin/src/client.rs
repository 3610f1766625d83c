//! Publishes to an HTTP control port, over a persistent connection.

use std::time::Duration;

use serde_json::json;

use crate::address::{AuthorizationError, Url};
use crate::post::{HttpPoster, PostError};
use crate::tls::TlsError;

/// Reason why items were not published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// No HTTP response arrived in time.
    #[error("{0}; is an edge or Pushpin listening there?")]
    Unreachable(String),
    /// No request was sent, because the credentials may not be sent.
    #[error(transparent)]
    Unauthorized(#[from] AuthorizationError),
    /// The response is not 2xx.
    #[error("{authority} refuses with {status}: {text}")]
    Refused {
        /// Host and port.
        authority: String,
        /// Its status.
        status: u16,
        /// The beginning of the response body.
        text: String,
    },
}

impl PublishError {
    /// Returns true if the server will never accept these items, whatever the credentials and the rate are.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if matches!(status, 400 | 405..=407 | 409..=428 | 430..=499))
    }

    /// Returns true if the items may be the cause of the error, although the status does not prove it: a filter of the path in
    /// front of the edge may have rejected an item, or an item may have caused a failure. An overloaded server is no such case,
    /// because it refuses all items.
    pub fn is_doubtful(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if !self.is_final() && !matches!(status, 408 | 429 | 503))
    }
}

/// A publisher for one control port.
pub struct Client {
    poster: HttpPoster,
}

impl Client {
    /// Creates a client with a timeout per publish, which includes the connection.
    pub fn new(url: Url, timeout: Duration) -> Self {
        Self {
            poster: HttpPoster::new(url, timeout),
        }
    }

    /// Reads the system's trusted certificates, if TLS needs them. This reads environment variables. Without this call, the
    /// first publish reads them, possibly in another thread while the application changes the environment.
    pub fn prepare(&mut self) -> Result<(), TlsError> {
        self.poster.prepare()
    }

    /// Returns host and port.
    pub fn authority(&self) -> String {
        self.poster.authority()
    }

    /// Publishes JSON items and waits for the response. Any 2xx status is a success.
    ///
    /// # Errors
    /// The items were not published, as far as is known.
    pub fn publish(
        &mut self,
        authorization: Option<&str>,
        items: &[serde_json::Value],
    ) -> Result<(), PublishError> {
        let headers = authorization.map(|value| ("Authorization", value));
        let body = json!({ "items": items }).to_string();
        // `post` may send the request twice. This is safe, because ids prevent an edge from delivering an item twice.
        let authority = self.poster.authority();
        let answer = self
            .poster
            .post(headers.as_slice(), body.as_bytes())
            .map_err(|error| {
                PublishError::Unreachable(match error {
                    PostError::Connecting(error) => {
                        format!("cannot connect to {authority}: {error}")
                    }
                    PostError::Exchanging(error) => {
                        format!("cannot publish to {authority}: {error}")
                    }
                })
            })?;
        if answer.is_success() {
            Ok(())
        } else {
            Err(PublishError::Refused {
                authority,
                status: answer.status,
                text: answer.text(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    fn client(port: u16) -> Client {
        let url = Url {
            is_tls: false,
            host: "127.0.0.1".into(),
            port,
            path: "/publish/".into(),
            socket: None,
        };
        Client::new(url, TIMEOUT)
    }

    fn read_request(socket: &mut TcpStream) -> String {
        let (mut request, mut buffer) = (String::new(), [0; 4096]);
        loop {
            let len = socket.read(&mut buffer).expect("a request");
            assert!(len > 0, "a whole request");
            request.push_str(std::str::from_utf8(&buffer[..len]).expect("ASCII"));
            let Some((head, body)) = request.split_once("\r\n\r\n") else {
                continue;
            };
            let (_, rest) = head.split_once("Content-Length: ").expect("a length");
            let length = rest.lines().next().expect("a line");
            if body.len() >= length.parse().expect("a number") {
                return request;
            }
        }
    }

    /// Publishes to a server that sends this response. Returns the result, and the request that the server received.
    fn against(answer: &'static [u8]) -> (Result<(), PublishError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a client");
            let request = read_request(&mut socket);
            socket.write_all(answer).expect("a client that reads");
            request
        });
        let outcome = client(port).publish(Some("Bearer t"), &[json!({"channel": "c"})]);
        (outcome, server.join().expect("the server"))
    }

    #[test]
    fn posts_items_and_accepts_any_2xx() {
        let (outcome, request) =
            against(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nPublished\n");
        assert_eq!(outcome, Ok(()));
        assert!(
            request.starts_with("POST /publish/ HTTP/1.1\r\nHost: 127.0.0.1:"),
            "{request}"
        );
        assert!(
            request.contains("\r\nAuthorization: Bearer t\r\n"),
            "{request}"
        );
        assert!(
            request.ends_with(r#"{"items":[{"channel":"c"}]}"#),
            "{request}"
        );
        assert_eq!(against(b"HTTP/1.0 202 Fine\r\n\r\n").0, Ok(()));
    }

    #[test]
    fn keeps_a_connection_while_responses_allow_it() {
        const ANSWERS: [&[u8]; 5] = [
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.1 204 No Content\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            // The server closes the connection after this response.
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        ];
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let server = thread::spawn(move || {
            for answers in [&ANSWERS[..4], &ANSWERS[4..]] {
                let (mut socket, _) = listener.accept().expect("a client");
                for answer in answers {
                    read_request(&mut socket);
                    socket.write_all(answer).expect("a client that reads");
                }
            }
        });
        let mut client = client(port);
        for _ in ANSWERS {
            assert_eq!(client.publish(None, &[json!({})]), Ok(()));
        }
        assert!(!client.poster.is_connected());
        server.join().expect("the server");
    }

    #[test]
    fn reports_refusals_and_rejects_non_http_responses() {
        let (outcome, _) =
            against(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 16\r\n\r\nInvalid format.\n");
        let error = outcome.expect_err("a refusal");
        assert!(error.is_final());
        let error = error.to_string();
        assert!(
            error.contains("refuses with 400: Invalid format."),
            "{error}"
        );
        for (garbage, said) in [
            (&b"SSH-2.0-x\r\n"[..], "not HTTP"),
            (b"", "without a response"),
            (b"HTTP/1.1 2", "not HTTP"),
        ] {
            let error = against(garbage).0.expect_err("no answer");
            assert!(!error.is_final());
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn only_statuses_possibly_about_items_are_doubtful() {
        let refused = |status| PublishError::Refused {
            authority: String::new(),
            status,
            text: String::new(),
        };
        for (status, is_doubtful) in [(400, false), (413, false), (408, false), (429, false)] {
            assert_eq!(refused(status).is_doubtful(), is_doubtful, "{status}");
        }
        for (status, is_doubtful) in [(401, true), (403, true), (404, true), (500, true)] {
            assert_eq!(refused(status).is_doubtful(), is_doubtful, "{status}");
        }
        assert!(!refused(503).is_doubtful() && refused(502).is_doubtful());
        assert!(!PublishError::Unreachable(String::new()).is_doubtful());
    }

    #[test]
    fn unreachable_error_has_the_address() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let error = client(port).publish(None, &[]).expect_err("nobody");
        assert!(
            error.to_string().contains(&format!("127.0.0.1:{port}")),
            "{error}"
        );
    }
}
