//! Items published to clients since the last report.

use crate::stats::mode::Mode;

/// Counts of one route, or of all routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Responses to long polls.
    pub http_responses: u64,
    /// Messages to WebSockets.
    pub messages: u64,
    /// Bytes sent, counted once per client.
    pub bytes: u64,
    /// Blocks received, counted once per item. `None`: no item had blocks.
    pub blocks_received: Option<u64>,
    /// Blocks sent, counted once per client.
    pub blocks_sent: Option<u64>,
}

impl Published {
    /// Counts one content that was sent to this number of clients.
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

    /// Counts one received item with this number of blocks, for the given mode.
    pub fn receive(&mut self, blocks: Option<u64>) {
        if let Some(blocks) = blocks {
            *self.blocks_received.get_or_insert(0) += blocks;
        }
    }
}
