//! Temporary folder through which the command and the server communicate; also holds the PHP files that the server loads.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::error::{Error, at};
use fermata_io::process;
use fermata_io::users::{self, GROUPS, USERS};

/// Files that the server loads or serves.
const FILES: &[(&str, &str)] = &[
    ("attach.php", include_str!("attach.php")),
    ("dump.php", include_str!("dump.php")),
    ("page.php", include_str!("page.php")),
    ("reload.js", include_str!("reload.js")),
    ("value.php", include_str!("value.php")),
];

/// Temporary folder, removed on drop.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> Result<Self, Error> {
        // A hidden folder is not watched, even if the temporary directory is inside the project.
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

/// Grants the workers' group access to the folder if they run as another user.
///
/// Workers own nothing in the folder, because root executes the PHP files in it.
///
/// # Errors
/// Fails with a message for the user if owner or permissions cannot be changed.
pub fn share(folder: &Path, user: &str, group: &str) -> Result<(), Error> {
    if user.is_empty() || process::user() != process::ROOT {
        return Ok(());
    }
    let group = match group {
        "" => users::account(user, Path::new(USERS), Path::new(GROUPS)).map(|it| it.group),
        name => users::number(name, Path::new(GROUPS)).map(Some),
    };
    // The server itself reports an unknown user or group.
    let Ok(Some(group)) = group else {
        return Ok(());
    };
    chown(folder, None, Some(group))
        .and_then(|()| fs::set_permissions(folder, fs::Permissions::from_mode(0o710)))
        .map_err(at(folder.display()))
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
