//! Programs and libraries of other people that tests run: whether they are here, and installing them from their registries.
//!
//! They go to a folder in `target/`, once. What needs a tool that is not on this machine, or a registry that cannot be
//! reached, is skipped, and says so.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use crate::workspace_root;

/// One installation at a time: tests of a target run side by side.
static INSTALLING: Mutex<()> = Mutex::new(());

/// A folder or file of our own for what is installed.
#[must_use]
pub fn installed(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| workspace_root().join("target"));
    target.join("clients").join(name)
}

/// Whether a program runs and is content with its arguments.
#[must_use]
pub fn works(program: &str, arguments: &[&str]) -> bool {
    let tried = Command::new(program).args(arguments).output();
    tried.is_ok_and(|output| output.status.success())
}

/// Says why a test does not run.
pub fn skipped(why: &str) {
    // Past the harness, which keeps what a passing test prints to itself.
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {why}");
}

/// What package managers say where their registry cannot be reached: pip, npm and Go.
const UNREACHABLE: [&str; 21] = [
    "NewConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ProxyError",
    "Max retries exceeded",
    "Connection refused",
    "Network is unreachable",
    "Temporary failure in name resolution",
    "Could not resolve host",
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ENETUNREACH",
    "ETIMEDOUT",
    "connection refused",
    "network is unreachable",
    "no such host",
    "i/o timeout",
    "502 Bad Gateway",
    "503 Service Unavailable",
    "module lookup disabled by GOPROXY=off",
];

/// Runs an installation unless `done` exists. False: its registry cannot be reached; the test is skipped, which has been
/// said.
///
/// # Panics
/// Panics when it fails in another way.
#[track_caller]
#[must_use]
pub fn install(done: &Path, command: &mut Command) -> bool {
    let _one = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    done.exists() || run(command)
}

#[track_caller]
fn run(command: &mut Command) -> bool {
    let output = command.output().expect("it was tried before");
    let said = shown(&output);
    if !output.status.success()
        && let Some(line) = unreachable_line(&said)
    {
        skipped(&format!("a registry cannot be reached: {line}"));
        return false;
    }
    assert!(output.status.success(), "{said}");
    true
}

/// The line that says that a registry cannot be reached.
fn unreachable_line(said: &str) -> Option<&str> {
    let mut lines = said.lines().map(str::trim);
    lines.find(|line| UNREACHABLE.iter().any(|it| line.contains(it)))
}

/// Installs packages of PyPI into `folder` unless `done` exists. False: PyPI cannot be reached.
///
/// # Panics
/// Panics when pip fails in another way.
#[track_caller]
#[must_use]
pub fn install_python(folder: &Path, done: &Path, packages: &[&str]) -> bool {
    const PIP: [&str; 6] = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
    ];
    let mut command = Command::new("python3");
    install(done, command.args(PIP).arg(folder).args(packages))
}

/// Installs what the lock file in `folder` names. False: npm's registry cannot be reached.
///
/// # Panics
/// Panics when npm fails in another way.
#[track_caller]
#[must_use]
pub fn install_node(folder: &Path) -> bool {
    install(
        &folder.join("node_modules/.package-lock.json"),
        Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(folder),
    )
}

/// Builds `program` from a file of Go, or from a folder with a module. False: what the module needs cannot be had.
///
/// # Panics
/// Panics when the compiler fails in another way.
#[track_caller]
#[must_use]
pub fn install_go(program: &Path, source: &Path) -> bool {
    let _one = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(folder) = program.parent() {
        std::fs::create_dir_all(folder).expect("target/ is ours");
    }
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(program);
    match source.is_dir() {
        true => command.arg(".").current_dir(source),
        false => command.arg(source).env("GO111MODULE", "off"),
    };
    command.env("GOTOOLCHAIN", "local");
    // Without a home Go has no folders of its own.
    if std::env::var_os("HOME").is_none_or(|home| home.is_empty()) {
        command.env("GOCACHE", installed("go-cache"));
        command.env("GOPATH", installed("go-path"));
    }
    // It looks by itself whether there is something to build.
    run(&mut command)
}

/// Everything that a program has printed.
#[must_use]
pub fn shown(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_that_cannot_be_reached_is_no_failure_and_a_missing_package_is() {
        let run = |said: &str, code: i32| {
            let script = format!("echo '{said}' >&2; exit {code}");
            let installing = move || {
                let mut command = Command::new("sh");
                install(Path::new("/none"), command.args(["-c", &script]))
            };
            std::panic::catch_unwind(installing).ok()
        };
        for said in [
            "WARNING: Retrying after NewConnectionError: [Errno 111] Connection refused",
            "npm error code EAI_AGAIN",
            "go: a.example/b@v1: dial tcp: lookup proxy.golang.org: no such host",
        ] {
            assert_eq!(run(said, 1), Some(false), "{said}");
        }
        let missing = "ERROR: No matching distribution found for x==1";
        assert_eq!(run(missing, 1), None);
        assert_eq!(run("", 0), Some(true));
    }
}
