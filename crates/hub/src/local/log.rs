//! The encoded frames of one stream that a subscriber has not read yet.

use std::collections::VecDeque;

use crate::record::Seq;

/// No stream, no subscription.
pub(super) const NONE: u32 = u32::MAX;

/// Maximum number of empty logs retained for reuse, so that a busy channel does not allocate per message.
const POOL_LOGS_MAX: usize = 16;
/// Maximum buffer size of a reused log.
const POOL_LOG_BYTES_MAX: usize = 64 * 1024;
/// Maximum frame capacity of a reused log.
const POOL_LOG_FRAMES_MAX: usize = 1024;

/// One encoded record.
pub(super) struct Frame {
    pub(super) seq: Seq,
    /// Absolute offset of the frame's first byte in the stream.
    pub(super) start: u64,
    /// Start of the payload, in bytes from `start`.
    pub(super) payload_start: u32,
    pub(super) payload_end: u32,
    /// The owner that must not receive the frame, or `NONE`.
    pub(super) except: u32,
}

/// Bytes of contiguous frames.
#[derive(Default)]
pub(super) struct Log {
    pub(super) data: Vec<u8>,
    /// Number of dropped bytes at the front of `data`. They are removed in bulk, so dropping a frame costs no copy.
    pub(super) dropped: usize,
    pub(super) frames: VecDeque<Frame>,
    /// Number of frames that exclude an owner.
    pub(super) excepts: u32,
}

/// Empty logs for reuse.
#[derive(Default)]
pub(super) struct LogPool {
    // Boxed because streams hold boxes: moving the box in and out needs no allocation.
    #[allow(clippy::vec_box)]
    logs: Vec<Box<Log>>,
}

impl LogPool {
    pub(super) fn take(&mut self) -> Box<Log> {
        self.logs.pop().unwrap_or_default()
    }

    pub(super) fn give(&mut self, mut log: Box<Log>) {
        if self.logs.len() < POOL_LOGS_MAX
            && log.data.capacity() <= POOL_LOG_BYTES_MAX
            && log.frames.capacity() <= POOL_LOG_FRAMES_MAX
        {
            log.data.clear();
            log.dropped = 0;
            log.frames.clear();
            log.excepts = 0;
            self.logs.push(log);
        }
    }
}

impl Log {
    pub(super) fn push(&mut self, frame: Frame) {
        self.excepts += u32::from(frame.except != NONE);
        self.frames.push_back(frame);
    }

    /// Drops frames from the front until at most `bytes_max` bytes remain, but never the newest frame. Returns the
    /// number of dropped bytes.
    pub(super) fn trim(&mut self, end: u64, bytes_max: usize) -> u64 {
        let mut dropped = 0;
        while self.data.len() - self.dropped > bytes_max && self.frames.len() > 1 {
            let Some(first) = self.frames.pop_front() else {
                break;
            };
            self.excepts -= u32::from(first.except != NONE);
            let next = self.frames.front().map_or(end, |frame| frame.start);
            dropped += next - first.start;
            self.dropped += (next - first.start) as usize;
        }
        // Remove dropped bytes only when they exceed half of the limit. A removal moves at most `bytes_max` bytes, so each byte is
        // moved at most twice on average.
        if self.dropped > bytes_max / 2 {
            self.data.drain(..self.dropped);
            self.dropped = 0;
        }
        dropped
    }
}
