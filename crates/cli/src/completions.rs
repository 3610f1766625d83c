//! Generates shell completions and manual pages from the command's declaration.

use std::path::PathBuf;

use clap_complete::Shell;

use crate::error::{Error, at};
use crate::format;

/// Print the completion script of a shell.
///
/// bash: fermata completions bash > /etc/bash_completion.d/fermata
#[derive(clap::Args)]
pub struct Shells {
    /// The shell
    shell: Shell,
}

/// Write the manual pages: fermata.1 and a page per command.
#[derive(clap::Args)]
pub struct Pages {
    /// Existing folder, such as /usr/local/share/man/man1
    folder: PathBuf,
}

/// Prints the completions.
///
/// # Errors
/// Fails with a message for the user if the output fails.
pub fn write(arguments: &Shells, mut command: clap::Command) -> Result<(), Error> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "fermata", &mut text);
    format::print(&String::from_utf8_lossy(&text))
}

/// Writes the pages.
///
/// # Errors
/// Fails with a message for the user if the folder is not writable.
pub fn write_pages(arguments: &Pages, command: clap::Command) -> Result<(), Error> {
    clap_mangen::generate_to(command, &arguments.folder).map_err(at(arguments.folder.display()))
}
