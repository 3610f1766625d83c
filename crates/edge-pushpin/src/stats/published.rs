//! What was published to clients since the last report.

use crate::stats::mode::Mode;

/// Of one route, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Answers to long polls.
    pub http_responses: u64,
    /// Messages to WebSockets.
    pub messages: u64,
    /// Bytes, once for each client.
    pub bytes: u64,
    /// Blocks, once for each item; `None`: there was none.
    pub blocks_received: Option<u64>,
    /// Blocks, once for each client.
    pub blocks_sent: Option<u64>,
}

impl Published {
    /// A content goes to so many clients.
    pub fn add(&mut self, mode: Mode, clients: u64, bytes: usize, blocks: Option<u64>) {
        match mode {
            Mode::Response => self.http_responses += clients,
            Mode::Stream => {}
            Mode::Socket => self.messages += clients,
        }
        self.bytes += clients * bytes as u64;
        if let Some(blocks) = blocks.filter(|_| clients > 0) {
            *self.blocks_sent.get_or_insert(0) += clients * blocks;
        }
    }

    /// An item that weighs so much has come for some of them.
    pub fn receive(&mut self, blocks: Option<u64>) {
        if let Some(blocks) = blocks {
            *self.blocks_received.get_or_insert(0) += blocks;
        }
    }
}
