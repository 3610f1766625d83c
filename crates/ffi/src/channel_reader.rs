//! Handlers that read a channel and wait for its next event.

use std::mem::MaybeUninit;

use fermata_engine::{ReadNext, Since};

use crate::abi::{FM_MISUSE, FmError, FmReader, FmStr, ask, guard, misuse, put};
use crate::worker::{FmPast, FmWorker};

/// The reader has the next event.
pub const FM_READ_EVENT: u32 = 0;
/// Events before the next one are missing. `data` is the reason: "expired", "too slow", "log lost" or "unknown id".
pub const FM_READ_GAP: u32 = 1;
/// All events were read. FM_EVENT_CHANNEL follows when there may be more.
pub const FM_READ_WAIT: u32 = 2;

/// Opens a reader of a channel, to be closed with `fm_reader_close`. It starts after the event `since`; with `since.ptr` NULL at
/// the oldest stored event if `from_start` is true, otherwise after the newest. FM_MISUSE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_reader_open(
    worker: Option<&mut FmWorker>,
    channel: FmStr,
    since: FmStr,
    from_start: bool,
    reader: Option<&mut MaybeUninit<FmReader>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let since = Since::of(since.option(), from_start);
        let opened = worker.worker.open_reader(channel.bytes(), since);
        put(reader, opened.map_err(misuse)?.into());
        Ok(())
    })
}

/// Reads the next event. `what` receives FM_READ_*, `past` the event or the reason of a gap. Its strings stay valid until the next
/// call of this function, `fm_history` or `fm_history_next`. FM_MISUSE: the reader is closed.
#[unsafe(no_mangle)]
pub extern "C" fn fm_reader_next(
    worker: Option<&mut FmWorker>,
    reader: FmReader,
    what: Option<&mut MaybeUninit<u32>>,
    past: Option<&mut MaybeUninit<FmPast>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker.zip(past), error, |(worker, past)| {
        let next = reader.id().and_then(|id| worker.worker.read_next(id));
        let Some(next) = next else {
            return Err((FM_MISUSE, "the reader is closed".to_owned()));
        };
        let (code, read) = match next {
            ReadNext::Event(event) => (FM_READ_EVENT, worker.lend_event(event)),
            ReadNext::Gap(reason) => (FM_READ_GAP, FmPast::of_text(reason)),
            ReadNext::Wait => (FM_READ_WAIT, FmPast::of_text("")),
        };
        put(what, code);
        past.write(read);
        Ok(())
    })
}

/// Returns the reader of the last FM_EVENT_CHANNEL. It may have been closed since.
#[unsafe(no_mangle)]
pub extern "C" fn fm_reader_woken(worker: Option<&FmWorker>) -> FmReader {
    ask(worker, FmReader::NONE, |worker| worker.woken_reader)
}

/// Closes a reader. FM_EVENT_CHANNEL may still follow for it.
#[unsafe(no_mangle)]
pub extern "C" fn fm_reader_close(worker: Option<&mut FmWorker>, reader: FmReader) {
    ask(worker, (), |worker| {
        if let Some(id) = reader.id() {
            worker.worker.close_reader(id);
        }
    });
}
