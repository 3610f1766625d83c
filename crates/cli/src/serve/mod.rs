//! `fermata serve`: a server's program, or the folder of an application, run as it should be run.

mod control;
mod denied;
mod develop;
mod folder;
mod fpm;
mod lines;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use fermata_engine::check_option;

use crate::error::Error;
use crate::php::{self, Php};

pub use folder::{Arguments as FolderArguments, Common, Watched, run as serve_folder};
pub use lines::run as show_lines;

/// The command that shows the lines of a server's access log; not for people.
pub const LINES_COMMAND: &str = "serve-lines";

/// Run a server: `php` with the extension, OPcache and its JIT; or, of a folder, an application under PHP-FPM.
///
/// On a terminal every request has a line. A program's process becomes PHP, so signals, exit code and pid are the
/// server's. It has a control socket for `fermata top` and `fermata stats`, also where none is set. A folder is served by the edge, in front of PHP-FPM, which is started as well: files are sent, programs are
/// run, and index.php answers everything else. Ctrl+C stops both.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    php: php::Arguments,
    /// Address to listen at, in place of what the program says
    #[arg(long, value_name = "http://HOST:PORT")]
    listen: Option<String>,
    /// Worker processes, in place of what the program says
    #[arg(long, value_name = "COUNT")]
    workers: Option<u32>,
    /// Do not switch the JIT on
    #[arg(long)]
    no_jit: bool,
    /// No line per request, also on a terminal
    #[arg(long)]
    quiet: bool,
    /// Print the command and do not run it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    folder: folder::Arguments,
    /// The PHP program that makes the server and calls run(), or the folder of an application
    program: PathBuf,
    /// What the program gets as its arguments
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

/// Becomes the server; returns only when that fails.
///
/// # Errors
/// One sentence for the user.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let program = &arguments.program;
    if program.is_dir() {
        let common = folder::Common {
            folder: program,
            listen: arguments.listen.as_deref(),
            workers: arguments.workers,
            shows_requests: !arguments.quiet && io::stdout().is_terminal(),
            dry_run: arguments.dry_run,
        };
        return folder::run(&common, &arguments.folder, None);
    }
    if !program.is_file() {
        return Err(Error::Misuse(format!(
            "{}: no such file",
            program.display()
        )));
    }
    let php = arguments.php.find()?;
    check(&php)?;
    let mut command = php.command(!arguments.no_jit);
    // An option, because a program's own `control` wins over it, as it does not over the environment.
    if !control::is_chosen(&php)
        && !arguments.dry_run
        && let Some(control) = control::own()
    {
        command.args(["-d", &format!("fermata.control={control}")]);
    }
    command.arg(program).args(&arguments.arguments);
    check_options(arguments.listen.as_deref(), arguments.workers)?;
    if let Some(listen) = &arguments.listen {
        command.env("FERMATA_LISTEN", listen);
    }
    if let Some(workers) = arguments.workers {
        command.env("FERMATA_WORKERS", workers.to_string());
    }
    if arguments.dry_run {
        return crate::format::print(&crate::format::command(&command));
    }
    let has_own_log = std::env::var_os("FERMATA_ACCESS_LOG").is_some();
    if !arguments.quiet && !has_own_log && io::stdout().is_terminal() {
        show_requests(&mut command)?;
    }
    let error = command.exec();
    Err(Error::Misuse(format!("{}: {error}", php.program.display())))
}

/// That a server can take them; it would say so as an exception of PHP's that names a variable nobody has set.
pub fn check_options(listen: Option<&str>, workers: Option<u32>) -> Result<(), Error> {
    let workers = workers.map(|workers| workers.to_string());
    for (option, setting, value) in [
        ("--listen", "listen", listen),
        ("--workers", "workers", workers.as_deref()),
    ] {
        if let Some(value) = value {
            check_option(option, setting, value)?;
        }
    }
    Ok(())
}

/// That PHP can run a server at all.
pub fn check(php: &Php) -> Result<(), Error> {
    let facts = &php.facts;
    if !php::VERSIONS.contains(&facts.id) {
        return Err(Error::Misuse(format!(
            "{} is PHP {}; Fermata needs 8.2 to 8.5, name another by --php",
            php.program.display(),
            facts.version
        )));
    }
    if !php.has_extension() {
        return Err(Error::Misuse(format!(
            "there is no fermata.so: not loaded by PHP, not beside this command, not in {}; \
            build it with `make`, or name it by --extension",
            facts.extension_dir
        )));
    }
    // A wrong one would only be a warning of PHP's, followed by a class that does not exist.
    php.loaded_version().map(|_| ())
}

/// Has the server write its access log into a process that shows it; that ends when the server and its workers have.
fn show_requests(command: &mut Command) -> Result<(), Error> {
    let failed = |error: io::Error| format!("cannot show requests: {error}; --quiet does without");
    let (reader, writer) = io::pipe().map_err(failed)?;
    let own = std::env::current_exe().map_err(failed)?;
    Command::new(own)
        .arg(LINES_COMMAND)
        .stdin(Stdio::from(reader))
        .spawn()
        .map_err(failed)?;
    command
        .stdout(Stdio::from(writer))
        .env("FERMATA_ACCESS_LOG", "stdout")
        .env("FERMATA_ACCESS_LOG_FORMAT", "json");
    Ok(())
}
