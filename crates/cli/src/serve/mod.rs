//! `fermata serve`: runs a server's script or an application folder with the recommended options.

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

/// Internal command that prints a server's access log. clap suggests hidden commands too, so the name resembles nothing that
/// a user would type.
pub const LINES_COMMAND: &str = ".access-lines";

/// Run a server: `php` with the extension, OPcache and its JIT; or, for a folder, an application under PHP-FPM.
///
/// On a terminal, every request has a line. With a script, the process becomes PHP, so signals, exit code and pid are the
/// server's. If no control socket is set, one is created for `fermata top` and `fermata stats`. For a folder, PHP-FPM and an
/// edge in front of it are started: files are sent, scripts are run, and index.php handles all other paths. Ctrl+C stops
/// both.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    php: php::Arguments,
    /// Address to listen at, instead of the script's
    #[arg(long, value_name = "http://HOST:PORT")]
    listen: Option<String>,
    /// Number of worker processes, instead of the script's
    #[arg(long, value_name = "COUNT")]
    workers: Option<u32>,
    /// Do not turn on the JIT
    #[arg(long)]
    no_jit: bool,
    /// Print no line per request, also on a terminal
    #[arg(long)]
    quiet: bool,
    /// Print the command without running it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    folder: folder::Arguments,
    /// PHP script that creates the server and calls run(), or the folder of an application
    program: PathBuf,
    /// Arguments of the script
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

/// Executes PHP in place of this process for a script; serves a folder with child processes.
///
/// # Errors
/// Fails with a message for the user if the server cannot start.
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
    // Set it as an ini option, so that the script's own `control` overrides it. An environment variable would override the script.
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

/// Checks the options here, because the server's error would refer to an environment variable that the user did not set.
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

/// Checks version and extension of PHP.
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
    // Without this check, PHP would only warn about an incompatible extension, and later fail with an unknown class.
    php.loaded_version().map(|_| ())
}

/// Starts a process that prints the server's access log from a pipe; it exits after the server and its workers.
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
