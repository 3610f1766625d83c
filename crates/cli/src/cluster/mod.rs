//! `fermata cluster up`: several servers of one program on this machine, with a log between them, to see what happens when
//! some of it is killed.

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

/// How often lines of the servers are looked for.
const LOOK: Duration = Duration::from_millis(50);
/// Most lines that wait to be shown; a server that writes more waits.
const LINES_MAX: usize = 1024;
/// What the log of NATS may have, unless the environment says more: NATS reserves it.
const LOG_BYTES_MAX: &str = "64m";
/// How long publishers wait for a log of three servers, which takes up to nine seconds to elect another leader.
const ELECTION_MS_MAX: &str = "15000";
/// What an application is called in the log unless it says so.
const PREFIX: &str = "fermata";
/// Longest path of a socket, with room below the kernel's 107 bytes.
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

/// Try a program on several servers that share their channels.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Up(Box<Up>),
}

/// Run several servers of a program on this machine, with a log between them, for development.
///
/// The log is a nats-server or redis-server of its own in a folder that is removed in the end, or one that runs and is named
/// by --cluster. What the servers log is shown with their number. Type `help` to see what can be killed and started again;
/// Ctrl+C ends everything.
#[derive(clap::Args)]
struct Up {
    #[command(flatten)]
    php: php::Arguments,
    /// Ports of 127.0.0.1 to listen at, one for each server
    #[arg(long, value_name = "PORT,…", value_delimiter = ',', default_values_t = [8080, 8081, 8082])]
    ports: Vec<u16>,
    /// Port of 127.0.0.1 for an nginx that spreads clients over the servers. Default: none
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    proxy: Option<u16>,
    /// Worker processes of each server
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    workers: u32,
    /// The log to start. Default: NATS where nats-server is installed, else Redis
    #[arg(long, value_enum)]
    log: Option<log::Kind>,
    /// Port of 127.0.0.1 for the log. Default: one that is free
    #[arg(long, value_name = "PORT")]
    log_port: Option<u16>,
    /// A log that runs already, such as nats://HOST or redis://HOST
    #[arg(long, env = "FERMATA_CLUSTER", hide_env_values = true, value_name = "URL", conflicts_with_all = ["log", "log_port"])]
    cluster: Option<String>,
    /// The PHP program that makes the server and calls run()
    program: PathBuf,
}

/// Something that happens while all wait.
enum News {
    /// A server has logged a line.
    Line(usize, String),
    /// A line was typed.
    Typed(String),
}

struct Node {
    port: u16,
    child: Option<Child>,
    bridge: Option<Pid>,
    /// The worker that was started last.
    worker: Option<Pid>,
    /// The server of the log that it is connected to.
    connected_to: Option<String>,
}

struct Cluster<'a> {
    up: &'a Up,
    php: Php,
    log: Option<Log>,
    proxy: Option<Proxy>,
    nodes: Vec<Node>,
    sender: mpsc::SyncSender<News>,
    /// Behind all that have files in it, so that it is removed when they have ended.
    folder: Folder,
}

/// # Errors
/// One sentence for the user.
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
    // Made before the first thread, so that all of them leave these signals to this one.
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
    fn serve(&mut self, signals: &Signals, news: &Receiver<News>) {
        loop {
            if signals.wait(Instant::now() + LOOK).is_some_and(is_end) {
                return;
            }
            // No more than may wait, so that signals are heard while a server writes and writes.
            for news in news.try_iter().take(LINES_MAX) {
                match news {
                    News::Line(at, line) => self.take_line(at, &line),
                    News::Typed(line) if line.trim() == "quit" => return,
                    News::Typed(line) => {
                        if let Err(problem) = self.obey(&line) {
                            eprintln!("{problem}");
                        }
                    }
                }
            }
            self.notice_ends();
        }
    }

    /// Does what was typed.
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
                // Of several the ones that are missing.
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

    /// The place of a server that was named by its number.
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
            // Each has its own address, and no other that all would have.
            .env(
                "FERMATA_LISTEN",
                format!("http://127.0.0.1:{}", self.nodes[at].port),
            )
            // Also where the program names one: it would do so in all of them.
            .env("FERMATA_CONTROL", self.control(at))
            .env_remove("FERMATA_METRICS_LISTEN");
        if self.proxy.is_some() && std::env::var_os("FERMATA_TRUSTED_PROXIES").is_none() {
            command.env("FERMATA_TRUSTED_PROXIES", "127.0.0.1");
        }
        let mut defaults = vec![("FERMATA_CLUSTER_BYTES_MAX", LOG_BYTES_MAX.to_owned())];
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
                // In the end nobody shows it; it is read all the same, or the server could not write.
                let _ = sender.send(News::Line(at, line));
            }
        });
        self.nodes[at].child = Some(child);
        Ok(())
    }

    /// Where `fermata top` and `fermata stats` find a server: nowhere if the kernel does not take so long a path.
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
        } else if line.contains("the log of the cluster is not there") {
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

    /// Ends the proxy, so that nobody comes any more, then the servers and their log.
    fn end(mut self, signals: &Signals, news: Receiver<News>) {
        // Lines that wait are not shown any more, and nothing waits for room.
        drop(news);
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

/// The process that a line of a server's log names.
fn pid_of(line: &str) -> Option<Pid> {
    let (_, rest) = line.split_once("pid=")?;
    let digits = rest.split(|it: char| !it.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok())
}

/// Reads what is typed until the end of the input, after which only signals are obeyed.
fn read_commands(sender: mpsc::SyncSender<News>) {
    thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(News::Typed(line)).is_err() {
                return;
            }
        }
    });
}
