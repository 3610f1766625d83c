//! `fermata cluster up`: runs several servers of one script with a shared log on this machine, to test failures.
//!
//! One thread per server forwards its output; the main loop prints the output, executes commands from standard input and
//! reports exits. All processes exit with this command.

mod companion;
mod folder;
mod leader;
mod log;
mod proxy;

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use fermata_io::process::{self, Pid};
use fermata_io::signal::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};

use crate::child::{self, Child, Signals};
use crate::error::Error;
use crate::php::{self, Php};
use companion::END_MAX;
use folder::Folder;
use log::Log;
use proxy::Proxy;

/// Interval at which output of servers and typed commands are polled.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum number of lines queued for output; further writes of servers block.
const LINES_MAX: usize = 1024;
/// Default maximum size of the log. It is small, because NATS reserves it in advance.
const LOG_BYTES_MAX: &str = "64m";
/// Default publish timeout with three log servers, which need up to 9 s to elect a new leader.
const ELECTION_MS_MAX: &str = "15000";
/// Default prefix of an application in the log.
const PREFIX: &str = "fermata";
/// Maximum path length of a socket; leaves room below the kernel's limit of 107 bytes.
const SOCKET_PATH_MAX: usize = 100;

const HELP: &str = "\
status          what runs and where, who leads, and who is connected to whom
kill 2          kill a server with all its processes (SIGKILL)
kill worker 2   kill a worker of a server; it is started anew
kill bridge 2   kill the process of a server that speaks to the log; it is started anew
kill log        kill the log; of --log nats3 all servers, and kill log 2 one of them
kill proxy      kill the proxy
start 2, start log, start log 2, start proxy
quit            end everything; Ctrl+C does the same";

/// Try a script on several servers that share their channels.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Up(Box<Up>),
}

/// Run several servers of a script on this machine, with a shared log, for development.
///
/// The log is a new nats-server or redis-server, whose folder is removed at the end, or a running one given by --cluster. Log
/// lines of the servers are shown with the server's number. Type `help` for the commands that kill and start processes;
/// Ctrl+C stops everything.
#[derive(clap::Args)]
struct Up {
    #[command(flatten)]
    php: php::Arguments,
    /// Ports of 127.0.0.1 to listen at, one per server
    #[arg(long, value_name = "PORT,…", value_delimiter = ',', default_values_t = [8080, 8081, 8082])]
    ports: Vec<u16>,
    /// Port of 127.0.0.1 for an nginx in front of the servers [default: no nginx]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    proxy: Option<u16>,
    /// Number of worker processes of each server
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    workers: u32,
    /// Log to start [default: NATS if nats-server is installed, else Redis]
    #[arg(long, value_enum)]
    log: Option<log::Kind>,
    /// Port of 127.0.0.1 for the log [default: a free port]
    #[arg(long, value_name = "PORT")]
    log_port: Option<u16>,
    /// Address of a running log, such as nats://HOST or redis://HOST
    #[arg(long, env = "FERMATA_CLUSTER", hide_env_values = true, value_name = "URL", conflicts_with_all = ["log", "log_port"])]
    cluster: Option<String>,
    /// PHP script that creates the server and calls run()
    program: PathBuf,
}

/// Input of the main loop.
enum TerminalEvent {
    /// Log line of the server with this index.
    Line(usize, String),
    /// Line from standard input.
    Typed(String),
}

struct Node {
    port: u16,
    child: Option<Child>,
    bridge: Option<Pid>,
    /// Most recently started worker.
    worker: Option<Pid>,
    /// Log server that this server is connected to.
    connected_to: Option<String>,
}

struct Cluster<'a> {
    up: &'a Up,
    php: Php,
    log: Option<Log>,
    proxy: Option<Proxy>,
    nodes: Vec<Node>,
    sender: mpsc::SyncSender<TerminalEvent>,
    /// Last field, so that the folder is dropped, and thus removed, after the processes that use it.
    folder: Folder,
}

/// Runs the cluster until a signal or `quit`.
///
/// # Errors
/// Fails with a message for the user if the options are invalid or a process cannot be started.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let Verb::Up(up) = &arguments.command;
    let php = up.php.find()?;
    crate::serve::check(&php)?;
    if !up.program.is_file() {
        return Err(Error::Misuse(format!(
            "{}: no such file",
            up.program.display()
        )));
    }
    let mut seen = HashSet::new();
    if let Some(port) = up.ports.iter().find(|port| !seen.insert(**port)) {
        return Err(Error::Misuse(format!(
            "--ports names {port} twice; each server has its own"
        )));
    }
    if let Some(port) = up.proxy.filter(|port| seen.contains(port)) {
        return Err(Error::Misuse(format!(
            "--proxy and --ports both name {port}; the proxy has its own"
        )));
    }
    // Installed before the first child starts, so that no signal is missed.
    let signals = Signals::install(&[SIGINT, SIGTERM, SIGQUIT, SIGHUP])?;
    let folder = Folder::new()?;
    let log = match &up.cluster {
        Some(_) => None,
        None => Some(Log::start(up.log, up.log_port, &folder)?),
    };
    let proxy = match up.proxy {
        Some(port) => Some(Proxy::start(port, &up.ports, &folder)?),
        None => None,
    };
    let (sender, receiver) = mpsc::sync_channel(LINES_MAX);
    let mut cluster = Cluster {
        up,
        php,
        log,
        proxy,
        nodes: Vec::new(),
        sender,
        folder,
    };
    for port in &up.ports {
        cluster.nodes.push(Node {
            port: *port,
            child: None,
            bridge: None,
            worker: None,
            connected_to: None,
        });
        cluster.start(cluster.nodes.len() - 1)?;
    }
    cluster.status();
    eprintln!("Type help to see what can be killed; Ctrl+C ends everything.");
    read_commands(cluster.sender.clone());
    cluster.serve(&signals, &receiver);
    cluster.end(&signals, receiver);
    Ok(())
}

