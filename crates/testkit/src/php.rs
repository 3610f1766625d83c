//! Locates PHP and the extension, and runs scripts.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the root directory of the repository.
pub fn workspace_root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize()
        .expect("the testkit lives two folders below the root")
}

/// Returns the command under test: `FERMATA_COMMAND`, else `build/fermata` in the repository.
pub fn command_path() -> PathBuf {
    let given = std::env::var_os("FERMATA_COMMAND").map(PathBuf::from);
    given.unwrap_or_else(|| workspace_root().join("build/fermata"))
}

/// Returns the extension under test: `FERMATA_EXTENSION`, else `build/fermata.so` in the repository.
///
/// # Panics
/// Panics with instructions if it does not exist.
pub fn extension_path() -> PathBuf {
    let given = std::env::var_os("FERMATA_EXTENSION").filter(|path| !path.is_empty());
    let given = given.map(PathBuf::from);
    let path = given.unwrap_or_else(|| workspace_root().join("build/fermata.so"));
    assert!(
        path.is_file(),
        "{} does not exist: run `make` first, or set FERMATA_EXTENSION to the path of fermata.so",
        path.display()
    );
    path
}

/// A PHP command line with the extension, and an environment without outside settings.
#[derive(Debug)]
pub struct Php {
    command: Command,
}

/// Result of a script.
#[derive(Debug)]
pub struct ScriptOutput {
    /// Exit code. `None` if a signal killed the process.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Php {
    /// Creates a `php` command with the extension and these additional `-d` lines ("name=value").
    pub fn new(ini: &[String]) -> Php {
        Php::behind(&[], ini)
    }

    /// Creates a `php` command that another command starts, such as `setpriv`.
    pub fn behind(starter: &[String], ini: &[String]) -> Php {
        let binary = std::env::var_os("FERMATA_PHP").unwrap_or_else(|| "php".into());
        let mut command = match starter {
            [] => Command::new(binary),
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments).arg(binary);
                command
            }
        };
        command.arg("-d").arg(extension_argument(&extension_path()));
        // Tests expect errors on standard error, regardless of the machine's php.ini.
        command.args([
            "-d",
            "display_errors=0",
            "-d",
            "log_errors=1",
            "-d",
            "html_errors=0",
        ]);
        command.args(["-d", "error_log="]);
        for line in ini {
            command.arg("-d").arg(line);
        }
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            if name_text == "PORT" || name_text.starts_with("FERMATA_") {
                command.env_remove(&name);
            }
        }
        command.env("FERMATA_IO", backend());
        command.stdin(Stdio::null());
        Php { command }
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Php {
        self.command.env(name, value);
        self
    }

    /// Adds an argument: first the script, then its arguments.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Php {
        self.command.arg(argument);
        self
    }

    /// Adds several arguments.
    pub fn args<const N: usize>(mut self, arguments: [&str; N]) -> Php {
        self.command.args(arguments);
        self
    }

    /// Runs the command until it exits.
    ///
    /// # Panics
    /// Panics if PHP cannot be started.
    pub fn run(mut self) -> ScriptOutput {
        let output = self
            .command
            .output()
            .expect("php is installed and can be started");
        ScriptOutput {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Returns the command, for callers that start it differently.
    pub(crate) fn into_command(self) -> Command {
        self.command
    }
}

/// Returns the I/O backend under test. The whole suite runs once per backend.
fn backend() -> String {
    std::env::var("FERMATA_IO").unwrap_or_else(|_| String::from("epoll"))
}

fn extension_argument(path: &Path) -> String {
    format!("extension={}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(workspace_root().join("Cargo.toml").is_file());
    }
}
