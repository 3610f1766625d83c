//! What shells and `man` know of this command, made from its own declaration.

use std::path::PathBuf;

use clap_complete::Shell;

use crate::error::{Error, at};
use crate::format;

/// Print what a shell needs to complete this command.
///
/// bash: fermata completions bash > /etc/bash_completion.d/fermata
#[derive(clap::Args)]
pub struct Shells {
    /// The shell
    shell: Shell,
}

/// Write the manual pages: fermata.1 and one for each command.
#[derive(clap::Args)]
pub struct Pages {
    /// The folder, such as /usr/local/share/man/man1; it must exist
    folder: PathBuf,
}

/// Prints the completions.
///
/// # Errors
/// One sentence for the user.
pub fn write(arguments: &Shells, mut command: clap::Command) -> Result<(), Error> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "fermata", &mut text);
    format::print(&String::from_utf8_lossy(&text))
}

/// Writes the pages.
///
/// # Errors
/// One sentence for the user: the folder cannot be written.
pub fn write_pages(arguments: &Pages, command: clap::Command) -> Result<(), Error> {
    clap_mangen::generate_to(command, &arguments.folder).map_err(at(arguments.folder.display()))
}
