//! What workers have published goes to the log, and its outcome comes back to them.

use fermata_cluster::{Content, Outgoing};
use fermata_config::LogLevel;
use fermata_hub::Read;
use fermata_io::{Driver, clock};

use super::Process;
use crate::channels::cluster::memory::{
    Answer, MARK_BYTES, MARK_DIRECT, MARK_NOTE, MARK_WORKERS, NOBODY,
};
use crate::channels::cluster::presence::Note;

impl Process {
    /// Hands the log what workers have published.
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
            // Its publisher has given up, and has perhaps tried again. The log may have it from a connection before.
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
                "{old} events were too old to be sent to the log of the cluster; those that were sent before may be in it"
            );
            self.log(LogLevel::Warning, &message);
        }
    }

    pub(super) fn answer(&mut self, outbox: u64, answer: Answer) {
        // It has ended meanwhile, or wants no answer.
        let Some(slot) = self.publishers.remove(&outbox).filter(|it| *it != NOBODY) else {
            return;
        };
        match self.state.answer(slot, outbox, answer) {
            true => self.answered.insert(slot.into()),
            // The publisher gives up in its time, and says that the event may have been published.
            false => self.unheard += 1,
        }
    }
}
