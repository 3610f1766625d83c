//! A small disk in the mount namespace of one server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fermata_testkit::{Builder, Server};

use crate::fixture;

/// Size of the disk.
pub const DISK_BYTES: usize = 256 * 1024;

/// Script that mounts a disk, with its size and path as arguments, and executes the remaining arguments.
const MOUNT: &str =
    "size=$0 path=$1; shift; mount -t tmpfs -o size=$size none \"$path\" && exec \"$@\"";

/// Returns a server with a disk of [`DISK_BYTES`], and the path of the disk. Returns `None` if the user cannot mount a disk.
///
/// # Panics
/// Panics if the directory of the test cannot be written.
pub fn with_disk(name: &str) -> Option<(Builder, PathBuf)> {
    with_disk_of(name, DISK_BYTES)
}

/// Like [`with_disk`], with a disk of this size.
///
/// # Panics
/// Panics if the directory of the test cannot be written.
pub fn with_disk_of(name: &str, bytes: usize) -> Option<(Builder, PathBuf)> {
    let mut probe = Command::new("unshare");
    probe
        .args(["--mount", "mount", "-t", "tmpfs", "none", "/tmp"])
        .stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        println!("skipped: mounting a small disk needs root");
        return None;
    }
    let builder = fixture(name).workers(1);
    let disk = builder.directory().join("disk");
    fs::create_dir(&disk).expect("the test's directory is new");
    let path = disk.to_str().expect("a temporary path is UTF-8").to_owned();
    let size = bytes.to_string();
    let builder = builder.behind(&["unshare", "--mount", "sh", "-c", MOUNT, &size, &path]);
    Some((builder, disk))
}

/// Returns the path by which a test accesses the disk of a server.
pub fn seen(server: &Server, disk: &Path) -> PathBuf {
    PathBuf::from(format!("/proc/{}/root{}", server.pid(), disk.display()))
}
