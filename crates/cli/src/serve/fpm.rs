//! Finds, configures and probes PHP-FPM or php-cgi for one application.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, at};
use fermata_io::process;
use fermata_io::signal::{SIGQUIT, SIGTERM};

/// Names of the executable, newest PHP first.
const NAMES: &[&str] = &[
    "php-fpm",
    "php-fpm8.5",
    "php-fpm8.4",
    "php-fpm8.3",
    "php-fpm8.2",
    "php-fpm8.1",
    "php-fpm8.0",
    "php-fpm7.4",
    "php-cgi",
];

/// Folders searched in addition to PATH, because PATH may lack the folders for server executables.
const FOLDERS: &[&str] = &["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"];

/// PHP that serves FastCGI at a Unix socket in `place`.
#[derive(Debug)]
pub struct Fpm {
    pub program: PathBuf,
    pub socket: PathBuf,
    pub config: PathBuf,
    children: u32,
    /// PHP settings, which scripts can override.
    settings: Vec<(&'static str, String)>,
    runs_as_root: bool,
}

/// Returns the executable.
///
/// # Errors
/// Fails with a message for the user if no executable exists.
pub fn find(named: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(program) = named {
        return match program.components().count() {
            1 => in_path(program).ok_or_else(|| {
                Error::Misuse(format!("--fpm {}: no such program", program.display()))
            }),
            _ if program.is_file() => Ok(program.to_owned()),
            _ => Err(Error::Misuse(format!(
                "--fpm {}: no such file",
                program.display()
            ))),
        };
    }
    let found = NAMES.iter().find_map(|name| in_path(Path::new(name)));
    found.ok_or_else(|| {
        Error::Misuse(
            "a folder is served with PHP-FPM or php-cgi, and there is none: install php-fpm, or name one by --fpm".to_owned(),
        )
    })
}

fn in_path(name: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|it| it.is_file())
}

impl Fpm {
    /// Writes the configuration into `place`; `settings` are additional PHP settings.
    ///
    /// # Errors
    /// Fails with a message for the user if php-cgi would have to change its user or the file cannot be written.
    pub fn configure(
        program: PathBuf,
        place: &Path,
        children: u32,
        user: Option<&str>,
        settings: Vec<(&'static str, String)>,
    ) -> Result<Self, Error> {
        let fpm = Self {
            socket: place.join("php"),
            config: place.join("php-fpm.conf"),
            children,
            runs_as_root: user == Some("root"),
            settings,
            program,
        };
        if fpm.is_cgi() {
            return match user {
                Some(user) if user != "root" => Err(Error::Misuse(format!(
                    "{} cannot change to {user}: install PHP-FPM, or start this as that user",
                    fpm.program.display()
                ))),
                _ => Ok(fpm),
            };
        }
        let user = user.map_or_else(String::new, |user| {
            format!("user = {user}\nlisten.owner = {user}\n")
        });
        let settings: String = fpm
            .settings
            .iter()
            .map(|(name, value)| format!("php_value[{name}] = {value}\n"))
            .collect();
        let text = format!(
            "; What this pool does not say, php.ini of PHP-FPM does.\n\
            [global]\n\
            daemonize = no\n\
            error_log = /dev/null\n\
            log_level = warning\n\
            process_control_timeout = 10s\n\
            [fermata]\n\
            listen = {socket}\n\
            listen.mode = 0600\n\
            listen.backlog = 4096\n\
            {user}\
            pm = ondemand\n\
            pm.max_children = {children}\n\
            pm.process_idle_timeout = 60s\n\
            pm.max_requests = 10000\n\
            clear_env = no\n\
            catch_workers_output = yes\n\
            decorate_workers_output = no\n\
            ; Errors are on standard error; PHP would tell the edge of each once more.\n\
            php_admin_value[fastcgi.logging] = 0\n\
            security.limit_extensions = .php\n\
            {settings}",
            socket = fpm.socket.display(),
        );
        fs::write(&fpm.config, text).map_err(at(fpm.config.display()))?;
        Ok(fpm)
    }

    /// Returns the command that runs PHP in the foreground with its log on standard error.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if self.is_cgi() {
            for (name, value) in &self.settings {
                command.args(["-d", &format!("{name}={value}")]);
            }
            command
                .arg("-b")
                .arg(&self.socket)
                .env("PHP_FCGI_CHILDREN", self.children.to_string())
                .env("PHP_FCGI_MAX_REQUESTS", "10000");
            return command;
        }
        command
            .args(["--nodaemonize", "--force-stderr", "--fpm-config"])
            .arg(&self.config);
        if self.runs_as_root && process::user() == 0 {
            command.arg("--allow-to-run-as-root");
        }
        command
    }

    pub fn is_listening(&self) -> bool {
        UnixStream::connect(&self.socket).is_ok()
    }

    /// Returns the signal for a graceful shutdown.
    pub fn end_signal(&self) -> i32 {
        if self.is_cgi() { SIGTERM } else { SIGQUIT }
    }

    /// Returns true if SIGUSR2 reloads the process.
    pub fn reloads(&self) -> bool {
        !self.is_cgi()
    }

    fn is_cgi(&self) -> bool {
        let name = self.program.file_name().unwrap_or_default();
        name.to_string_lossy().contains("cgi")
    }
}
