//! The companion process of `fm_server_companion` and the processes that it forks: their log and
//! metrics.

use fermata_engine::Companion;

use crate::abi::{FmStr, ask, guard, log_level};

/// A job has started in this process.
pub const FM_COMPANION_JOB_BEGINS: u32 = 0;
/// A job has finished, or its process has exited.
pub const FM_COMPANION_JOB_ENDS: u32 = 1;
/// A job process has exited and is replaced.
pub const FM_COMPANION_PROCESS_REPLACED: u32 = 2;

/// Handle of the companion, in its own process and in every process that it forks.
pub struct FmCompanion {
    pub(crate) companion: Companion,
}

/// Writes a log line under the companion's name; `level` from 0 (error) to 3 (debug).
#[unsafe(no_mangle)]
pub extern "C" fn fm_companion_log(companion: Option<&FmCompanion>, level: u32, message: FmStr) {
    guard(companion, None, |companion| {
        let level = log_level(level)?;
        companion.companion.log(level, &message.text());
        Ok(())
    });
}

/// Logs a line that a job wrote to standard error, regardless of `log_level`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_companion_log_text(companion: Option<&FmCompanion>, line: FmStr) {
    ask(companion, (), |companion| {
        companion.companion.log_text(&line.text());
    })
}

/// Counts an event of the job processes (FM_COMPANION_*).
#[unsafe(no_mangle)]
pub extern "C" fn fm_companion_count(companion: Option<&FmCompanion>, what: u32) {
    ask(companion, (), |companion| {
        let companion = &companion.companion;
        match what {
            FM_COMPANION_JOB_BEGINS => companion.job_begins(),
            FM_COMPANION_JOB_ENDS => companion.job_ends(),
            FM_COMPANION_PROCESS_REPLACED => companion.process_replaced(),
            _ => {}
        }
    })
}

/// Returns the memory limit for a process whose PHP has none; 0 = no limit.
#[unsafe(no_mangle)]
pub extern "C" fn fm_companion_memory_bytes_max(companion: Option<&FmCompanion>) -> usize {
    ask(companion, 0, |companion| {
        companion.companion.memory_bytes_max()
    })
}

/// Frees the companion before its process exits.
#[unsafe(no_mangle)]
pub extern "C" fn fm_companion_free(companion: Option<Box<FmCompanion>>) {
    ask(companion, (), |companion| {
        drop(companion);
    })
}
