//! Selects the server that a command contacts.
//!
//! Without `--control`, the command searches /proc/net/unix for listening sockets with likely names and queries them. Exactly
//! one must respond.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::error::Error;
use fermata_engine::PublisherError;
use fermata_engine::stats::{self, Snapshot};

/// Timeout of a query; a server responds between two requests.
const TIMEOUT_MS: u64 = 5_000;

/// Timeout of the search; all sockets are queried concurrently.
const LOOK_TIMEOUT_MS: u64 = 2_000;

/// Maximum number of sockets queried in the search.
const LOOKS_MAX: usize = 64;

/// Texts, one of which must be in the path of a control socket. Other sockets are not queried.
const NAMES: [&str; 2] = ["control", "fermata"];

/// Flags of a listening socket in /proc/net/unix (`__SO_ACCEPTCON`).
const ACCEPTS: &str = "00010000";

/// The option that names the server.
#[derive(clap::Args)]
pub struct Control {
    /// The server's control socket, as in its setting `control` [default: the socket of the only running server]
    #[arg(
        long = "control",
        env = "FERMATA_CONTROL",
        value_name = "unix:/PATH",
        value_parser = path
    )]
    path: Option<PathBuf>,
}

/// Control socket of a server.
pub struct Server(PathBuf);

impl Control {
    /// Returns the server of `--control`, or else the only server on this machine.
    ///
    /// # Errors
    /// Fails with a message for the user if no server or several servers respond.
    pub fn server(&self) -> Result<Server, Error> {
        match &self.path {
            Some(path) => Ok(Server(path.clone())),
            None => find(),
        }
    }
}

impl Server {
    /// Requests the server's statistics.
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

/// Returns the sockets of servers whose statistics this user may read.
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

/// Returns the paths in `table`, the text of /proc/net/unix, that may be control sockets, without duplicates.
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
