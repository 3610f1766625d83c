//! The options of `fermata dev`.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::php;
use crate::serve::FolderArguments;

/// Run a server while it is written: changed files take effect by themselves, and pages reload.
///
/// A program with a mistake is shown with its source, here and in the browser, while the one before it goes on answering.
/// Handlers that throw answer with a page that has the trace, the request and what dump() was given. Only for development.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    pub php: php::Arguments,
    /// Address to listen at, in place of what the program says
    #[arg(long, value_name = "http://HOST:PORT")]
    pub listen: Option<String>,
    /// Worker processes; one starts fastest
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub workers: u32,
    /// Folder to watch, in place of the project's; may be given more than once
    #[arg(long, value_name = "FOLDER")]
    pub watch: Vec<PathBuf>,
    /// Look at all files again and again, where the kernel does not tell of changes: mounted folders of containers
    #[arg(long)]
    pub poll: bool,
    #[command(flatten)]
    pub folder: FolderArguments,
    /// The PHP program that makes the server and calls run(), or leads to it: public/index.php of Symfony, artisan. Or the
    /// folder of an application, which PHP-FPM runs as with `fermata serve`
    pub program: PathBuf,
    /// What the program gets as its arguments
    #[arg(last = true)]
    pub arguments: Vec<OsString>,
}
