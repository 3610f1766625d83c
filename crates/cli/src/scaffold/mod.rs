//! `fermata new`: creates a small project that runs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::format;

/// File of a project: relative path and content.
type File = (&'static str, &'static str);

/// Files of every project.
const COMMON: &[File] = &[
    ("composer.json", include_str!("common/composer.json")),
    (".gitignore", include_str!("common/gitignore")),
];

/// Create a small project that runs: `fermata new chat DIR`, then `fermata serve DIR/server.php`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Kind of project
    kind: Kind,
    /// New or empty folder
    folder: PathBuf,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// A page whose tabs exchange messages: Server-Sent Events, history, presence
    Chat,
    /// JSON over HTTP with routes, errors and a test
    Api,
    /// A dashboard: a task publishes, and pages show the values live
    Live,
}

impl Kind {
    fn files(self) -> &'static [File] {
        match self {
            Kind::Chat => &[
                ("server.php", include_str!("chat/server.php")),
                ("public/index.html", include_str!("chat/index.html")),
            ],
            Kind::Api => &[
                ("server.php", include_str!("api/server.php")),
                ("test.sh", include_str!("api/test.sh")),
            ],
            Kind::Live => &[
                ("server.php", include_str!("live/server.php")),
                ("public/index.html", include_str!("live/index.html")),
            ],
        }
    }
}

/// Writes the project.
///
/// # Errors
/// Fails with a message for the user if the folder is not empty or not writable.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let folder = &arguments.folder;
    let failed = |path: &Path, error: std::io::Error| {
        Err(Error::Misuse(format!("{}: {error}", path.display())))
    };
    let is_empty = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return failed(folder, error),
    };
    if !is_empty {
        let name = folder.display();
        return Err(Error::Misuse(format!(
            "{name} is not empty; name a new folder"
        )));
    }
    for (name, content) in arguments.kind.files().iter().chain(COMMON) {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        if let Err(error) = fs::create_dir_all(parent) {
            return failed(parent, error);
        }
        if let Err(error) = fs::write(&path, content) {
            return failed(&path, error);
        }
    }
    let server = folder.join("server.php");
    format::print(&format!(
        "made {}\n\n    fermata serve {}\n",
        folder.display(),
        server.display()
    ))
}
