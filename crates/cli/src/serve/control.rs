//! The control socket of a server that names none, so that `fermata top` finds it.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use fermata_engine::check_option;
use fermata_io::process;

use crate::php::Php;

/// Around the process id in a socket's name; `fermata top` looks for such.
const PREFIX: &str = "fermata-";
const SUFFIX: &str = ".control";

/// Sockets of servers that were killed are looked for among so many.
const LOOKS_MAX: usize = 1_000;

/// The mode of a folder of ours: its owner's alone.
const MODE: u32 = 0o700;

/// Whether the environment or an ini file says where the socket is, or that there is none.
pub fn is_chosen(php: &Php) -> bool {
    std::env::var_os("FERMATA_CONTROL").is_some() || php.facts.control.is_some()
}

/// The setting `control` of this process, which becomes the server. `None`: there is no folder for a socket, or its path is too
/// long for one, and the server does without.
pub fn own() -> Option<String> {
    let folder = folder()?;
    remove_stale(&folder);
    let path = folder.join(format!("{PREFIX}{}{SUFFIX}", process::pid()));
    let control = format!("unix:{}", path.display());
    check_option("--control", "control", &control).ok()?;
    Some(control)
}

/// A folder that nobody else can write to or put in its place.
fn folder() -> Option<PathBuf> {
    let user = process::user();
    let path = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(place) if Path::new(&place).is_absolute() => PathBuf::from(place),
        _ if user == process::ROOT => PathBuf::from("/run"),
        _ => {
            let own = std::env::temp_dir().join(format!("{PREFIX}{user}"));
            // One that is there may be somebody else's, who waits for this in /tmp.
            let _ = DirBuilder::new().mode(MODE).create(&own);
            own
        }
    };
    // A link is not followed.
    let found = fs::symlink_metadata(&path).ok()?;
    let is_own = found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0;
    is_own.then_some(path)
}

/// Removes the sockets of servers that could not do so themselves.
fn remove_stale(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten().take(LOOKS_MAX) {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
        let has_ended = pid
            .and_then(|pid| pid.parse().ok())
            .filter(|pid| *pid > 0)
            .is_some_and(|pid| !process::is_alive(pid));
        // A server that has replaced the one of that name may listen there.
        if has_ended && UnixStream::connect(entry.path()).is_err() {
            let _ = fs::remove_file(entry.path());
        }
    }
}
