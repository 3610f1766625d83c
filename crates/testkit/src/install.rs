//! Programs and libraries of other people that tests run: whether they are here, and installing them from their registries.
//!
//! They go to a folder in `target/`, once. What needs a tool that is not on this machine is skipped, and says so.

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

/// Runs an installation unless `done` exists.
///
/// # Panics
/// Panics when it fails.
#[track_caller]
pub fn install(done: &Path, command: &mut Command) {
    let _one = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if !done.exists() {
        let output = command.output().expect("it was tried before");
        assert!(output.status.success(), "{}", shown(&output));
    }
}

/// Installs packages of PyPI into `folder` unless `done` exists.
///
/// # Panics
/// Panics when pip fails.
#[track_caller]
pub fn install_python(folder: &Path, done: &Path, packages: &[&str]) {
    const PIP: [&str; 6] = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
    ];
    let mut command = Command::new("python3");
    install(done, command.args(PIP).arg(folder).args(packages));
}

/// Installs what the lock file in `folder` names.
///
/// # Panics
/// Panics when npm fails.
#[track_caller]
pub fn install_node(folder: &Path) {
    install(
        &folder.join("node_modules/.package-lock.json"),
        Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(folder),
    );
}

/// Everything that a program has printed.
#[must_use]
pub fn shown(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}
