//! Startup messages: one line for a log, or a few for a person at a terminal.

use std::io::IsTerminal;

use fermata_config::{LogFormat, LogLevel};
use fermata_io::{Driver, process};

use super::state::Master;

impl Master {
    pub(super) fn announce(&self) {
        for warning in &self.warnings {
            self.log(LogLevel::Warning, warning);
        }
        let is_person = std::io::stderr().is_terminal()
            && self.settings.log_format == LogFormat::Text
            && self.logger.is_on(LogLevel::Info);
        if is_person {
            let unix_ms = self.driver.unix_ms();
            self.logger.write_plain(unix_ms, &self.banner());
            return;
        }
        let addresses: Vec<_> = self.addresses.iter().map(|bound| &*bound.name).collect();
        let message = format!(
            "listening on {} with {} (pid={}, io={})",
            addresses.join(" and "),
            self.workers_text(),
            process::pid(),
            self.backend,
        );
        self.log(LogLevel::Info, &message);
        if let Some((_, path)) = &self.control {
            let message = format!("control socket unix:{}", path.display());
            self.log(LogLevel::Info, &message);
        }
        for note in &self.program_notes {
            self.log(LogLevel::Info, note);
        }
        if let Some((_, address)) = &self.metrics {
            let message = format!("metrics and health at http://{address}");
            self.log(LogLevel::Info, &message);
        }
    }

    fn workers_text(&self) -> String {
        let workers = self.worker_slots.len();
        format!("{workers} worker{}", if workers == 1 { "" } else { "s" })
    }

    fn banner(&self) -> String {
        let mut out = format!("\n  Fermata {}", env!("CARGO_PKG_VERSION"));
        if let Some(program) = &self.program {
            out += &format!(" · {program}");
        }
        out += "\n\n";
        let mut row = |what: &str, text: &str| out += &format!("    {what:8} {text}\n");
        for bound in &self.addresses {
            row("open", &bound.name);
        }
        if let Some((_, address)) = &self.metrics {
            row("metrics", &format!("http://{address}/metrics"));
        }
        if let Some((_, path)) = &self.control {
            row("control", &format!("unix:{}", path.display()));
        }
        for note in &self.program_notes {
            row("", note);
        }
        if let Some(path) = &self.settings.access_log {
            row("log", &path.display().to_string());
        }
        let pid = process::pid();
        row("workers", &format!("{}, pid {pid}", self.workers_text()));
        match &self.backend_refusal {
            None => row("io", &self.backend.to_string()),
            Some(why) => row("io", why),
        }
        out + "\n  Ctrl-C stops it.\n\n"
    }
}
