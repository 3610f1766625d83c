//! Temporary directories of tests. They are removed when the value is dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary directory for one test, removed recursively when dropped.
///
/// It is directly below the system's temporary directory, because the path of a Unix socket has at most 107 bytes.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Creates an empty directory. Process id and counter make the name unique among running tests. A directory with the same name,
    /// left by a killed run, is replaced.
    pub fn new() -> Directory {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fermata-test-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        Directory { path }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of `name` in the directory, whether it exists or not.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Copies the current content, including files that a process is writing, as after a power failure.
    pub fn copy(&self) -> Directory {
        let copy = Directory::new();
        copy_into(&self.path, &copy.path);
        copy
    }

    /// Writes a file in the directory, creates its parent directories, and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("the temporary directory is writable");
        }
        fs::write(&path, content).expect("the temporary directory is writable");
        path
    }
}

/// Copies a directory. Skips files that are removed during the copy.
fn copy_into(from: &Path, to: &Path) {
    let _ = fs::create_dir_all(to);
    let Ok(entries) = fs::read_dir(from) else {
        return;
    };
    for entry in entries.flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => copy_into(&path, &target),
            _ => {
                let _ = fs::copy(&path, &target);
            }
        }
    }
}

impl Default for Directory {
    fn default() -> Directory {
        Directory::new()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_its_own_and_goes_away() {
        let (one, other) = (Directory::new(), Directory::new());
        assert_ne!(one.path(), other.path());
        let file = one.write("deep/er/file.txt", "x");
        assert_eq!(fs::read(&file).expect("it was written"), b"x");
        drop(one);
        assert!(!file.exists());
    }
}
