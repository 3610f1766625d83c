//! The process beside the workers that `fm_server_companion` asks for, and those it forks: a log and figures.

use fermata_engine::Companion;

use crate::abi::{FmStr, ask, guard, log_level};

/// A job begins in this process.
pub const FM_COMPANION_JOB_BEGINS: u32 = 0;
/// A job has ended, or the process that was at it.
pub const FM_COMPANION_JOB_ENDS: u32 = 1;
/// A process for jobs has ended and is replaced.
pub const FM_COMPANION_PROCESS_REPLACED: u32 = 2;

/// The companion, in it and in every process it forks.
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

/// Counts what happens in the processes for jobs (FM_COMPANION_*).
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

/// The memory limit of a process in which PHP has none; 0 = it stays without one.
#[unsafe(no_mangle)]
pub extern "C" fn fm_companion_memory_bytes_max(companion: Option<&FmCompanion>) -> usize {
    ask(companion, 0, |companion| {
        companion.companion.memory_bytes_max()
    })
}

/// Frees it, before the process ends.
#[unsafe(no_mangle)]
pub extern "C" fn fm_companion_free(companion: Option<Box<FmCompanion>>) {
    ask(companion, (), |companion| {
        drop(companion);
    })
}
