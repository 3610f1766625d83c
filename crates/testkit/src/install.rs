//! Third-party programs and libraries that tests run: detection, and installation from their registries.
//!
//! Each is installed once into a directory in `target/`. Tests are skipped with a message if a tool is missing on
//! this machine or a registry is unreachable.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use crate::workspace_root;

/// Serializes installations, because tests of a target run in parallel.
static INSTALLING: Mutex<()> = Mutex::new(());

/// Returns the path of an installed directory or file.
#[must_use]
pub fn installed(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| workspace_root().join("target"));
    target.join("clients").join(name)
}

/// Returns true if a program can be started with these arguments and succeeds.
#[must_use]
pub fn works(program: &str, arguments: &[&str]) -> bool {
    let tried = Command::new(program).args(arguments).output();
    tried.is_ok_and(|output| output.status.success())
}

/// Reports why a test is skipped.
pub fn skipped(why: &str) {
    // Written past the test harness, which captures the output of passing tests.
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {why}");
}

/// Messages of pip, npm and Go about an unreachable registry.
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

/// Runs an installation unless `done` exists. Returns false, after reporting the skip, if the registry is
/// unreachable.
///
/// # Panics
/// Panics if the installation fails for another reason.
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

/// Returns the line about an unreachable registry.
fn unreachable_line(said: &str) -> Option<&str> {
    let mut lines = said.lines().map(str::trim);
    lines.find(|line| UNREACHABLE.iter().any(|it| line.contains(it)))
}

/// Installs PyPI packages into `folder` unless `done` exists. Returns false if PyPI is unreachable.
///
/// # Panics
/// Panics if pip fails for another reason.
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

/// Installs the packages of the lock file in `folder`. Returns false if the npm registry is unreachable.
///
/// # Panics
/// Panics if npm fails for another reason.
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

/// Builds `program` from a Go file, or from a directory with a module. Returns false if the module's dependencies are
/// unreachable.
///
/// # Panics
/// Panics if the compiler fails for another reason.
#[track_caller]
#[must_use]
pub fn install_go(program: &Path, source: &Path) -> bool {
    let _one = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(folder) = program.parent() {
        std::fs::create_dir_all(folder).expect("target/ is ours");
    }
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(program);
    if source.is_dir() {
        command.arg(".").current_dir(source)
    } else {
        command.arg(source).env("GO111MODULE", "off")
    };
    command.env("GOTOOLCHAIN", "local");
    // Without HOME, Go has no default directories.
    if std::env::var_os("HOME").is_none_or(|home| home.is_empty()) {
        command.env("GOCACHE", installed("go-cache"));
        command.env("GOPATH", installed("go-path"));
    }
    // Go itself skips the build if it is up to date.
    run(&mut command)
}

/// Returns the whole output of a program.
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
