//! Returns the bytes between a cursor and the end of its stream as slices to send.

use super::log::NONE;
use super::{Local, SubId};
use crate::record::Seq;

/// Maximum number of slices per [`Local::gather`]: the limit of Linux per call (`IOV_MAX`).
pub const SLICES_MAX: usize = 1024;

/// Result of [`Local::gather`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Bytes in the slices.
    pub bytes: usize,
    /// The owner has lost records, and no slice was returned. Report a gap to the owner and call [`Local::skip_gap`].
    pub gap: bool,
}

impl Local {
    /// Returns true if the owner has bytes to send, or a gap to report.
    pub fn pending(&self, chain: SubId) -> bool {
        self.chain(chain)
            .any(|subscription| subscription.cursor < self.stream(subscription).end())
    }

    /// Returns the position of the first record that a chain's owner has not received: `Some(None)` if it has received
    /// everything, `None` if records were lost.
    pub fn first_unread(&self, chain: SubId) -> Option<Option<Seq>> {
        if self.has_gap(chain) {
            return None;
        }
        let unread = self.chain(chain).filter_map(|subscription| {
            let stream = self.stream(subscription);
            stream.first_after(subscription.cursor, 0, subscription.owner)
        });
        Some(unread.map(|(seq, _)| seq).min())
    }

    /// Returns true if this owner has lost records.
    pub fn has_gap(&self, chain: SubId) -> bool {
        self.chain(chain)
            .any(|subscription| subscription.cursor < self.stream(subscription).start())
    }

    /// Returns true if the log has lost the records; false if the owner was too slow.
    pub fn is_log_lost(&self, chain: SubId) -> bool {
        self.chain(chain)
            .any(|subscription| self.stream(subscription).has_log_lost(subscription.cursor))
    }

    /// Returns the bytes to send if they consist of one slice. This is the fast path of [`Local::gather`] without `raw`. The slice
    /// has at most `bytes_max` bytes, unless a single frame is larger. `None`: use `gather`.
    pub fn contiguous(&self, chain: SubId, bytes_max: usize) -> Option<&[u8]> {
        let mut waiting = None;
        for subscription in self.chain(chain) {
            let stream = self.stream(subscription);
            if subscription.cursor < stream.end()
                && waiting.replace((subscription, stream)).is_some()
            {
                return None;
            }
        }
        let Some((subscription, stream)) = waiting else {
            return Some(&[]);
        };
        if subscription.cursor < stream.start() {
            return None;
        }
        if stream.has_excepts()
            && stream
                .next_except(subscription.cursor, subscription.owner)
                .is_some()
        {
            return None;
        }
        let end = stream.cut(subscription.cursor, bytes_max, Seq::MAX);
        Some(stream.bytes(subscription.cursor, end))
    }

