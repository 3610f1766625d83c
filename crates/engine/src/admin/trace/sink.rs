//! Where lines of the access log wait to be written: bounded, and never waited for.

use std::io;
use std::path::{Path, PathBuf};

use fermata_config::Settings;
use fermata_io::log_file::LogFile;
use fermata_io::process::{self, ROOT};

/// Bytes that are written before their time is up.
const WORTH_WRITING_BYTES: usize = 32 * 1024;

/// The access log cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("access_log: {} cannot be opened for appending: {source}; give a path in a folder that this user may write to, or stderr", path.display())]
pub struct SinkError {
    path: PathBuf,
    source: io::Error,
}

/// An open log and what has not been written to it.
pub(crate) struct Sink {
    path: PathBuf,
    file: LogFile,
    /// It belongs to the user of workers, who may have a say in what its path leads to.
    is_given: bool,
    waiting: Vec<u8>,
    bytes_max: usize,
    dropped: u64,
    failure: Option<String>,
}

impl Sink {
    /// Opens what `access_log` names; `None` when it names nothing.
    pub fn open(settings: &Settings) -> Result<Option<Sink>, SinkError> {
        let Some(path) = &settings.access_log else {
            return Ok(None);
        };
        // A program may change its folder; the log stays where it was.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let path = named(settings).unwrap_or(path);
        let is_given = settings.user.is_some();
        let file = open(&path, is_given)?;
        Ok(Some(Sink {
            path,
            file,
            is_given,
            waiting: Vec::new(),
            bytes_max: settings.access_log_buffer_bytes_max,
            dropped: 0,
            failure: None,
        }))
    }

    /// Whether it is a file, which may be moved away.
    pub fn is_file(&self) -> bool {
        !is_standard(&self.path)
    }

    /// Gives the file to the user and group of workers.
    pub fn give(&self, user: u32, group: u32) -> io::Result<()> {
        self.file.give(user, group)
    }

    /// Opens the path again. The old file stays on an error.
    pub fn reopen(&mut self) -> Result<(), SinkError> {
        self.file = open(&self.path, self.is_given)?;
        Ok(())
    }

    /// Adds what `write` appends, unless that is too much: then it is left out and counted.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.waiting.len();
        write(&mut self.waiting);
        if self.waiting.len() <= self.bytes_max {
            return;
        }
        let line = self.waiting.split_off(before);
        self.write();
        if self.waiting.len() + line.len() <= self.bytes_max {
            self.waiting.extend_from_slice(&line);
        } else {
            self.dropped += 1;
        }
    }

    /// Whether it should be written without waiting for more.
    pub fn is_worth_writing(&self) -> bool {
        self.waiting.len() >= WORTH_WRITING_BYTES
    }

    /// Writes what is taken without waiting; the rest stays.
    pub fn write(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        match self.file.write(&self.waiting) {
            Ok(0) => self.failure = Some("whoever reads it is too slow".to_owned()),
            Ok(written) if written == self.waiting.len() => self.waiting.clear(),
            Ok(written) => drop(self.waiting.drain(..written)),
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    /// Lines left out since this was last asked.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Why lines were left out.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// `stderr` and `stdout` are no paths.
fn named(settings: &Settings) -> Option<PathBuf> {
    settings.access_log.clone().filter(|path| is_standard(path))
}

fn is_standard(path: &Path) -> bool {
    path == Path::new("stderr") || path == Path::new("stdout")
}

fn open(path: &Path, is_given: bool) -> Result<LogFile, SinkError> {
    let opened = match path.to_str() {
        Some("stderr") => LogFile::stderr(),
        Some("stdout") => LogFile::stdout(),
        _ if is_given && process::user() == ROOT => LogFile::open_as_root(path),
        _ => LogFile::open(path),
    };
    opened.map_err(|source| SinkError {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(path: &str) -> Sink {
        let settings = Settings {
            access_log: Some(PathBuf::from(path)),
            access_log_buffer_bytes_max: 64,
            ..Settings::default()
        };
        let opened = Sink::open(&settings).expect("it can be opened");
        opened.expect("it is named")
    }

    #[test]
    fn a_full_disk_costs_lines_and_not_memory() {
        let mut sink = sink("/dev/full");
        for _ in 0..100 {
            sink.append(|out| out.extend_from_slice(b"sixteen bytes...\n"));
        }
        assert!(sink.waiting.len() <= 64);
        assert_eq!(sink.take_dropped(), 97);
        assert_eq!(sink.take_dropped(), 0);
        assert!(sink.failure().is_some());
    }

    #[test]
    fn a_log_that_cannot_be_opened_is_named_with_its_setting() {
        let settings = Settings {
            access_log: Some(PathBuf::from("/nowhere/access.log")),
            ..Settings::default()
        };
        let error = Sink::open(&settings)
            .err()
            .expect("there is no such folder");
        assert!(
            error
                .to_string()
                .starts_with("access_log: /nowhere/access.log")
        );
    }
}
