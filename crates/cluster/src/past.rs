//! Collects older messages for a client that missed more than its node retains. The log is searched channel by channel, and the
//! result is in the log's order.
//!
//! The number of examined messages, of events and of bytes is limited. Above a limit, the oldest events become a gap.

use std::collections::BTreeMap;

use crate::exchange::{Content, PastEntry, PastRequest, Received};

/// Maximum number of messages examined for one request.
pub(crate) const LOOKS_MAX: usize = 50_000;

/// A request in progress.
pub(crate) struct Collector {
    pub request: PastRequest,
    /// Index of the channel that is being searched.
    pub channel: usize,
    /// Sequence up to which this channel was searched.
    pub at: u64,
    found: BTreeMap<u64, Received>,
    bytes: usize,
    looks: usize,
    /// Sequence up to which all events count as missing.
    missing_up_to: u64,
    /// Sequence of the first presence record that was found. Presence cannot be replayed, so the result has a gap there.
    left_out: Option<u64>,
}

impl Collector {
    pub fn new(request: PastRequest) -> Collector {
        Collector {
            at: request.after,
            channel: 0,
            found: BTreeMap::new(),
            bytes: 0,
            looks: 0,
            missing_up_to: request.after,
            left_out: None,
            request,
        }
    }

    /// Examines the next message of a channel. Returns false if [`LOOKS_MAX`] messages were examined, because the request then
    /// fails.
    pub fn look(&mut self, content: Option<Content>, received: impl FnOnce() -> Received) -> bool {
        self.looks += 1;
        match content {
            Some(Content::Event) => {
                let received = received();
                let seq = received.place.seq;
                if received.unix_ms < self.request.oldest_ms {
                    self.miss(seq);
                } else if seq > self.missing_up_to {
                    self.bytes += size(&received);
                    self.found.insert(seq, received);
                    self.keep_bounds();
                }
            }
            Some(Content::Presence) if self.request.events_only => {}
            Some(Content::Presence) => {
                let seq = received().place.seq;
                self.left_out = Some(self.left_out.map_or(seq, |first| first.min(seq)));
            }
            // These messages are not for clients.
            Some(Content::Direct | Content::Workers) | None => {}
        }
        self.looks < LOOKS_MAX
    }

    /// Counts everything up to a sequence as missing.
    pub fn miss(&mut self, up_to: u64) {
        if up_to <= self.missing_up_to {
            return;
        }
        self.missing_up_to = up_to;
        let kept = self.found.split_off(&(up_to + 1));
        for gone in std::mem::replace(&mut self.found, kept).values() {
            self.bytes -= size(gone);
        }
    }

    fn keep_bounds(&mut self) {
        while self.found.len() > self.request.events_max || self.bytes > self.request.bytes_max {
            let Some((&oldest, _)) = self.found.first_key_value() else {
                return;
            };
            // The result has one gap at its start, so dropping the oldest event drops everything up to it.
            self.miss(oldest);
        }
    }

    /// Continues with the next channel, from the start. Returns false if all channels were searched.
    pub fn next_channel(&mut self) -> bool {
        self.channel += 1;
        // Earlier events are in the gap in any case.
        self.at = self.missing_up_to;
        self.channel < self.request.channels.len()
    }

    /// Returns the id of the request and its events.
    pub fn finish(self) -> (u64, Vec<PastEntry>) {
        let PastRequest { id, after, .. } = self.request;
        let missing = self.missing_up_to.min(self.request.up_to);
        let mut entries = Vec::with_capacity(self.found.len() + 2);
        if missing > after {
            entries.push(PastEntry::Gap(missing));
        }
        let mut left_out = self.left_out.filter(|seq| *seq > missing);
        for (seq, received) in self.found {
            if let Some(gap) = left_out.take_if(|gap| *gap < seq) {
                entries.push(PastEntry::Gap(gap));
            }
            entries.push(PastEntry::Event(received));
        }
        entries.extend(left_out.map(PastEntry::Gap));
        (id, entries)
    }

    /// Returns the id of the request, and one gap that covers the complete request.
    pub fn fail(mut self) -> (u64, Vec<PastEntry>) {
        let up_to = self.request.up_to;
        self.miss(up_to);
        self.finish()
    }
}

fn size(received: &Received) -> usize {
    received.name.as_ref().map_or(0, Vec::len) + received.data.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Place;

    fn collector(events_max: usize, bytes_max: usize, channels: usize) -> Collector {
        Collector::new(PastRequest {
            id: 3,
            epoch: 7,
            after: 10,
            up_to: 100,
            oldest_ms: 5,
            events_max,
            bytes_max,
            channels: vec![b"c".to_vec(); channels],
            events_only: false,
        })
    }

    fn look(collector: &mut Collector, seq: u64, unix_ms: u64, content: Content) {
        let received = Received {
            place: Place { epoch: 7, seq },
            content,
            channel: b"c".to_vec(),
            name: None,
            data: b"1234".to_vec(),
            except: None,
            unix_ms,
        };
        assert!(collector.look(Some(content), || received));
    }

    fn told(collector: Collector) -> Vec<(bool, u64)> {
        let (id, entries) = collector.finish();
        assert_eq!(id, 3);
        let told = entries.iter().map(|entry| match entry {
            PastEntry::Event(received) => (true, received.place.seq),
            PastEntry::Gap(up_to) => (false, *up_to),
        });
        told.collect()
    }

    #[test]
    fn merges_channels_in_log_order() {
        let mut collector = collector(10, 1000, 2);
        look(&mut collector, 11, 9, Content::Event);
        look(&mut collector, 30, 9, Content::Event);
        assert!(collector.next_channel());
        look(&mut collector, 20, 9, Content::Event);
        assert!(!collector.next_channel());
        assert_eq!(told(collector), [(true, 11), (true, 20), (true, 30)]);
    }

    #[test]
    fn bounds_keep_the_newest_and_report_one_gap() {
        for (events_max, bytes_max) in [(2, 1000), (100, 11)] {
            let mut collector = collector(events_max, bytes_max, 2);
            for seq in 11..=15 {
                look(&mut collector, seq, 9, Content::Event);
            }
            assert!(collector.next_channel());
            // The search of the next channel starts after the gap.
            assert_eq!(collector.at, 13);
            look(&mut collector, 20, 9, Content::Event);
            assert_eq!(told(collector), [(false, 14), (true, 15), (true, 20)]);
        }
        let mut old = collector(10, 1000, 1);
        look(&mut old, 11, 4, Content::Event);
        look(&mut old, 12, 5, Content::Event);
        assert_eq!(told(old), [(false, 11), (true, 12)]);
    }

    #[test]
    fn presence_becomes_a_gap() {
        let mut collector = collector(10, 1000, 1);
        look(&mut collector, 11, 9, Content::Event);
        look(&mut collector, 12, 9, Content::Presence);
        look(&mut collector, 13, 9, Content::Presence);
        look(&mut collector, 14, 9, Content::Direct);
        look(&mut collector, 15, 9, Content::Event);
        assert_eq!(told(collector), [(true, 11), (false, 12), (true, 15)]);
    }

    #[test]
    fn failed_request_is_one_gap() {
        let mut collector = collector(10, 1000, 1);
        look(&mut collector, 11, 9, Content::Event);
        assert_eq!(collector.fail(), (3, vec![PastEntry::Gap(100)]));
    }
}
