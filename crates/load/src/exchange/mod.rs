//! Requests and their answers: the loop of the scenarios `http`, `ws echo` and `ws upgrade`.

pub(crate) mod echo;
pub(crate) mod http;
mod runner;
pub(crate) mod secure;
pub(crate) mod upgrade;

pub(crate) use runner::{Plan, run};

use crate::error::Fault;

/// What has come on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The connection may be used for requests.
    Welcome,
    /// The answer to the oldest request.
    Response {
        /// It is what was expected.
        good: bool,
        /// More requests may follow on this connection.
        keep_alive: bool,
    },
}

/// How requests look and how answers are read. One value per process; `Wire` is the state of one
/// connection.
pub(crate) trait Protocol {
    /// What a connection has to remember.
    type Wire: Default;

    /// Appends what a new connection begins with. `true`: requests have to wait for
    /// [`Answer::Welcome`].
    fn open(&mut self, wire: &mut Self::Wire, out: &mut Vec<u8>) -> bool;

    /// Appends request `number`.
    fn request(&mut self, wire: &mut Self::Wire, number: u64, out: &mut Vec<u8>);

    /// All that this turn sends has been appended; may append what it kept back to send it in one piece.
    fn end_turn(&mut self, _wire: &mut Self::Wire, _out: &mut Vec<u8>) {}

    /// Reads on in `input` up to the end of one answer and tells how many bytes that were; all of them
    /// when there is no answer. May append to `out` what has to be sent back.
    ///
    /// # Errors
    /// The bytes cannot be understood; the connection is given up.
    fn handle(
        &mut self,
        wire: &mut Self::Wire,
        input: &mut [u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Answer>), Fault>;

    /// The server has closed the connection, which may complete an answer.
    fn handle_end(&mut self, wire: &mut Self::Wire) -> Option<Answer>;
}
