//! A real redis-server that writes each change to disk before it replies, as the cluster log.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::install::{skipped, works};
use crate::{Directory, Signal, free_port, send_signal, wait_until};

/// A redis-server, killed when dropped.
pub struct Redis {
    directory: Directory,
    port: u16,
    /// Additional options.
    options: &'static [&'static str],
    child: Option<Child>,
}

impl Redis {
    /// Returns true if redis-server is installed. Otherwise reports that the test is skipped.
    pub fn is_there() -> bool {
        let is_there = works("redis-server", &["--version"]);
        if !is_there {
            skipped("there is no redis-server");
        }
        is_there
    }

    /// Starts redis-server; returns `None` if it is not installed.
    pub fn start() -> Option<Redis> {
        Redis::start_with(&[])
    }

    /// Starts redis-server with these additional options.
    pub(crate) fn start_with(options: &'static [&'static str]) -> Option<Redis> {
        if !Redis::is_there() {
            return None;
        }
        let mut redis = Redis {
            directory: Directory::new(),
            port: 0,
            options,
            child: None,
        };
        // Another process may take the free port first.
        wait_until("redis-server has a port", || {
            redis.port = free_port();
            redis.begin().then_some(())
        });
        Some(redis)
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Restarts the server with its data.
    pub fn restart(&mut self) {
        self.kill();
        wait_until("redis-server has its port again", || {
            self.begin().then_some(())
        });
    }

    /// Returns a copy of the server's files, made while the server is paused.
    pub fn save(&self) -> Directory {
        self.pause();
        let copy = self.directory.copy();
        self.resume();
        copy
    }

    /// Kills the server and restarts it with the data of an earlier copy.
    pub fn roll_back(&mut self, to: &Directory) {
        self.kill();
        self.directory = to.copy();
        self.restart();
    }

    /// Restarts the server without data.
    pub fn restart_empty(&mut self) {
        self.kill();
        self.directory = Directory::new();
        self.restart();
    }

    /// Stops the server until [`Redis::resume`]. Its connections stay open.
    pub fn pause(&self) {
        self.signal(Signal::Stop);
    }

    /// Resumes the server.
    pub fn resume(&self) {
        self.signal(Signal::Continue);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        assert!(send_signal(child.id(), signal));
    }

    /// Simulates a crash with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Returns true unless the server was killed.
    pub(crate) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Sends a command in one line and returns the start of the reply.
    pub fn ask(&self, command: &str) -> String {
        // Repeat the command, because Sentinel closes the connections of a server when it changes the server's role.
        wait_until("redis-server answers", || ask(self.port, command))
    }

    /// Returns true if the server listens, false if it exited because the port is taken.
    fn begin(&mut self) -> bool {
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            .args([
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
                "--save",
                "",
            ])
            .args(self.options)
            .arg("--dir")
            .arg(self.directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it can be started");
        let child = self.child.insert(child);
        let own = format!("process_id:{}\r\n", child.id());
        wait_until("redis-server listens or ends", || {
            let is_over = child.try_wait().expect("it is our child").is_some();
            let is_there = ask(self.port, "INFO server").is_some_and(|text| text.contains(&own));
            (is_over || is_there).then_some(!is_over)
        })
    }
}

/// A Sentinel that monitors one server and promotes the server's replica after a failure. Dropping it kills the process.
pub struct Sentinel {
    child: Option<Child>,
    port: u16,
    password: Option<&'static str>,
    /// Directory of the configuration file, which Sentinel rewrites.
    directory: Directory,
}

impl Sentinel {
    /// Starts a Sentinel that knows the replicas of `main`.
    pub fn watch(main: &Redis) -> Sentinel {
        Sentinel::watch_at(main.port())
    }

    /// Starts a Sentinel for the main server on this port of 127.0.0.1.
    pub fn watch_at(main: u16) -> Sentinel {
        let sentinel = Sentinel::begin(main, 1, None);
        sentinel.wait_known("num-slaves", 1);
        sentinel
    }

    /// Starts a Sentinel with a password.
    pub fn watch_behind(main: &Redis, password: &'static str) -> Sentinel {
        let sentinel = Sentinel::begin(main.port(), 1, Some(password));
        sentinel.wait_known("num-slaves", 1);
        sentinel
    }

    /// Starts three Sentinels for one server. Two of them must agree on a failure.
    pub fn watch_by_three(main: &Redis) -> [Sentinel; 3] {
        let three = [(); 3].map(|()| Sentinel::begin(main.port(), 2, None));
        for sentinel in &three {
            sentinel.wait_known("num-slaves", 1);
            sentinel.wait_known("num-other-sentinels", 2);
        }
        three
    }

    fn begin(main: u16, quorum: usize, password: Option<&'static str>) -> Sentinel {
        let (port, directory) = (free_port(), Directory::new());
        let password_line = password.map(|password| format!("requirepass {password}\n"));
        directory.write(
            "sentinel.conf",
            format!(
                "port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {main} {quorum}\n\
                 sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 5000\n{}",
                password_line.unwrap_or_default()
            ),
        );
        let mut sentinel = Sentinel {
            child: None,
            port,
            password,
            directory,
        };
        sentinel.restart();
        sentinel
    }

    /// Simulates a crash.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Restarts the Sentinel with its configuration.
    pub fn restart(&mut self) {
        self.kill();
        let child = Command::new("redis-server")
            .arg(self.directory.join("sentinel.conf"))
            .arg("--sentinel")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it can be started");
        self.child = Some(child);
    }

    fn wait_known(&self, what: &str, count: usize) {
        wait_until("the Sentinel knows the others", || {
            let text = self.ask("SENTINEL MASTER main")?;
            let (_, rest) = text.split_once(&format!("{what}\r\n"))?;
            rest.starts_with(&format!("$1\r\n{count}")).then_some(())
        });
    }

    /// Sends a command in one line and returns the start of the reply.
    pub fn ask(&self, command: &str) -> Option<String> {
        match self.password {
            Some(password) => ask(self.port, &format!("AUTH {password}\r\n{command}")),
            None => ask(self.port, command),
        }
    }

    /// Returns the Sentinel's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the port of the server that the Sentinel considers the main one.
    pub fn main_port(&self) -> Option<u16> {
        let text = self.ask("SENTINEL GET-MASTER-ADDR-BY-NAME main")?;
        text.lines().last()?.trim().parse().ok()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

fn ask(port: u16, command: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let timeout = Some(Duration::from_secs(5));
    stream.set_read_timeout(timeout).ok()?;
    stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
    let mut answer = vec![0; 64 * 1024];
    let len = stream.read(&mut answer).ok().filter(|len| *len > 0)?;
    Some(String::from_utf8_lossy(&answer[..len]).into_owned())
}
