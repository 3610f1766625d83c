//! Requests and responses: the loop of the scenarios `http`, `ws echo` and `ws upgrade`.

pub(crate) mod echo;
pub(crate) mod http;
mod runner;
pub(crate) mod secure;
pub(crate) mod upgrade;

pub(crate) use runner::{Plan, run};

use crate::error::Fault;

/// A received item on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The connection is open for requests.
    Welcome,
    /// The response to the oldest request.
    Response {
        /// True if the response is as expected.
        good: bool,
        /// True if more requests may follow on this connection.
        keep_alive: bool,
    },
}

/// Format of requests and responses. One value per process; `Wire` is the state of one connection.
pub(crate) trait Protocol {
    /// State of one connection.
    type Wire: Default;

    /// Appends the first bytes of a new connection. Returns true if requests must wait for [`Answer::Welcome`].
    fn open(&mut self, wire: &mut Self::Wire, out: &mut Vec<u8>) -> bool;

    /// Appends request `number`.
    fn request(&mut self, wire: &mut Self::Wire, number: u64, out: &mut Vec<u8>);

    /// Called before bytes are sent. May append bytes that were held back to send them in one piece.
    fn end_turn(&mut self, _wire: &mut Self::Wire, _out: &mut Vec<u8>) {}

    /// Consumes `input` up to the end of one response, and returns the number of bytes consumed. Without a complete response,
    /// consumes all bytes. May append bytes to send to `out`.
    ///
    /// # Errors
    /// The bytes are malformed; the caller closes the connection.
    fn handle(
        &mut self,
        wire: &mut Self::Wire,
        input: &mut [u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Answer>), Fault>;

    /// Handles the end of the connection, which may complete a response.
    fn handle_end(&mut self, wire: &mut Self::Wire) -> Option<Answer>;
}
