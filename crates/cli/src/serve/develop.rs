//! Development mode of `fermata dev FOLDER` for applications under PHP-FPM: pages that reload, and an error page.
//!
//! PHP-FPM reads changed files on each request, so no restart is needed; open pages are only notified of changes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fermata_origin::{Address, Client, Transport};
use rustix::fd::BorrowedFd;
use serde_json::json;

use crate::dev::watch::{Changes, Watcher};
use crate::error::{Error, at};

/// Files that PHP loads, and files that pages request.
const FILES: &[(&str, &str)] = &[
    ("prepend.php", include_str!("prepend.php")),
    ("reload.php", include_str!("reload.php")),
    ("page.php", include_str!("../dev/page.php")),
    ("reload.js", include_str!("../dev/reload.js")),
];

/// Channel to which reload.php subscribes pages.
const CHANNEL: &str = "fermata.development";

/// Debounce: quiet time after a change before pages reload, and its upper bound.
const QUIET: Duration = Duration::from_millis(30);
const BURST_MAX: Duration = Duration::from_millis(500);

const PUBLISH_TIMEOUT: Duration = Duration::from_secs(5);

/// File watcher and state of pages.
pub struct Development {
    watcher: Watcher,
    changes: Changes,
    /// Time at which pages are notified if no further change arrives, and the latest time of the notification.
    due: Option<(Instant, Instant)>,
    pages: u64,
    place: PathBuf,
}

impl Development {
    /// Writes the PHP files into `place` and starts watching `roots`.
    ///
    /// # Errors
    /// Fails with a message for the user if a folder cannot be watched or a file cannot be written.
    pub fn new(roots: &[PathBuf], polls: bool, place: &Path) -> Result<Self, Error> {
        let development = Self {
            watcher: Watcher::new(roots, polls)?,
            changes: Changes::default(),
            due: None,
            pages: 0,
            place: place.to_owned(),
        };
        for (name, text) in FILES {
            development.write(name, text)?;
        }
        development.write("state.json", &development.state())?;
        Ok(development)
    }

    /// Returns PHP settings that apply changed files immediately and show errors.
    pub fn settings(place: &Path) -> Vec<(&'static str, String)> {
        let prepend = place.join("prepend.php").display().to_string();
        vec![
            ("opcache.revalidate_freq", "0".to_owned()),
            ("opcache.validate_timestamps", "1".to_owned()),
            ("display_errors", "1".to_owned()),
            ("auto_prepend_file", prepend),
        ]
    }

    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watcher.fd()
    }

    /// Returns the time of the next [`Self::look`] if the descriptor stays silent.
    pub fn due(&self) -> Instant {
        let due = self.watcher.due();
        self.due
            .map_or(due, |(quiet, latest)| due.min(quiet).min(latest))
    }

    /// Reads changes, and notifies pages after the quiet time.
    pub fn look(&mut self, grip_url: &str) {
        let now = Instant::now();
        if self.watcher.read(&mut self.changes) {
            let latest = self.due.map_or(now + BURST_MAX, |(_, latest)| latest);
            self.due = Some((now + QUIET, latest));
        }
        if self
            .due
            .is_none_or(|(quiet, latest)| now < quiet.min(latest))
        {
            return;
        }
        self.due = None;
        self.pages += 1;
        let changes = std::mem::take(&mut self.changes);
        let state = self.state();
        let told = self
            .write("state.json", &state)
            .and_then(|()| publish(grip_url, &state));
        match told {
            Ok(()) => eprintln!("pages reload, after {changes}"),
            Err(error) => eprintln!("fermata dev: pages do not reload: {error}"),
        }
    }

    fn state(&self) -> String {
        json!({ "generation": "folder", "pages": self.pages, "failure": null }).to_string()
    }

    /// Writes a file atomically and readable by PHP under any user.
    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let (new, path) = (self.place.join("new"), self.place.join(name));
        fs::write(&new, text)
            .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(0o644)))
            .and_then(|()| fs::rename(&new, &path))
            .map_err(at(path.display()))
    }
}

fn publish(grip_url: &str, state: &str) -> Result<(), Error> {
    let address = Address::parse(grip_url).map_err(|error| error.to_string())?;
    let Transport::Http(url) = address.transport else {
        return Ok(());
    };
    let content = format!("event: state\ndata: {state}\n\n");
    let item = json!({ "channel": CHANNEL, "formats": { "http-stream": { "content": content } } });
    Client::new(url, PUBLISH_TIMEOUT)
        .publish(None, &[item])
        .map_err(|error| Error::Misuse(error.to_string()))
}
