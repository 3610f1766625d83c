//! Sends published records to the cluster log, and returns the results to the workers.

use fermata_cluster::{Content, Outgoing};
use fermata_config::LogLevel;
use fermata_hub::Read;
use fermata_io::{Driver, clock};

use super::Process;
use crate::channels::cluster::facts::Note;
use crate::channels::cluster::memory::{MARK_BYTES, MARK_DIRECT, MARK_NOTE, MARK_WORKERS, NOBODY};
use crate::channels::cluster::state::Answer;

impl Process {
    /// Sends the records of the outbox to the log.
    pub(super) fn send_outbox(&mut self) {
        let (now_ms, unix_ms) = (self.driver.refresh_now(), clock::unix_ms());
        let mut old = 0;
        while self.bridge.can_send() {
            match self.consumer.read_next(&mut self.record) {
                Read::Record => {}
                Read::Skipped => continue,
                Read::Empty => break,
                Read::Lost => {
                    self.log(LogLevel::Error, "events were lost in the outbox");
                    continue;
                }
            }
            let record = &self.record;
            let outbox = record.seq;
            let Some((mark, name)) = record
                .name()
                .and_then(|name| name.split_at_checked(MARK_BYTES))
            else {
                self.bridge.discard(outbox, now_ms);
                continue;
            };
            if mark[2] == MARK_NOTE {
                let (channel, data) = (record.channel(), record.data());
                match self.members.fact_of(&Note { channel, data }) {
                    Some(data) => {
                        let outgoing = Outgoing {
                            outbox,
                            content: Content::Presence,
                            channel,
                            name: None,
                            data,
                            except: record.subscriber().map(|it| (it.worker, it.key)),
                        };
                        self.bridge.send(&outgoing, now_ms);
                    }
                    None => self.bridge.discard(outbox, now_ms),
                }
                continue;
            }
            let slot = u16::from_le_bytes([mark[0], mark[1]]);
            // The record's publisher has stopped waiting and may have published the event again.
            // The result is unknown: the record may have been sent on an earlier connection.
            if unix_ms.saturating_sub(record.unix_ms) > self.event_ms_max {
                old += 1;
                self.publishers.insert(outbox, slot);
                self.bridge.discard(outbox, now_ms);
                self.answer(outbox, Answer::Unknown);
                continue;
            }
            if slot != NOBODY {
                self.publishers.insert(outbox, slot);
            }
            let (content, name) = match mark[2] {
                MARK_DIRECT => (Content::Direct, None),
                MARK_WORKERS => (Content::Workers, None),
                has_name => (Content::Event, (has_name != 0).then_some(name)),
            };
            let outgoing = Outgoing {
                outbox,
                content,
                channel: record.channel(),
                name,
                data: record.data(),
                except: record.subscriber().map(|it| (it.worker, it.key)),
            };
            self.bridge.send(&outgoing, now_ms);
        }
        if old > 0 {
            let message = format!(
                "dropped {old} events that were too old for the log of the cluster; earlier attempts may have stored them"
            );
            self.log(LogLevel::Warning, &message);
        }
    }

    pub(super) fn answer(&mut self, outbox: u64, answer: Answer) {
        // The publisher has exited or needs no reply.
        let Some(slot) = self.publishers.remove(&outbox).filter(|it| *it != NOBODY) else {
            return;
        };
        if self.state.answer(slot, outbox, answer) {
            self.answered.insert(slot.into())
        } else {
            // The publisher times out, and reports that the event may have been published.
            self.unheard += 1
        }
    }
}
