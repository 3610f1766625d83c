//! Options of `fermata dev`.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::php;
use crate::serve::FolderArguments;

/// Run a server for development: restart it when files change, and reload pages.
///
/// An error in the script is shown with its source, here and in the browser, while the previous version keeps serving. If a
/// handler throws, the page has the trace, the request and the values passed to dump(). Not for production.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    pub php: php::Arguments,
    /// Address to listen at, instead of the script's
    #[arg(long, value_name = "http://HOST:PORT")]
    pub listen: Option<String>,
    /// Number of worker processes; one starts fastest
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub workers: u32,
    /// Folder to watch, instead of the project's; repeatable
    #[arg(long, value_name = "FOLDER")]
    pub watch: Vec<PathBuf>,
    /// Poll all files, for mounted folders of containers, where the kernel reports no changes
    #[arg(long)]
    pub poll: bool,
    #[command(flatten)]
    pub folder: FolderArguments,
    /// PHP script that creates the server and calls run(), or leads to it: public/index.php of Symfony, artisan. Or the
    /// folder of an application, which PHP-FPM runs as with `fermata serve`
    pub program: PathBuf,
    /// Arguments of the script
    #[arg(last = true)]
    pub arguments: Vec<OsString>,
}
