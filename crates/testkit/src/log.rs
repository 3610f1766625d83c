//! The server's log. Tests read it while it is written, and wait for lines.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::wait::deadline;

/// A line, and the time when the test read it.
#[derive(Debug, Clone)]
pub struct Line {
    /// Text without the line end.
    pub text: String,
    /// Time of reading, shortly after the line was written.
    pub seen: Instant,
}

/// All lines that a child has written. Clones share the lines.
#[derive(Debug, Clone, Default)]
pub struct Log {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Vec<Line>>,
    changed: Condvar,
    is_paused: Mutex<bool>,
    resumed: Condvar,
}

impl Log {
    /// Reads `source` to its end on a separate thread; adds `prefix` to each line.
    pub(crate) fn follow(&self, source: impl Read + Send + 'static, prefix: &'static str) {
        let log = self.clone();
        thread::spawn(move || {
            let mut reader = BufReader::new(source);
            let mut bytes = Vec::new();
            while reader
                .read_until(b'\n', &mut bytes)
                .is_ok_and(|len| len > 0)
            {
                log.wait_resumed();
                let text = String::from_utf8_lossy(&bytes);
                log.push(format!("{prefix}{}", text.trim_end_matches(['\r', '\n'])));
                bytes.clear();
            }
        });
    }

    /// Stops reading the log, except for at most one read.
    pub fn pause(&self) {
        *lock(&self.shared.is_paused) = true;
    }

    /// Continues reading.
    pub fn resume(&self) {
        *lock(&self.shared.is_paused) = false;
        self.shared.resumed.notify_all();
    }

    fn wait_resumed(&self) {
        let guard = lock(&self.shared.is_paused);
        let waited = self
            .shared
            .resumed
            .wait_while(guard, |is_paused| *is_paused);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the number of lines, as a position to wait from.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns true if no line was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a copy of the lines from number `from` on.
    pub fn lines_from(&self, from: usize) -> Vec<Line> {
        self.lock().iter().skip(from).cloned().collect()
    }

    /// Returns all lines as one text.
    pub fn text(&self) -> String {
        self.lock()
            .iter()
            .fold(String::new(), |text, line| text + &line.text + "\n")
    }

    /// Returns true if a line contains `part`.
    pub fn contains(&self, part: &str) -> bool {
        self.lock().iter().any(|line| line.text.contains(part))
    }

    /// Waits for a line at or after number `from` that contains `part`.
    ///
    /// # Panics
    /// Panics with the whole log at the deadline.
    #[track_caller]
    pub fn wait_for(&self, from: usize, part: &str) -> Line {
        self.wait_map(from, part, |line| {
            line.text.contains(part).then(|| line.clone())
        })
    }

    /// Waits for a line at or after number `from` for which `map` returns a value.
    ///
    /// # Panics
    /// Panics with `what` and the whole log at the deadline.
    #[track_caller]
    pub fn wait_map<T>(
        &self,
        from: usize,
        what: &str,
        mut map: impl FnMut(&Line) -> Option<T>,
    ) -> T {
        let end = Instant::now() + deadline();
        let mut lines = self.lock();
        let mut next = from;
        loop {
            while next < lines.len() {
                if let Some(value) = map(&lines[next]) {
                    return value;
                }
                next += 1;
            }
            let Some(left) = end.checked_duration_since(Instant::now()) else {
                drop(lines);
                panic!("no log line for: {what}\n--- log ---\n{}", self.text());
            };
            let waited = self.shared.changed.wait_timeout(lines, left);
            lines = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(crate) fn push(&self, text: String) {
        self.lock().push(Line {
            text,
            seen: Instant::now(),
        });
        self.shared.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Line>> {
        lock(&self.shared.lines)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_followed_and_found_from_a_mark() {
        let log = Log::default();
        log.follow(&b"one\ntwo\r\none more"[..], "");
        assert_eq!(log.wait_for(1, "one").text, "one more");
        assert_eq!(log.len(), 3);
        assert!(log.contains("two") && !log.contains("\r"));
    }
}
