//! Starts a server script and manages its processes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Connection;
use crate::directory::Directory;
use crate::log::Log;
use crate::php::Php;
use crate::process::{Signal, is_running, kill_group, send_signal};
use crate::wait::wait_until;

/// Default number of workers. Two workers show faults that a single one would hide.
const WORKERS: usize = 2;

/// Maximum number of connections opened to find a particular worker.
const WORKER_TRIES_MAX: usize = 2_000;

/// Maximum time to wait for killed processes when a server is dropped.
const END_DEADLINE: Duration = Duration::from_secs(5);

/// Parameters of a server. Settings are environment variables, which override the script.
#[derive(Debug, Clone)]
pub struct Builder {
    script: PathBuf,
    ini: Vec<String>,
    environment: Vec<(String, OsString)>,
    directory: Arc<Directory>,
    workers: usize,
    starter: Vec<String>,
}

impl Builder {
    /// Starts the server through another command, such as `setpriv …`.
    pub fn behind(mut self, starter: &[&str]) -> Builder {
        self.starter = starter.iter().map(ToString::to_string).collect();
        self
    }

    /// Sets an environment variable; the last value of a name wins.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Builder {
        self.environment
            .push((name.to_string(), value.as_ref().to_os_string()));
        self
    }

    /// Sets a Fermata setting by its name, such as `idle_timeout_ms`.
    pub fn setting(self, name: &str, value: impl ToString) -> Builder {
        let name = format!("FERMATA_{}", name.to_ascii_uppercase());
        self.env(&name, value.to_string())
    }

    /// Adds a line for PHP's configuration, such as `memory_limit=32M`.
    pub fn ini(mut self, line: &str) -> Builder {
        self.ini.push(line.to_string());
        self
    }

    /// Sets the number of workers.
    pub fn workers(mut self, workers: usize) -> Builder {
        self.workers = workers;
        self
    }

    /// Opens a control socket in the directory, see [`Server::control`].
    pub fn control(self) -> Builder {
        let address = control_address(&self.directory);
        self.setting("control", address)
    }

    /// Returns the temporary directory shared by server and test; scripts receive it as `TEST_DIRECTORY`.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Starts the server and waits until it listens and all workers run.
    ///
    /// # Panics
    /// Panics with the log if that fails.
    #[track_caller]
    pub fn start(self) -> Server {
        let (mut child, log) = self.spawn();
        let pid = child.id();
        let mut guard = Group { pid };
        let address = wait_until("the server listens", || {
            let address = log
                .lines_from(0)
                .iter()
                .find_map(|line| listening(&line.text));
            if address.is_none()
                && let Ok(Some(status)) = child.try_wait()
            {
                panic!(
                    "the server ended ({status}) before it listened:\n{}",
                    log.text()
                );
            }
            address
        });
        let server = Server {
            child,
            log,
            address,
            directory: self.directory,
            pid,
        };
        guard.pid = 0;
        wait_until("all workers run", || {
            (server.worker_pids().len() == self.workers).then_some(())
        });
        server
    }

    /// Starts a server that is expected to fail at start, and waits for its exit.
    ///
    /// # Panics
    /// Panics if it is still running at the deadline.
    #[track_caller]
    pub fn start_refused(self) -> Exited {
        let (mut child, log) = self.spawn();
        let _guard = Group { pid: child.id() };
        let status = wait_until("the server gives up", || child.try_wait().ok().flatten());
        // The last lines may still be in the pipe; an exited child has logged at least the reason.
        wait_until("the server says why it gave up", || {
            (!log.is_empty()).then_some(())
        });
        Exited { status, log }
    }

    fn spawn(&self) -> (Child, Log) {
        let mut php = Php::behind(&self.starter, &self.ini)
            .env("PORT", "0")
            .env("FERMATA_WORKERS", self.workers.to_string())
            .env("TEST_DIRECTORY", self.directory.path());
        for (name, value) in &self.environment {
            php = php.env(name, value);
        }
        let mut command = php.arg(&self.script).into_command();
        // A separate process group, so that one signal kills the master and all workers.
        command
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .expect("php is installed and can be started");
        let log = Log::default();
        log.follow(child.stderr.take().expect("stderr is piped"), "");
        log.follow(child.stdout.take().expect("stdout is piped"), "[stdout] ");
        (child, log)
    }
}

/// A server that exited by itself.
#[derive(Debug)]
pub struct Exited {
    /// Exit status.
    pub status: ExitStatus,
    /// Complete log.
    pub log: Log,
}

/// Kills a process group when dropped, before a [`Server`] exists.
struct Group {
    pid: u32,
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.pid != 0 {
            kill_group(self.pid);
        }
    }
}

/// A running server: master and workers. Dropping it kills all of them and waits for their exit.
#[derive(Debug)]
pub struct Server {
    child: Child,
    log: Log,
    address: SocketAddr,
    directory: Arc<Directory>,
    pid: u32,
}

