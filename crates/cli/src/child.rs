//! Processes that end with the one that has started them, and are seen to end.

use std::ffi::OsString;
use std::io::PipeReader;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Error, at};
use fermata_io::process::{self, Exit, Pid};
use fermata_io::signal::{Pipe, SIGCHLD, SIGINT, SIGKILL, SIGQUIT, SIGTERM};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The command that becomes another program; not for people.
pub const CHILD_COMMAND: &str = "child";

/// What becomes another program.
#[derive(clap::Args)]
pub struct Arguments {
    /// The process that it ends with
    parent: Pid,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the program, which the kernel tells to end when its parent dies, however that happens.
///
/// # Errors
/// One sentence for the user: there is no such program.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    process::signal_when_parent_dies(SIGTERM).map_err(at("prctl"))?;
    if process::parent_pid() != arguments.parent {
        // It has died before the kernel was asked.
        return Ok(());
    }
    let (program, rest) = arguments
        .command
        .split_first()
        .ok_or("name the program to run")?;
    let error = Command::new(program).args(rest).exec();
    Err(Error::Misuse(format!("{}: {error}", program.display())))
}

/// A command that runs `command` such that it ends with this process, in a process group of its own: Ctrl+C reaches this
/// process alone, which then decides who ends first.
///
/// # Errors
/// One sentence for the user.
pub fn bound(command: &Command) -> Result<Command, Error> {
    let own = std::env::current_exe().map_err(at("/proc/self/exe"))?;
    let mut bound = Command::new(own);
    bound
        .args([CHILD_COMMAND, &process::pid().to_string(), "--"])
        .arg(command.get_program())
        .args(command.get_args())
        .process_group(0);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    Ok(bound)
}

/// Starts a program that ends with this one, and whose output is read.
///
/// # Errors
/// One sentence for the user.
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

/// A process that was started, until it has ended; one that is dropped is killed, with its group.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    exit: Option<Exit>,
    pub since: Instant,
}

impl Child {
    /// Starts what [`bound`] has made.
    ///
    /// # Errors
    /// The kernel's.
    pub fn start(command: &mut Command) -> std::io::Result<Self> {
        let child = command.spawn()?;
        Ok(Self {
            // Ids of processes are small on Linux.
            pid: Pid::try_from(child.id()).map_err(std::io::Error::other)?,
            exit: None,
            since: Instant::now(),
        })
    }

    pub fn signal(&self, signal: i32) {
        if self.exit.is_none() {
            // It may end in this moment.
            let _ = process::kill(self.pid, signal);
        }
    }

    /// How it has ended, if it has.
    pub fn exit(&mut self) -> Option<Exit> {
        if self.exit.is_none() {
            self.exit = process::reap_pid(self.pid);
            if self.exit.is_some() {
                // Its own children may have outlived it.
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

/// Signals of this process, which its children's ends are among.
#[derive(Debug)]
pub struct Signals(Pipe);

impl Signals {
    /// # Errors
    /// One sentence for the user.
    pub fn install(signals: &[i32]) -> Result<Self, Error> {
        let all: Vec<i32> = signals.iter().copied().chain([SIGCHLD]).collect();
        let pipe = Pipe::install(&all).map_err(at("signals"))?;
        Ok(Self(pipe))
    }

    /// Waits for a signal, no longer than until `due`.
    pub fn wait(&self, due: Instant) -> Option<i32> {
        self.wait_with(due, None)
    }

    /// As [`Self::wait`], and no longer than until `other` can be read from.
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
        // A signal that interrupts it is read below.
        let _ = poll(&mut fds, Some(&wait));
        self.0.read()
    }
}

/// Ends a process: in order until `patience` is over, then by force. Another signal to end makes it end at once.
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
