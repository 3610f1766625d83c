//! The process between this machine and the log of its cluster, as the master sees it.

use fermata_io::process::Pid;

/// When it runs, and when it is started.
pub(super) struct Bridge {
    /// 0 = it does not run.
    pub pid: Pid,
    pub started_ms: u64,
    /// When it is started; `u64::MAX` = not by itself.
    pub due_ms: u64,
    pub delay_ms: u64,
}

impl Bridge {
    pub fn new(is_wanted: bool) -> Bridge {
        Bridge {
            pid: 0,
            started_ms: 0,
            due_ms: if is_wanted { 0 } else { u64::MAX },
            delay_ms: 0,
        }
    }
}
