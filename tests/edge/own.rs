//! An edge that one test starts with its own settings.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use fermata_testkit::{Directory, command_path, deadline, free_port, wait_until};

use crate::client::{Answer, Client};

/// A running edge. Dropping it stops the process and removes its files.
pub struct Own {
    child: Child,
    /// The port for clients.
    pub port: u16,
    /// The port for publishers.
    pub control: u16,
    /// The port for Prometheus.
    pub metrics: u16,
    pub folder: Directory,
}

impl Own {
    /// Starts an edge with these arguments in addition to its ports.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(Directory::new(), arguments)
    }

    /// Starts an edge in a folder that already contains files.
    pub fn start_in(folder: Directory, arguments: &[&str]) -> Self {
        let control = free_port();
        let mut own = Self::start_at(folder, &format!("127.0.0.1:{control}"), arguments);
        own.control = control;
        own
    }

    /// Starts an edge with environment variables.
    pub fn start_with(variables: &[(&str, &str)], arguments: &[&str]) -> Self {
        let control = free_port();
        let address = format!("127.0.0.1:{control}");
        let mut own = Self::begin(Directory::new(), &address, variables, arguments);
        own.control = control;
        own
    }

    /// Starts an edge whose control port is at this address.
    pub fn start_at(folder: Directory, control: &str, arguments: &[&str]) -> Self {
        Self::begin(folder, control, &[], arguments)
    }

    fn begin(
        folder: Directory,
        control: &str,
        variables: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let ports = [free_port(), free_port()];
        let [port, metrics] = ports;
        let log = fs::File::create(folder.join("edge.log")).expect("a log");
        let mut command = Command::new(command_path());
        command.arg("edge");
        command.args(["--control", control]);
        for (name, port) in [("--listen", port), ("--prometheus", metrics)] {
            command.args([name, &format!("127.0.0.1:{port}")]);
        }
        command.args(arguments).current_dir(folder.path());
        command.env("FERMATA_HTTP2", "on");
        command.envs(variables.iter().copied());
        command.stdout(Stdio::null()).stderr(log);
        let own = Self {
            child: command.spawn().expect("our own program"),
            port,
            control: 0,
            metrics,
            folder,
        };
        wait_until("the edge listens", || {
            let is_listening = |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
            ports.into_iter().all(is_listening).then_some(())
        });
        own
    }

    /// Connects to the client port.
    pub fn client(&self) -> Client {
        Client::open(self.port, "localhost")
    }

    /// Sends a GET on a new connection.
    pub fn get(&self, target: &str) -> Answer {
        self.client().get(target)
    }

    /// Returns the process ids of the workers, which are children of the master.
    pub fn workers(&self) -> Vec<u32> {
        children(self.child.id())
    }

    fn metrics(&self) -> Answer {
        wait_until("a worker tells its figures", || {
            let mut client = Client::open(self.metrics, "localhost");
            client.send("GET", "/metrics", &[], b"");
            // A worker that is killed now loses the request.
            let status = client.try_status(deadline())?;
            assert_eq!(status, 200);
            Some(client.read_answer(false))
        })
    }

    /// Returns the metrics whose names start with `start`, with their labels.
    pub fn figures(&self, start: &str) -> Vec<(String, u64)> {
        let answer = self.metrics();
        let lines = answer.text().lines().filter(|line| line.starts_with(start));
        lines
            .filter_map(|line| line.rsplit_once(' '))
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
            .collect()
    }

    /// Returns true if the process has exited.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Sends a signal to the edge.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }

    /// Kills all processes of the edge, as if the machine had failed.
    pub fn kill_all(self) {
        let pid = self.child.id();
        let all = std::iter::once(pid).chain(children(pid));
        let all: Vec<String> = all.map(|pid| pid.to_string()).collect();
        let killed = Command::new("kill").arg("-9").args(&all).status();
        assert!(killed.is_ok_and(|status| status.success()));
    }

    /// Returns the edge's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join("edge.log")
    }

    /// Waits until the edge's log contains `part`.
    pub fn wait_for_log(&self, part: &str) {
        wait_until(part, || self.log().contains(part).then_some(()));
    }

    /// Returns the value of a metric by its full name.
    pub fn figure(&self, name: &str) -> Option<u64> {
        let answer = self.metrics();
        let mut lines = answer.text().lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// Publishes to streams.
    pub fn publish(&self, channel: &str, content: &str) {
        let stream = serde_json::json!({ "content": content });
        self.publish_items(&[serde_json::json!({"channel": channel, "http-stream": stream})]);
    }

    /// Publishes complete items.
    #[track_caller]
    pub fn publish_items(&self, items: &[serde_json::Value]) {
        let body = serde_json::json!({ "items": items }).to_string();
        let json = [("Content-Type", "application/json")];
        let mut client = Client::open(self.control, "localhost");
        let answer = client.request("POST", "/publish/", &json, body.as_bytes());
        assert_eq!((answer.status, answer.text()), (200, "Published\n"));
    }
}

/// Returns the child processes of `of`, the oldest first.
pub fn children(of: u32) -> Vec<u32> {
    let path = format!("/proc/{of}/task/{of}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    let pids = children.split_whitespace();
    pids.filter_map(|pid| pid.parse().ok()).collect()
}

impl Drop for Own {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- edge.log\n{}", self.log());
        }
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let _ = self.child.wait();
    }
}