impl Cluster<'_> {
    fn serve(&mut self, signals: &Signals, events: &Receiver<TerminalEvent>) {
        loop {
            if signals.wait(Instant::now() + LOOK).is_some_and(is_end) {
                return;
            }
            // Bounded, so that signals are handled while servers keep writing.
            for event in events.try_iter().take(LINES_MAX) {
                match event {
                    TerminalEvent::Line(at, line) => self.take_line(at, &line),
                    TerminalEvent::Typed(line) if line.trim() == "quit" => return,
                    TerminalEvent::Typed(line) => {
                        if let Err(problem) = self.obey(&line) {
                            eprintln!("{problem}");
                        }
                    }
                }
            }
            self.notice_ends();
        }
    }

    /// Executes a command line.
    fn obey(&mut self, line: &str) -> Result<(), Error> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            ["status"] => self.status(),
            ["kill", "log", ref number @ ..] if number.len() < 2 => {
                let log = self.log()?;
                for at in log.numbered(number.first().copied())? {
                    log.kill(at);
                }
            }
            ["start", "log", ref number @ ..] if number.len() < 2 => {
                let log = self.log()?;
                let mut servers = log.numbered(number.first().copied())?;
                // Start only the stopped servers; if all run, begin() reports the error.
                if servers.iter().any(|at| !log.is_running(*at)) {
                    servers.retain(|at| !log.is_running(*at));
                }
                for at in servers {
                    log.begin(at)?;
                }
            }
            ["kill", "proxy"] => self.proxy()?.process.kill(),
            ["start", "proxy"] => self.proxy()?.begin()?,
            ["kill", what @ ("bridge" | "worker"), number] => {
                let at = self.number(number)?;
                let node = &mut self.nodes[at];
                let pid = if what == "bridge" {
                    node.bridge.take()
                } else {
                    node.worker.take()
                };
                let pid = pid.ok_or(format!("server {number} has no {what} yet"))?;
                process::kill(pid, SIGKILL)?;
            }
            ["kill", number] => {
                let at = self.number(number)?;
                let child = self.nodes[at].child.as_ref();
                let child = child.ok_or(format!("server {number} does not run"))?;
                child.signal(SIGKILL);
            }
            ["start", number] => {
                let at = self.number(number)?;
                if self.nodes[at].child.is_some() {
                    return Err(Error::Misuse(format!("server {number} runs")));
                }
                self.start(at)?;
            }
            _ => eprintln!("{HELP}"),
        }
        Ok(())
    }

    fn log(&mut self) -> Result<&mut Log, Error> {
        self.log
            .as_mut()
            .ok_or_else(|| Error::Misuse("the log was not started by this command".to_owned()))
    }

    fn proxy(&mut self) -> Result<&mut Proxy, Error> {
        self.proxy
            .as_mut()
            .ok_or_else(|| Error::Misuse("there is no proxy; give it a port by --proxy".to_owned()))
    }

    /// Converts a server's number, counted from 1, to its index.
    fn number(&self, text: &str) -> Result<usize, Error> {
        let at = text.parse().ok().and_then(|it: usize| it.checked_sub(1));
        at.filter(|at| *at < self.nodes.len())
            .ok_or_else(|| Error::Misuse(format!("{text} is no number of a server; type help")))
    }

    fn start(&mut self, at: usize) -> Result<(), Error> {
        let url = match (&self.log, &self.up.cluster) {
            (Some(log), _) => log.url(at),
            (None, url) => url.clone().unwrap_or_default(),
        };
        let mut command = self.php.command(false);
        command
            .arg(&self.up.program)
            .env("FERMATA_CLUSTER", url)
            .env("FERMATA_WORKERS", self.up.workers.to_string())
            // A separate address per server overrides an address that is common to all.
            .env(
                "FERMATA_LISTEN",
                format!("http://127.0.0.1:{}", self.nodes[at].port),
            )
            // Overrides the script's control socket, which all servers would share.
            .env("FERMATA_CONTROL", self.control(at))
            .env_remove("FERMATA_METRICS_LISTEN");
        if self.proxy.is_some() && std::env::var_os("FERMATA_TRUSTED_PROXIES").is_none() {
            command.env("FERMATA_TRUSTED_PROXIES", "127.0.0.1");
        }
        let mut defaults = vec![
            ("FERMATA_CLUSTER_BYTES_MAX", LOG_BYTES_MAX.to_owned()),
            ("FERMATA_ALLOWED_HOSTS", "localhost".to_owned()),
        ];
        if let Some(copies) = self.log.as_ref().map(Log::copies).filter(|it| *it > 1) {
            defaults.push(("FERMATA_CLUSTER_REPLICAS", copies.to_string()));
            defaults.push(("FERMATA_PUBLISH_WAIT_MS_MAX", ELECTION_MS_MAX.to_owned()));
        }
        for (name, value) in defaults {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        let (reader, child) = child::start_piped(&command)?;
        let sender = self.sender.clone();
        thread::spawn(move || {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                // On shutdown the receiver is dropped. Keep reading, because the server would otherwise block on its output.
                let _ = sender.send(TerminalEvent::Line(at, line));
            }
        });
        self.nodes[at].child = Some(child);
        Ok(())
    }

    /// Returns the control socket of a server for `fermata top` and `fermata stats`; empty if its path would be too long.
    fn control(&self, at: usize) -> String {
        let path = self.folder.path().join(format!("server-{}.sock", at + 1));
        if path.as_os_str().len() > SOCKET_PATH_MAX {
            return String::new();
        }
        format!("unix:{}", path.display())
    }

    fn take_line(&mut self, at: usize, line: &str) {
        let node = &mut self.nodes[at];
        eprintln!("{} | {line}", at + 1);
        if let Some((_, server)) = line.split_once("connected to the log of the cluster at ") {
            let server = server.split([' ', '"']).next();
            node.connected_to = server.map(str::to_owned);
        } else if line.contains("the log of the cluster is unreachable") {
            node.connected_to = None;
        } else if line.contains("bridge started pid=") {
            node.bridge = pid_of(line);
        } else if line.contains("worker ") && line.contains(" started pid=") {
            node.worker = pid_of(line);
        }
    }

    fn notice_ends(&mut self) {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let Some(exit) = node.child.as_mut().and_then(Child::exit) else {
                continue;
            };
            (node.child, node.bridge, node.worker) = (None, None, None);
            node.connected_to = None;
            let number = at + 1;
            eprintln!("server {number} has ended ({exit}); start {number} brings it back");
        }
        if let Some(log) = &mut self.log {
            log.notice_ends();
        }
        if let Some(proxy) = &mut self.proxy {
            proxy.process.notice_end();
        }
    }

    fn status(&self) {
        match (&self.log, &self.up.cluster) {
            (Some(log), _) => {
                let prefix = std::env::var("FERMATA_CLUSTER_PREFIX");
                for line in log.status(prefix.as_deref().unwrap_or(PREFIX)) {
                    eprintln!("{line}");
                }
            }
            (None, Some(url)) => eprintln!("log       {}", fermata_engine::mask_secrets(url)),
            (None, None) => {}
        }
        if let Some(proxy) = &self.proxy {
            eprintln!("proxy     {proxy}");
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let state = match (&node.child, &node.connected_to) {
                (None, _) => "does not run".to_owned(),
                (Some(_), Some(server)) => format!("connected to the log at {server}"),
                (Some(_), None) => "not connected to the log".to_owned(),
            };
            eprintln!("server {}  http://127.0.0.1:{}  {state}", at + 1, node.port);
        }
    }

    /// Stops the proxy first, so that no new clients arrive, then the servers and their log.
    fn end(mut self, signals: &Signals, events: Receiver<TerminalEvent>) {
        // Discards queued lines and unblocks the threads that wait for room in the queue.
        drop(events);
        if let Some(proxy) = &mut self.proxy {
            proxy.process.end(signals);
        }
        for node in &self.nodes {
            if let Some(child) = &node.child {
                child.signal(SIGTERM);
            }
        }
        for child in self.nodes.iter_mut().filter_map(|node| node.child.as_mut()) {
            child::end(child, SIGTERM, signals, END_MAX);
        }
        if let Some(log) = &mut self.log {
            log.end(signals);
        }
    }
}

fn is_end(signal: i32) -> bool {
    matches!(signal, SIGINT | SIGTERM | SIGQUIT | SIGHUP)
}

/// Returns the process id in a line of a server's log.
fn pid_of(line: &str) -> Option<Pid> {
    let (_, rest) = line.split_once("pid=")?;
    let digits = rest.split(|it: char| !it.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok())
}

/// Forwards lines from standard input until its end; then only signals control the cluster.
fn read_commands(sender: mpsc::SyncSender<TerminalEvent>) {
    thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(TerminalEvent::Typed(line)).is_err() {
                return;
            }
        }
    });
}
