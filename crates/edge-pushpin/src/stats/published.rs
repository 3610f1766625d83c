//! Items published to clients since the last report.

use crate::stats::mode::Mode;

/// Counts of one route, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Responses to long polls.
    pub http_responses: u64,
    /// Messages to WebSockets.
    pub messages: u64,
    /// Bytes, once per client.
    pub bytes: u64,
    /// Blocks, once per item; `None`: no item had blocks.
    pub blocks_received: Option<u64>,
    /// Blocks, once per client.
    pub blocks_sent: Option<u64>,
}

impl Published {
    /// Counts a content sent to a number of clients.
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

    /// Counts an item of this number of blocks for some of the clients.
    pub fn receive(&mut self, blocks: Option<u64>) {
        if let Some(blocks) = blocks {
            *self.blocks_received.get_or_insert(0) += blocks;
        }
    }
}
