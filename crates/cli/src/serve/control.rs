//! Default control socket of a server without one, so that `fermata top` finds the server.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use fermata_engine::check_option;
use fermata_io::process;

use crate::php::Php;

/// Prefix and suffix of a socket's name around the process id; `fermata top` searches for such names.
const PREFIX: &str = "fermata-";
const SUFFIX: &str = ".control";

/// Maximum number of folder entries checked for sockets of killed servers.
const LOOKS_MAX: usize = 1_000;

/// Mode of the folder: accessible only by its owner.
const MODE: u32 = 0o700;

/// Returns true if the environment or an ini file sets `control`, even to an empty value.
pub fn is_chosen(php: &Php) -> bool {
    std::env::var_os("FERMATA_CONTROL").is_some() || php.facts.control.is_some()
}

/// Returns the setting `control` for this process, which will execute the server. Returns `None` if no safe folder exists or the
/// path is too long for a socket; the server then starts without a control socket.
pub fn own() -> Option<String> {
    let folder = folder()?;
    remove_stale(&folder);
    let path = folder.join(format!("{PREFIX}{}{SUFFIX}", process::pid()));
    let control = format!("unix:{}", path.display());
    check_option("--control", "control", &control).ok()?;
    Some(control)
}

/// Returns a folder that no other user can write to or replace.
fn folder() -> Option<PathBuf> {
    let user = process::user();
    let path = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(place) if Path::new(&place).is_absolute() => PathBuf::from(place),
        _ if user == process::ROOT => PathBuf::from("/run"),
        _ => {
            let own = std::env::temp_dir().join(format!("{PREFIX}{user}"));
            // An existing folder in /tmp may belong to an attacker; checked below.
            let _ = DirBuilder::new().mode(MODE).create(&own);
            own
        }
    };
    // symlink_metadata() does not follow a symbolic link.
    let found = fs::symlink_metadata(&path).ok()?;
    let is_own = found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0;
    is_own.then_some(path)
}

/// Removes the sockets of servers that were killed.
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
        // A successor of that server may still listen at the socket.
        if has_ended && UnixStream::connect(entry.path()).is_err() {
            let _ = fs::remove_file(entry.path());
        }
    }
}
