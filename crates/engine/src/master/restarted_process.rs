//! A process that the master starts beside the workers and starts anew when it ends, such as the bridge to the log of a cluster: when it runs, and when it is
//! started.

use fermata_io::Deadline;
use fermata_io::process::Pid;

/// A process that has lived this long was not a failed start: the restart delay begins anew.
pub(super) const STABLE_MS: u64 = 1_000;

/// The first delay before a restart; it doubles up to `restart_delay_ms_max`.
pub(super) const RESTART_DELAY_MS: u64 = 100;

/// One that serves nothing.
#[derive(Clone, Copy)]
pub(super) enum Helper {
    /// It talks to the log of the cluster. The master ends it, as the exporter.
    Bridge,
    /// It takes spans to their collector.
    Exporter,
    /// It runs jobs for the embedder, who ends it.
    Companion,
}

pub(super) struct RestartedProcess {
    /// 0 = it does not run.
    pub pid: Pid,
    pub started_ms: u64,
    /// When it is started, if it does not run and is wanted.
    pub due: Deadline,
    pub delay_ms: u64,
}

impl Helper {
    pub const ALL: [Helper; 3] = [Helper::Bridge, Helper::Exporter, Helper::Companion];

    /// What it is, short and in full.
    pub fn titles(self) -> (&'static str, &'static str) {
        match self {
            Helper::Bridge => ("bridge", "the bridge to the log of the cluster"),
            Helper::Exporter => ("exporter of spans", "the exporter of spans"),
            Helper::Companion => ("companion", "the process that supervises jobs"),
        }
    }

    /// What its end means.
    pub fn loss(self) -> &'static str {
        match self {
            Helper::Bridge => "the next one goes on from its place",
            Helper::Exporter => "the spans that waited there are lost",
            Helper::Companion => "the jobs that ran have ended with it",
        }
    }
}

impl RestartedProcess {
    pub fn new(is_wanted: bool) -> RestartedProcess {
        RestartedProcess {
            pid: 0,
            started_ms: 0,
            due: match is_wanted {
                true => Deadline::NOW,
                false => Deadline::NEVER,
            },
            delay_ms: 0,
        }
    }

    /// It runs.
    pub fn begin(&mut self, pid: Pid, now_ms: u64) {
        self.pid = pid;
        self.started_ms = now_ms;
        self.due = Deadline::NEVER;
    }

    /// It has ended, and is started anew: at once, or more and more slowly where it keeps ending right after its start.
    pub fn end(&mut self, now_ms: u64, longest_ms: u64) {
        self.pid = 0;
        if now_ms.saturating_sub(self.started_ms) >= STABLE_MS {
            self.delay_ms = 0;
            self.due = Deadline::at(now_ms);
        } else {
            self.delay(now_ms, longest_ms);
        }
    }

    /// It could not be started.
    pub fn delay(&mut self, now_ms: u64, longest_ms: u64) {
        self.delay_ms = (self.delay_ms * 2).clamp(RESTART_DELAY_MS.min(longest_ms), longest_ms);
        self.due = Deadline::after(now_ms, self.delay_ms);
    }
}
