//! Child processes that exit with this process.
//!
//! A child starts as this command, requests SIGTERM from the kernel for the exit of its parent (`PR_SET_PDEATHSIG`), then
//! executes the program. The exit of a child arrives as SIGCHLD through [`Signals`].

use std::ffi::OsString;
use std::io::PipeReader;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Error, at};
use fermata_io::process::{self, Exit, Pid};
use fermata_io::signal::{Pipe, SIGCHLD, SIGINT, SIGKILL, SIGQUIT, SIGTERM};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Internal command that executes another program.
pub const CHILD_COMMAND: &str = ".below";

/// Parent process, and the program to execute.
#[derive(clap::Args)]
pub struct Arguments {
    /// Process whose exit also stops this one
    parent: Pid,
    /// Program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Executes the program; the kernel sends it SIGTERM when its parent dies for any reason.
///
/// # Errors
/// Fails with a message for the user if the program cannot be executed.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    process::signal_when_parent_dies(SIGTERM).map_err(at("prctl"))?;
    if process::parent_pid() != arguments.parent {
        // The parent exited before prctl(), so no signal would arrive.
        return Ok(());
    }
    let (program, rest) = arguments
        .command
        .split_first()
        .ok_or("name the program to run")?;
    let error = Command::new(program).args(rest).exec();
    Err(Error::Misuse(format!("{}: {error}", program.display())))
}

/// Wraps `command` so that it exits with this process.
///
/// The child runs in a separate process group. Ctrl+C therefore reaches only this process, which stops its children in order.
///
/// # Errors
/// Fails with a message for the user if the path of this executable is unavailable.
pub fn bound(command: &Command) -> Result<Command, Error> {
    let own = std::env::current_exe().map_err(at("/proc/self/exe"))?;
    let mut bound = Command::new(own);
    bound
        .args([CHILD_COMMAND, &process::pid().to_string(), "--"])
        .arg(command.get_program())
        .args(command.get_args())
        .process_group(0);
    for name in fermata_io::systemd::VARIABLES {
        // These systemd variables address this process, not its children.
        bound.env_remove(name);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    Ok(bound)
}

/// Starts a child with standard output and standard error in one pipe.
///
/// # Errors
/// Fails with a message for the user if the pipe or the process cannot be created.
pub fn start_piped(command: &Command) -> Result<(PipeReader, Child), Error> {
    let failed = |error| at(command.get_program().display())(error);
    let (reader, writer) = std::io::pipe().map_err(failed)?;
    let mut bound = bound(command)?;
    bound
        .stdin(Stdio::null())
        .stdout(writer.try_clone().map_err(failed)?)
        .stderr(writer);
    let child = Child::start(&mut bound).map_err(failed)?;
    Ok((reader, child))
}

/// A child process. Dropping the value kills the process and its group.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    exit: Option<Exit>,
    pub since: Instant,
}

impl Child {
    /// Starts a command that [`bound`] returned.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub fn start(command: &mut Command) -> std::io::Result<Self> {
        let child = command.spawn()?;
        Ok(Self {
            // Linux process ids are at most 2^22, so the conversion succeeds.
            pid: Pid::try_from(child.id()).map_err(std::io::Error::other)?,
            exit: None,
            since: Instant::now(),
        })
    }

    pub fn signal(&self, signal: i32) {
        if self.exit.is_none() {
            // The process may already have exited.
            let _ = process::kill(self.pid, signal);
        }
    }

    /// Returns the exit status, or `None` while the process runs.
    pub fn exit(&mut self) -> Option<Exit> {
        if self.exit.is_none() {
            self.exit = process::reap_pid(self.pid);
            if self.exit.is_some() {
                // Kill descendants that are still running.
                self.kill_group();
            }
        }
        self.exit
    }

    fn kill_group(&self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.pid) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.exit().is_none() {
            process::kill(self.pid, SIGKILL).unwrap_or_default();
            self.kill_group();
        }
    }
}

/// Signals of this process, including SIGCHLD.
#[derive(Debug)]
pub struct Signals(Pipe);

impl Signals {
    /// Redirects `signals` and SIGCHLD into a pipe.
    ///
    /// # Errors
    /// Fails with a message for the user if the pipe or the handlers cannot be installed.
    pub fn install(signals: &[i32]) -> Result<Self, Error> {
        let all: Vec<i32> = signals.iter().copied().chain([SIGCHLD]).collect();
        let pipe = Pipe::install(&all).map_err(at("signals"))?;
        Ok(Self(pipe))
    }

    /// Waits for a signal until `due`; returns `None` on timeout.
    pub fn wait(&self, due: Instant) -> Option<i32> {
        self.wait_with(due, None)
    }

    /// Waits like [`Self::wait`], but also returns when `other` becomes readable.
    pub fn wait_with(
        &self,
        due: Instant,
        other: Option<rustix::fd::BorrowedFd<'_>>,
    ) -> Option<i32> {
        if let Some(signal) = self.0.read() {
            return Some(signal);
        }
        let left = due.saturating_duration_since(Instant::now());
        let wait = Timespec::try_from(left).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        let mut fds = vec![PollFd::new(&self.0, PollFlags::IN)];
        fds.extend(other.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // After EINTR, the signal is read from the pipe below.
        let _ = poll(&mut fds, Some(&wait));
        self.0.read()
    }
}

/// Stops a process with `signal`, and kills it after `patience`. A further SIGINT, SIGTERM or SIGQUIT to this process is forwarded
/// to the child as SIGTERM.
pub fn end(child: &mut Child, signal: i32, signals: &Signals, patience: Duration) {
    child.signal(signal);
    let due = Instant::now() + patience;
    while child.exit().is_none() {
        if Instant::now() >= due {
            child.signal(SIGKILL);
        }
        let soon = Instant::now() + Duration::from_millis(20);
        if let Some(SIGINT | SIGTERM | SIGQUIT) = signals.wait(due.max(soon)) {
            child.signal(SIGTERM);
        }
    }
}
