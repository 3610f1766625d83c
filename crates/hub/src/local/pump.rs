//! Moves records from the ring to the streams of subscribers.

use super::encode::{Encode, PayloadSpan};
use super::log::NONE;
use super::{Direct, Local, view_channel};
use crate::reader::{Read, Reader};
use crate::record::{Kind, Record, Subscriber};

impl Local {
    /// Reads up to `budget_records` records from the ring and encodes those with local subscribers. Returns true if more records
    /// may be available.
    ///
    /// It stops early when half of a log's room is filled. If the caller visits all owners after each pump
    /// ([`Local::next_ready`] until `None`), the log never overtakes an owner that accepts its frames, whatever the
    /// length of a burst.
    pub fn pump(
        &mut self,
        reader: &mut Reader,
        encode: &mut dyn Encode,
        budget_records: usize,
    ) -> bool {
        let mut room = self.config.log_bytes_max / 2;
        for _ in 0..budget_records {
            let by_hash = &self.by_hash;
            let direct = self.own.map(|(_, hash)| hash);
            let selected = self.selected.as_ref().map(|(hash, _)| *hash);
            let common = self.common;
            let mut first = NONE;
            let read = reader.read_next_if(&mut self.record, |hash| match by_hash.get(&hash) {
                Some(&stream) => {
                    first = stream;
                    true
                }
                None => [direct, selected, common].contains(&Some(hash)),
            });
            match read {
                Read::Record => {
                    self.traffic.records_read += 1;
                    let bytes = match self.record.kind {
                        Kind::Direct => self.keep_direct(),
                        // A record of the log's past is for replays and history only.
                        _ if self.record.has_log_place()
                            && self.record.seq < reader.live_from() =>
                        {
                            0
                        }
                        _ if self.is_selected() => {
                            let bytes = self.spread(first, encode);
                            bytes.max(self.spread_views(encode))
                        }
                        _ => self.spread(first, encode),
                    };
                    room = room.saturating_sub(bytes);
                    if room == 0 {
                        break;
                    }
                }
                Read::Skipped => self.traffic.records_read += 1,
                Read::Empty => return false,
                Read::Lost => self.lose_everything(reader.is_log_lost()),
            }
        }
        reader.has_more()
    }

    /// Appends the current record to its channel's logs. Returns the bytes of the longest encoding.
    fn spread(&mut self, first: u32, encode: &mut dyn Encode) -> usize {
        let except = match (self.own, self.record.subscriber()) {
            (Some((worker, _)), Some(subscriber)) if subscriber.worker == worker => {
                subscriber.key as u32
            }
            _ => NONE,
        };
        let mut longest = 0;
        let mut id = first;
        while id != NONE {
            if *self.streams[id as usize].name == *self.record.channel() {
                longest = longest.max(self.append(id, encode, except));
            }
            id = self.streams[id as usize].next;
        }
        longest
    }

    /// Returns true if the current record goes to views.
    fn is_selected(&self) -> bool {
        let selected = self.selected.as_ref();
        selected.is_some_and(|(_, channel)| **channel == *self.record.channel())
    }

    /// Appends the current record to the logs of the selected views. Returns the bytes of the longest encoding.
    fn spread_views(&mut self, encode: &mut dyn Encode) -> usize {
        let mut views = std::mem::take(&mut self.views);
        views.clear();
        encode.select(&self.record, &mut views);
        let mut longest = 0;
        for &view in &views {
            let name = view_channel(view);
            let hash = self.config.hasher.hash(&name);
            let mut id = self.by_hash.get(&hash).copied().unwrap_or(NONE);
            while id != NONE {
                if *self.streams[id as usize].name == name {
                    let mut encode = OfView {
                        view,
                        inner: &mut *encode,
                    };
                    longest = longest.max(self.append(id, &mut encode, NONE));
                }
                id = self.streams[id as usize].next;
            }
        }
        self.views = views;
        longest
    }

    /// Appends the current record to one log. Returns the bytes of its encoding.
    fn append(&mut self, id: u32, encode: &mut dyn Encode, except: u32) -> usize {
        let stream = &mut self.streams[id as usize];
        let end = stream.end();
        let added = stream.append(
            &self.record,
            encode,
            &mut self.pool,
            self.config.log_bytes_max,
            except,
        );
        let bytes = (stream.end() - end) as usize;
        if added {
            let subscribers = stream.subscribers.len() as u64;
            self.traffic.deliveries += subscribers;
            if let Some(counts) = &mut self.counts {
                counts.add(id, subscribers);
            }
            if !stream.dirty {
                stream.dirty = true;
                self.dirty.push_back(id);
            }
        }
        bytes
    }

    /// Stores the current record for its only subscriber. Returns its bytes.
    fn keep_direct(&mut self) -> usize {
        let data = self.record.data();
        if let (Some((worker, _)), Some(subscriber)) = (self.own, self.record.subscriber())
            && (subscriber == Subscriber::WORKER
                || subscriber.worker == worker && subscriber.key != Subscriber::WORKER.key)
        {
            self.directs.push(Direct {
                key: subscriber.key,
                has_name: self.record.name().is_some(),
                data: data.into(),
            });
        }
        data.len()
    }

    /// Marks a gap for every subscriber: the reader lost records, and the channels of these records cannot be determined.
    /// `is_of_log` is true if the log caused the loss.
    fn lose_everything(&mut self, is_of_log: bool) {
        for (id, stream) in self.streams.iter_mut().enumerate() {
            if stream.subscribers.is_empty() {
                continue;
            }
            stream.lose(is_of_log, &mut self.pool);
            if !stream.dirty {
                stream.dirty = true;
                self.dirty.push_back(id as u32);
            }
        }
    }
}

/// Encoder of one view.
struct OfView<'a> {
    view: u64,
    inner: &'a mut dyn Encode,
}

impl Encode for OfView<'_> {
    fn encode(&mut self, _: u8, record: &Record, out: &mut Vec<u8>) -> PayloadSpan {
        self.inner.encode_view(self.view, record, out)
    }
}
