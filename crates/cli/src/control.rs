//! Which server a command asks.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::error::Error;
use fermata_engine::PublisherError;
use fermata_engine::stats::{self, Snapshot};

/// How long the server may take to answer: it does so between two requests.
const TIMEOUT_MS: u64 = 5_000;

/// How long the sockets may take that are looked at to find a server, all at once.
const LOOK_TIMEOUT_MS: u64 = 2_000;

/// Sockets of this machine that are looked at, to find the server that runs.
const LOOKS_MAX: usize = 64;

/// What the names of control sockets have in them; others are left alone.
const NAMES: [&str; 2] = ["control", "fermata"];

/// The kernel's flag of a socket that listens.
const ACCEPTS: &str = "00010000";

/// The option that names the server.
#[derive(clap::Args)]
pub struct Control {
    /// The server's control socket: what its setting `control` says. Without it the one that runs here is taken
    #[arg(
        long = "control",
        env = "FERMATA_CONTROL",
        value_name = "unix:/PATH",
        value_parser = path
    )]
    path: Option<PathBuf>,
}

/// A server's control socket.
pub struct Server(PathBuf);

impl Control {
    /// The server that is named, or else the one that runs on this machine.
    ///
    /// # Errors
    /// One sentence for the user: there is none, or more than one.
    pub fn server(&self) -> Result<Server, Error> {
        match &self.path {
            Some(path) => Ok(Server(path.clone())),
            None => find(),
        }
    }
}

impl Server {
    /// Asks the server for its figures.
    pub fn snapshot(&self) -> Result<Snapshot, PublisherError> {
        stats::fetch(&self.0, TIMEOUT_MS)
    }
}

fn find() -> Result<Server, Error> {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut answering = answering(listening(&table));
    match answering.len() {
        0 => Err(Error::Misuse(
            "no server with a control socket answers on this machine; start it with \
             FERMATA_CONTROL=unix:/run/fermata/control.sock, or name its socket by --control"
                .to_owned(),
        )),
        1 => Ok(Server(answering.remove(0))),
        _ => {
            let names: Vec<_> = answering
                .iter()
                .map(|path| format!("--control unix:{}", path.display()))
                .collect();
            Err(Error::Misuse(format!(
                "several servers run here; choose one by {}",
                names.join(" or ")
            )))
        }
    }
}

/// Those of the sockets that belong to a server whose figures this user may see.
fn answering(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.truncate(LOOKS_MAX);
    let answers: Vec<bool> = thread::scope(|scope| {
        let looks: Vec<_> = paths
            .iter()
            .map(|path| scope.spawn(|| stats::fetch(path, LOOK_TIMEOUT_MS).is_ok()))
            .collect();
        looks
            .into_iter()
            .map(|look| look.join().unwrap_or(false))
            .collect()
    });
    let mut answers = answers.into_iter();
    paths.retain(|_| answers.next().unwrap_or(false));
    paths
}

/// The sockets in the kernel's table that may be control sockets, each once.
fn listening(table: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let flags = fields.nth(3)?;
            let path = fields.nth(3)?;
            let is_named = NAMES.iter().any(|name| path.contains(name));
            (flags == ACCEPTS && path.starts_with('/') && is_named)
                .then(|| Path::new(path).to_path_buf())
        })
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

fn path(text: &str) -> Result<PathBuf, Error> {
    let path = fermata_engine::control_path(text);
    if path.as_os_str().is_empty() {
        return Err(Error::Misuse(
            "name a socket, such as unix:/run/fermata/control.sock".to_owned(),
        ));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_that_listen_and_may_be_a_servers_are_looked_at() {
        let table = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 12 /run/chat/control.sock
0000000000000000: 00000002 00000000 00010000 0001 01 13 /run/chat/control.sock
0000000000000000: 00000003 00000000 00000000 0001 03 14 /run/other/control.sock
0000000000000000: 00000002 00000000 00010000 0001 01 15 /run/docker.sock
0000000000000000: 00000002 00000000 00010000 0001 01 16 @fermata
0000000000000000: 00000002 00000000 00000000 0002 01 17
0000000000000000: 00000002 00000000 00010000 0001 01 18 /run/fermata/a.sock
";
        assert_eq!(
            listening(table),
            ["/run/chat/control.sock", "/run/fermata/a.sock"].map(PathBuf::from)
        );
    }
}