    /// Appends the bytes between the cursors and the ends of the streams, in ascending order of sequence numbers over all channels
    /// of the chain.
    ///
    /// `raw` selects the payloads without transfer framing. The result ends with a complete frame. It has at most
    /// `bytes_max` bytes, unless the first frame is larger, and at most [`SLICES_MAX`] slices.
    pub fn gather<'a>(
        &'a self,
        chain: SubId,
        raw: bool,
        out: &mut Vec<&'a [u8]>,
        bytes_max: usize,
    ) -> Gathered {
        if self.has_gap(chain) {
            return Gathered {
                bytes: 0,
                gap: true,
            };
        }
        let mut bytes = 0usize;
        let mut slices = 0;
        let mut last = 0;
        while let Some(run) = self.next_run(chain, last, raw) {
            let stream =
                &self.streams[self.subscriptions[run.subscription as usize].stream as usize];
            let room = bytes_max.saturating_sub(bytes);
            if slices == SLICES_MAX || (bytes > 0 && stream.first_len(run.start, raw) > room) {
                break;
            }
            let slice = if raw {
                stream.payload(run.start)
            } else {
                stream.bytes(run.start, stream.cut(run.start, room, run.before))
            };
            last = stream.last_seq(run.start, if raw { 1 } else { slice.len() });
            bytes += slice.len();
            slices += 1;
            out.push(slice);
        }
        Gathered { bytes, gap: false }
    }

    /// Records that the first `bytes` bytes of the last [`Local::gather`] were sent. Cursors stay at frame boundaries,
    /// so the unsent part of a partially sent frame is appended to `rest`. Send `rest` before anything else.
    ///
    /// Do not pump, subscribe or unsubscribe between the two calls.
    pub fn advance(&mut self, chain: SubId, raw: bool, bytes: usize, rest: &mut Vec<u8>) {
        let mut left = bytes;
        let mut last = 0;
        while left > 0 {
            let Some(run) = self.next_run(chain, last, raw) else {
                return;
            };
            let subscription = &mut self.subscriptions[run.subscription as usize];
            let stream = &mut self.streams[subscription.stream as usize];
            let next = if raw {
                let payload = stream.payload(run.start);
                last = stream.last_seq(run.start, 1);
                if left < payload.len() {
                    rest.extend_from_slice(&payload[left..]);
                }
                left = left.saturating_sub(payload.len());
                stream.frame_end(run.start + 1)
            } else {
                let run_end = stream.cut(run.start, usize::MAX, run.before);
                let sent = (run_end - run.start).min(left as u64);
                let next = stream.frame_end(run.start + sent);
                rest.extend_from_slice(stream.bytes(run.start + sent, next));
                left -= sent as usize;
                if left > 0 {
                    last = stream.last_seq(run.start, sent as usize);
                }
                next
            };
            subscription.cursor = next;
            if next == stream.end() {
                stream.caught_up(&mut self.pool);
            }
        }
        self.skip_excepts(chain);
    }

    /// Moves the cursors of a chain over frames that its owner must not receive. Must be called before the bytes to send are
    /// queried.
    #[inline]
    pub fn skip_excepts(&mut self, chain: SubId) {
        let mut id = chain.0;
        while let Some(subscription) = self.subscriptions.get_mut(id as usize) {
            id = subscription.next;
            let stream = &mut self.streams[subscription.stream as usize];
            if !stream.has_excepts() {
                continue;
            }
            let cursor = stream.skip_excepts(subscription.cursor, subscription.owner);
            if cursor != subscription.cursor {
                subscription.cursor = cursor;
                if cursor == stream.end() {
                    stream.caught_up(&mut self.pool);
                }
            }
        }
    }

    /// Returns the number of frames that were not sent to the owner of a chain, including those that it must not
    /// receive. The decrease caused by [`Local::advance`] is the number of frames sent.
    pub fn frames_ahead(&self, chain: SubId) -> u64 {
        let (mut id, mut frames) = (chain.0, 0);
        while let Some(subscription) = self.subscriptions.get(id as usize) {
            debug_assert_ne!(subscription.owner, NONE, "the chain was ended");
            let stream = &self.streams[subscription.stream as usize];
            frames += stream.frames_from(subscription.cursor);
            id = subscription.next;
        }
        frames
    }

    /// Continues after a gap with the oldest frame that can still be sent.
    pub fn skip_gap(&mut self, chain: SubId) {
        let mut id = chain.0;
        while id != NONE {
            let subscription = &mut self.subscriptions[id as usize];
            let stream = &mut self.streams[subscription.stream as usize];
            if subscription.cursor < stream.start() {
                subscription.cursor = stream.start();
                if subscription.cursor == stream.end() {
                    stream.caught_up(&mut self.pool);
                }
            }
            id = subscription.next;
        }
    }

    /// Returns the longest piece of one stream that comes next after `last` in the merged order of the chain.
    fn next_run(&self, chain: SubId, last: Seq, raw: bool) -> Option<Run> {
        let first = self.subscriptions.get(chain.0 as usize)?;
        if first.next == NONE && !raw && !self.stream(first).has_excepts() {
            // With one channel all bytes are a single run, which the first call has returned.
            let unread = last == 0 && first.cursor < self.stream(first).end();
            return unread.then_some(Run {
                subscription: chain.0,
                start: first.cursor,
                before: Seq::MAX,
            });
        }
        let mut best: Option<(Seq, Run)> = None;
        let mut id = chain.0;
        while let Some(subscription) = self.subscriptions.get(id as usize) {
            let stream = self.stream(subscription);
            let owner = subscription.owner;
            if let Some((seq, start)) = stream.first_after(subscription.cursor, last, owner) {
                match &mut best {
                    Some((best_seq, run)) if *best_seq <= seq => run.before = run.before.min(seq),
                    _ => {
                        let before = best.as_ref().map_or(Seq::MAX, |(other, _)| *other);
                        best = Some((
                            seq,
                            Run {
                                subscription: id,
                                start,
                                before,
                            },
                        ));
                    }
                }
            }
            id = subscription.next;
        }
        let (_, mut run) = best?;
        let subscription = &self.subscriptions[run.subscription as usize];
        let stream = self.stream(subscription);
        if let Some(seq) = stream.next_except(run.start, subscription.owner) {
            run.before = run.before.min(seq);
        }
        Some(run)
    }
}

/// A piece of one stream in the merged order of a chain.
struct Run {
    subscription: u32,
    /// Start of the piece in the stream.
    start: u64,
    /// Sequence number of the next frame in another stream.
    before: Seq,
}
