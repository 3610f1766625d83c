//! Where the command and the server meet: a folder with the parts that run inside of the server.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, at};
use fermata_io::process;

/// The parts that run inside of the server.
const FILES: &[(&str, &str)] = &[
    ("attach.php", include_str!("attach.php")),
    ("dump.php", include_str!("dump.php")),
    ("page.php", include_str!("page.php")),
    ("reload.js", include_str!("reload.js")),
];

/// The folder with what this and the server tell each other, removed in the end.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> Result<Self, Error> {
        // Hidden, as folders are that nobody watches: it may lie in the project.
        let name = format!(
            ".fermata-{}-{:x}",
            process::pid(),
            fermata_io::random::u64()
        );
        let path = std::env::temp_dir().join(name);
        let failed = |error| at(path.display())(error);
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(failed)?;
        let place = Self(path.clone());
        for (name, text) in FILES {
            fs::write(path.join(name), text).map_err(failed)?;
        }
        Ok(place)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
