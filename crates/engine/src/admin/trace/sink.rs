//! Buffer and file of the access log: bounded, and never blocking.

use std::io;
use std::path::{Path, PathBuf};

use fermata_config::Settings;
use fermata_io::log_file::LogFile;
use fermata_io::process::{self, ROOT};

/// Size in bytes from which lines are written early.
const WORTH_WRITING_BYTES: usize = 32 * 1024;

/// The access log cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("access_log: cannot open {} for appending: {source}; use a path in a folder that this user may write to, or stderr", path.display())]
pub struct SinkError {
    path: PathBuf,
    source: io::Error,
}

/// An open log and its unwritten lines.
pub(crate) struct Sink {
    path: PathBuf,
    file: LogFile,
    /// True if the workers run as another user (setting `user`), who owns the file. This user could
    /// replace the path by a link to another file, so root opens it by `open_as_root`.
    is_given: bool,
    waiting: Vec<u8>,
    bytes_max: usize,
    dropped: u64,
    failure: Option<String>,
}

impl Sink {
    /// Opens the file named by `access_log`; `None` if it is unset.
    pub fn open(settings: &Settings) -> Result<Option<Sink>, SinkError> {
        let Some(path) = &settings.access_log else {
            return Ok(None);
        };
        // Make it absolute: an application may change its working directory.
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

    /// Returns true if the sink is a file, which logrotate may move.
    pub fn is_file(&self) -> bool {
        !is_standard(&self.path)
    }

    /// Changes the owner of the file to the workers' user and group.
    pub fn give(&self, user: u32, group: u32) -> io::Result<()> {
        self.file.give(user, group)
    }

    /// Reopens the path. On an error the old file stays in use.
    pub fn reopen(&mut self) -> Result<(), SinkError> {
        self.file = open(&self.path, self.is_given)?;
        Ok(())
    }

    /// Adds a line written by `write`; drops and counts it if the buffer is full.
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

    /// Returns true if enough is collected to write it.
    pub fn is_worth_writing(&self) -> bool {
        self.waiting.len() >= WORTH_WRITING_BYTES
    }

    /// Writes as much as possible without blocking; the rest stays.
    pub fn write(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        match self.file.write(&self.waiting) {
            Ok(0) => self.failure = Some("its reader is too slow".to_owned()),
            Ok(written) if written == self.waiting.len() => self.waiting.clear(),
            Ok(written) => drop(self.waiting.drain(..written)),
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    /// Returns the number of lines dropped since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Returns why lines were dropped.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// `stderr` and `stdout` are not paths.
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
    fn drops_lines_on_a_full_disk_within_the_buffer() {
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
    fn names_the_setting_of_a_log_that_cannot_be_opened() {
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
                .starts_with("access_log: cannot open /nowhere/access.log")
        );
    }
}