impl Server {
    /// Returns a builder for a server that runs `script`.
    pub fn builder(script: impl AsRef<Path>) -> Builder {
        Builder {
            script: script.as_ref().to_path_buf(),
            ini: Vec::new(),
            environment: Vec::new(),
            directory: Arc::new(Directory::new()),
            workers: WORKERS,
            starter: Vec::new(),
        }
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the master's process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the log so far.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the directory shared with the test.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the address of the control socket; requires [`Builder::control`].
    pub fn control(&self) -> String {
        control_address(&self.directory)
    }

    /// Maps worker numbers to the process ids of their latest start.
    pub fn worker_pids(&self) -> BTreeMap<u32, u32> {
        self.log
            .lines_from(0)
            .iter()
            .filter_map(|line| worker_started(&line.text))
            .collect()
    }

    /// Waits until worker `number` runs in a process other than `old_pid`, and returns the id of that process.
    ///
    /// # Panics
    /// Panics with the log at the deadline.
    #[track_caller]
    pub fn wait_replaced(&self, number: u32, old_pid: u32) -> u32 {
        let mut old_seen = false;
        self.log
            .wait_map(0, &format!("worker {number} replaced"), |line| {
                let (_, pid) = worker_started(&line.text).filter(|(found, _)| *found == number)?;
                let replaced = old_seen;
                old_seen |= pid == old_pid;
                replaced.then_some(pid)
            })
    }

    /// Sends a signal to the master.
    ///
    /// # Panics
    /// Panics if it has exited.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        assert!(
            send_signal(self.pid, signal),
            "the master has ended:\n{}",
            self.log.text()
        );
    }

    /// Waits for the master's exit.
    ///
    /// # Panics
    /// Panics with the log at the deadline.
    #[track_caller]
    pub fn wait_exit(&mut self) -> ExitStatus {
        let log = self.log.clone();
        wait_until("the master ends", || {
            let status = self
                .child
                .try_wait()
                .expect("our own child can be waited for");
            if let Some(signal) = status.and_then(|status| status.signal()) {
                println!("the master was ended by signal {signal}:\n{}", log.text());
            }
            status
        })
    }

    /// Opens a connection.
    ///
    /// # Panics
    /// Panics if it is refused.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Opens connections until worker process `pid` handles one, which two requests for `/pid` verify. After its first response a
    /// connection may move to a worker with fewer connections. It then stays there. The other connections stay open until then,
    /// because otherwise that worker would always have more connections than others.
    ///
    /// # Panics
    /// Panics if the kernel assigns no connection to that worker.
    #[track_caller]
    pub fn connect_to(&self, pid: u32) -> Connection {
        let wanted = pid.to_string();
        let mut strays = Vec::new();
        for _ in 0..WORKER_TRIES_MAX {
            let mut connection = self.connect();
            // Another worker may be in the middle of a replacement.
            let mut ask = || connection.try_request("GET", "/pid", &[], b"");
            if ask().is_ok() && ask().is_ok_and(|response| response.text() == wanted) {
                return connection;
            }
            strays.push(connection);
        }
        panic!("worker {pid} took none of {WORKER_TRIES_MAX} connections");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let workers = self.worker_pids();
        kill_group(self.pid);
        let _ = self.child.wait();
        // The sockets and files of the workers are free only after the workers exit. The next server needs them.
        let end = Instant::now() + END_DEADLINE;
        while workers.values().any(|pid| is_running(*pid)) && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        if thread::panicking() {
            println!("--- log of {} ---\n{}", self.address, self.log.text());
        }
    }
}

fn control_address(directory: &Directory) -> String {
    format!("unix:{}", directory.join("control.sock").display())
}

/// Returns the first address in a line with "listening on http://ADDRESS:PORT" or https, as text or inside JSON.
fn listening(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("listening on http")?;
    let (_, rest) = rest.split_once("://")?;
    let len = rest.find(|c: char| !(c.is_ascii_hexdigit() || "[]:.".contains(c)));
    rest[..len.unwrap_or(rest.len())].parse().ok()
}

/// Returns number and process id from a line with "worker N started pid=P", as text or inside JSON.
fn worker_started(line: &str) -> Option<(u32, u32)> {
    let (_, rest) = line.split_once("worker ")?;
    let (number, rest) = rest.split_once(" started pid=")?;
    let len = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    Some((number.parse().ok()?, rest[..len].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_are_understood_as_text_and_json() {
        let address = "127.0.0.1:4711".parse().ok();
        assert_eq!(
            listening("12:00:00 info listening on http://127.0.0.1:4711"),
            address
        );
        assert_eq!(
            listening(r#"{"message":"listening on http://127.0.0.1:4711"}"#),
            address
        );
        assert_eq!(
            listening("listening on http://[::1]:80 x"),
            "[::1]:80".parse().ok()
        );
        assert_eq!(
            worker_started("info worker 3 started pid=77"),
            Some((3, 77))
        );
        assert_eq!(
            worker_started(r#"{"message":"worker 0 started pid=9","x":1}"#),
            Some((0, 9))
        );
        assert_eq!(worker_started("worker 0 ended pid=9"), None);
    }
}
