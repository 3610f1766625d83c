//! What `fermata dev FOLDER` adds to an application that PHP-FPM runs: pages that reload, and a page for errors.
//!
//! PHP reads its files anew for each request, so nothing is started again: pages are told that files have changed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fermata_origin::{Address, Client, Transport};
use rustix::fd::BorrowedFd;
use serde_json::json;

use crate::dev::watch::{Changes, Watcher};
use crate::error::{Error, at};

/// What PHP and pages read.
const FILES: &[(&str, &str)] = &[
    ("prepend.php", include_str!("prepend.php")),
    ("reload.php", include_str!("reload.php")),
    ("page.php", include_str!("../dev/page.php")),
    ("reload.js", include_str!("../dev/reload.js")),
];

/// Where pages listen; reload.php says so to the edge.
const CHANNEL: &str = "fermata.development";

/// Silence after a change until pages are told, and how long it is waited for.
const QUIET: Duration = Duration::from_millis(30);
const BURST_MAX: Duration = Duration::from_millis(500);

const PUBLISH_TIMEOUT: Duration = Duration::from_secs(5);

/// What is watched, and what pages are to know.
pub struct Development {
    watcher: Watcher,
    changes: Changes,
    /// When the changes are told, and when at the latest.
    due: Option<(Instant, Instant)>,
    pages: u64,
    place: PathBuf,
}

impl Development {
    /// Writes what runs inside of PHP into the folder of the command, and begins to watch.
    ///
    /// # Errors
    /// One sentence for the user.
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

    /// Settings of PHP: changed programs count at once, and what is wrong with them is shown.
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

    /// When to look again, even if nothing is told.
    pub fn due(&self) -> Instant {
        let due = self.watcher.due();
        self.due
            .map_or(due, |(quiet, latest)| due.min(quiet).min(latest))
    }

    /// Reads what has changed, and tells pages when nothing more does.
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

    /// As a whole, and such that PHP may read it, whoever it runs as.
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
