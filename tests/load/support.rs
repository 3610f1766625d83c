//! Starts the command and reads its result.

use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use fermata_testkit::{Directory, extension_path, wait_until};
use serde_json::Value;

/// Returns the path of the command, which is built next to the extension.
fn binary() -> PathBuf {
    let path = extension_path().with_file_name("fermata");
    assert!(
        path.is_file(),
        "{} does not exist: run `make` first",
        path.display()
    );
    path
}

/// A run of `fermata load`. Dropping the value early kills the run and its processes.
pub struct Load {
    child: Option<Child>,
    directory: Directory,
}

/// The result of a run.
pub struct Result {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Content of the run's JSON file; null if there is none.
    pub json: Value,
}

impl Load {
    /// Starts a run with these arguments and a short interval.
    pub fn start(arguments: &[&str]) -> Load {
        let directory = Directory::new();
        let path = directory.join("result.json").display().to_string();
        Self::start_as_given(
            directory,
            &[arguments, &["--interval", "50ms", "--json", &path]].concat(),
        )
    }

    fn start_as_given(directory: Directory, arguments: &[&str]) -> Load {
        let child = Command::new(binary())
            .arg("load")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be started");
        Load {
            child: Some(child),
            directory,
        }
    }

    /// Returns the run's standard error, which the caller reads while it runs.
    pub fn take_stderr(&mut self) -> ChildStderr {
        let stderr = self.child.as_mut().and_then(|child| child.stderr.take());
        stderr.expect("it is taken once")
    }

    /// Returns the process id of the parent.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Waits for the run's exit.
    #[track_caller]
    pub fn end(mut self) -> Result {
        let mut child = self.child.take().expect("it ends once");
        // The run prints only a few lines, which fit into the pipes.
        wait_until("the run ends", || {
            child.try_wait().expect("our own child").map(|_| ())
        });
        let Output {
            status,
            stdout,
            stderr,
        } = child.wait_with_output().expect("its output is there");
        let json = std::fs::read(self.directory.join("result.json")).unwrap_or_default();
        Result {
            code: status.code(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            json: serde_json::from_slice(&json).unwrap_or_default(),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // The process may already have exited.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Result {
    /// Returns a counter of the result.
    pub fn count(&self, name: &str) -> u64 {
        let count = &self.json["counters"][name];
        count
            .as_u64()
            .unwrap_or_else(|| panic!("no {name} in {}", self.all()))
    }

    /// Panics unless the run passed.
    #[track_caller]
    pub fn assert_passed(&self) {
        assert_eq!(self.code, Some(0), "{}", self.all());
        assert_eq!(self.json["passed"], true, "{}", self.all());
    }

    /// Panics unless the run's verification failed.
    #[track_caller]
    pub fn assert_failed(&self) {
        assert_eq!(self.code, Some(1), "{}", self.all());
        assert_eq!(self.json["passed"], false, "{}", self.all());
    }

    /// Returns all output.
    pub fn all(&self) -> String {
        format!("{}\n{}\n{}", self.stdout, self.stderr, self.json)
    }
}

/// Runs the command with these arguments until it exits.
#[track_caller]
pub fn load(arguments: &[&str]) -> Result {
    Load::start(arguments).end()
}

/// Runs the command with exactly these arguments, and thus without a JSON file.
#[track_caller]
pub fn load_as_given(arguments: &[&str]) -> Result {
    Load::start_as_given(Directory::new(), arguments).end()
}
