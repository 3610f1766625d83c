//! nginx as a load balancer in front of the servers of `fermata cluster up`.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;

use super::companion::{Companion, is_installed};
use super::folder::Folder;
use crate::error::{Error, at};

/// Names of the executable; on Debian its folder is only in root's PATH.
const PROGRAMS: [&str; 2] = ["nginx", "/usr/sbin/nginx"];
const CONFIGURATION: &str = include_str!("nginx.conf");

pub struct Proxy {
    program: &'static str,
    port: u16,
    folder: PathBuf,
    pub process: Companion,
}

impl Proxy {
    /// Writes the configuration and starts nginx.
    ///
    /// # Errors
    /// Fails with a message for the user if nginx is not installed or cannot be started.
    pub fn start(port: u16, nodes: &[u16], folder: &Folder) -> Result<Self, Error> {
        let program = PROGRAMS
            .into_iter()
            .find(|program| is_installed(program, "-v"))
            .ok_or("nginx is not installed; install it, or leave out --proxy")?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|error| format!("--proxy {port}: {error}; name a port that is free"))?;
        let folder = folder.inner("proxy")?;
        let path = folder.join("nginx.conf");
        let text = configuration(port, nodes, &folder.display().to_string());
        std::fs::write(&path, text).map_err(at(path.display()))?;
        let mut proxy = Self {
            program,
            port,
            folder,
            process: Companion::new("proxy"),
        };
        proxy.begin()?;
        Ok(proxy)
    }

    /// Starts nginx, also again after it was killed.
    ///
    /// # Errors
    /// Fails with a message for the user if nginx already runs or cannot be started.
    pub fn begin(&mut self) -> Result<(), Error> {
        let mut command = Command::new(self.program);
        command.args(["-e", "stderr", "-p"]).arg(&self.folder);
        command.arg("-c").arg(self.folder.join("nginx.conf"));
        self.process.start(&command)
    }
}

impl std::fmt::Display for Proxy {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (port, state) = (self.port, self.process.state());
        write!(out, "http://127.0.0.1:{port}  nginx, {state}")
    }
}

fn configuration(port: u16, nodes: &[u16], folder: &str) -> String {
    let servers: Vec<String> = nodes
        .iter()
        .map(|node| format!("        server 127.0.0.1:{node} max_fails=1 fail_timeout=2s;"))
        .collect();
    CONFIGURATION
        .replace("SERVERS", &servers.join("\n"))
        .replace("PORT", &port.to_string())
        .replace("FOLDER", folder)
}
