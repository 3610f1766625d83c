//! Settings of a PHP-FPM server: its socket, its paths, and its limits.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use fermata_engine::Server;
use fermata_engine::files::StaticOptions;
use fermata_engine::router::RouteError;

use crate::HANDLERS;

/// Maximum number of connections of one worker.
const CONNECTIONS_MAX: u32 = 1_024;
/// Maximum number of waiting requests in one worker.
const QUEUE_MAX: u32 = 65_536;

/// A PHP-FPM server and the paths that it serves.
#[derive(Clone, Debug)]
pub struct Site {
    /// Prefix of paths that is not below the root: empty, or `/old`.
    pub prefix: String,
    /// Path of a Unix socket, or `HOST:PORT`.
    pub socket: String,
    /// The folder of the scripts, as on PHP-FPM's machine.
    pub root: String,
    /// The script for requests whose path names no script, such as `/index.php`; `None` = the path has to name a script.
    pub index: Option<String>,
    /// The root is on this machine: the server sends its files, and searches its scripts.
    pub has_files: bool,
    /// Forward the body while it arrives.
    pub streams_body: bool,
    /// Maximum size of a body in bytes; `None` = the limit of the setting.
    pub body_bytes_max: Option<u64>,
    /// Maximum number of a worker's connections to this PHP-FPM server.
    pub connections_max: u32,
    /// Maximum number of a worker's requests that wait for a connection.
    pub queue_max: u32,
    /// Timeout in milliseconds for PHP-FPM without progress, and for a request that waits for a connection.
    pub timeout_ms: u64,
    /// Time in milliseconds for which an idle connection stays open for another request. 0 means the connection is closed.
    pub keep_ms: u64,
}

/// Reason why a site is refused; each message has the argument and a fix.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The prefix is invalid.
    #[error(
        "prefix is \"{0}\": give / for everything, or a path such as /old without a slash at its end"
    )]
    Prefix(String),
    /// The socket is invalid.
    #[error(
        "socket is \"{0}\": that is no address; give the path of a Unix socket, such as /run/php/php-fpm.sock, or HOST:PORT"
    )]
    Socket(String),
    /// The socket's host cannot be resolved.
    #[error("socket is \"{0}\": the host is not found ({1}); give an address, or check the name")]
    Host(String, String),
    /// The root is invalid.
    #[error(
        "root is \"{0}\": give the absolute path of the folder with the scripts on PHP-FPM's machine"
    )]
    Root(String),
    /// The front controller is invalid.
    #[error(
        "index is \"{0}\": give a script below the root, such as index.php, or null if paths name scripts"
    )]
    Index(String),
    /// The front controller's file does not exist.
    #[error(
        "index is \"{0}\", and {1}{0} is not a file; give an existing script, or files: false if PHP-FPM is on another machine"
    )]
    NoIndex(String, String),
    /// A number is out of range.
    #[error("{name} is {given}: give 1 to {max}")]
    Number {
        /// The argument.
        name: &'static str,
        /// The given value.
        given: u64,
        /// The maximum.
        max: u64,
    },
    /// A path is already in use.
    #[error(transparent)]
    Route(#[from] RouteError),
}

/// Address to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// Adds a site to a server that is not running yet. [`FastCgi`](crate::FastCgi), created from `sites`, handles its
/// requests.
///
/// # Errors
/// [`SiteError`].
pub fn add(sites: &mut Vec<Site>, server: &mut Server, mut site: Site) -> Result<(), SiteError> {
    if site.prefix == "/" {
        site.prefix.clear();
    }
    while site.root.len() > 1 && site.root.ends_with('/') {
        site.root.pop();
    }
    site.check()?;
    let handler = HANDLERS + sites.len() as u32;
    let prefix = &site.prefix;
    if site.has_files {
        let options = StaticOptions {
            cache_seconds: None,
            immutable: false,
            // The page of a folder is produced by its script.
            index: String::new(),
            precompressed: true,
            compress: true,
            sources: false,
            links: false,
        };
        let prefix = if prefix.is_empty() { "/" } else { prefix };
        server.files(prefix, &site.root, options)?;
        server.files_fallback(prefix, handler)?;
    } else {
        if !prefix.is_empty() {
            server.route(None, prefix, handler)?;
        }
        server.route(None, &format!("{prefix}/{{path...}}"), handler)?;
    }
    server.begin_early(handler);
    if let Some(bytes_max) = site.body_bytes_max {
        server.limit_body(handler, bytes_max)?;
    }
    sites.push(site);
    Ok(())
}

impl Site {
    fn check(&mut self) -> Result<(), SiteError> {
        let is_plain = |text: &str| {
            !text
                .chars()
                .any(|it| it.is_control() || "{}?#%\\".contains(it))
        };
        let is_below = |path: &str| {
            let mut segments = path.split('/').skip(1);
            path.starts_with('/') && segments.all(|it| !it.is_empty() && it != "." && it != "..")
        };
        let is_prefix = self.prefix.is_empty() || is_below(&self.prefix) && is_plain(&self.prefix);
        if !is_prefix {
            return Err(SiteError::Prefix(self.prefix.clone()));
        }
        if !self.root.starts_with('/') || self.root.contains('\0') {
            return Err(SiteError::Root(self.root.clone()));
        }
        if let Some(index) = &mut self.index {
            if !index.starts_with('/') {
                index.insert(0, '/');
            }
            if !is_below(index) || !is_plain(index) {
                return Err(SiteError::Index(index.clone()));
            }
            if self.has_files && !PathBuf::from(format!("{}{index}", self.root)).is_file() {
                return Err(SiteError::NoIndex(index.clone(), self.root.clone()));
            }
        }
        let bounds = [
            (
                "connections",
                u64::from(self.connections_max),
                CONNECTIONS_MAX.into(),
            ),
            ("queue", u64::from(self.queue_max), QUEUE_MAX.into()),
        ];
        for (name, given, max) in bounds {
            if given == 0 || given > max {
                return Err(SiteError::Number { name, given, max });
            }
        }
        self.place().map(|_| ())
    }

    pub(crate) fn place(&self) -> Result<Place, SiteError> {
        let socket = &self.socket;
        let path = socket.strip_prefix("unix:").unwrap_or(socket);
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.starts_with('/') && !path.contains('\0') {
            return Ok(Place::Unix(path.into()));
        }
        let port = socket
            .rsplit_once(':')
            .map(|(host, port)| (host, port.parse::<u16>()));
        let Some((host, Ok(1..))) = port else {
            return Err(SiteError::Socket(socket.clone()));
        };
        if host.is_empty() || host.contains([' ', '/']) {
            return Err(SiteError::Socket(socket.clone()));
        }
        let unknown = |cause: &str| SiteError::Host(socket.clone(), cause.to_owned());
        let mut found = socket
            .to_socket_addrs()
            .map_err(|error| unknown(&error.to_string()))?;
        found
            .next()
            .map(Place::Tcp)
            .ok_or_else(|| unknown("it has no address"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        Site {
            prefix: "/".into(),
            socket: "/run/fpm.sock".into(),
            root: "/srv/www/".into(),
            index: Some("index.php".into()),
            has_files: false,
            streams_body: false,
            body_bytes_max: None,
            connections_max: 16,
            queue_max: 256,
            timeout_ms: 1_000,
            keep_ms: 0,
        }
    }

    #[test]
    fn site_registers_its_paths() {
        let (mut sites, mut server) = (Vec::new(), Server::new());
        add(&mut sites, &mut server, site()).expect("everything");
        let old = Site {
            prefix: "/old".into(),
            ..site()
        };
        add(&mut sites, &mut server, old.clone()).expect("below it");
        assert_eq!((&*sites[0].prefix, &*sites[0].root), ("", "/srv/www"));
        assert_eq!(sites[1].index.as_deref(), Some("/index.php"));
        let taken = add(&mut sites, &mut server, old);
        assert!(matches!(taken, Err(SiteError::Route(_))), "{taken:?}");
    }

    #[test]
    fn errors_have_the_invalid_argument() {
        for (name, change) in [
            ("prefix", (|it| it.prefix = "old".into()) as fn(&mut Site)),
            ("prefix", |it| it.prefix = "/old/".into()),
            ("prefix", |it| it.prefix = "/{id}".into()),
            ("socket", |it| it.socket = "php-fpm".into()),
            ("socket", |it| it.socket = "127.0.0.1:0".into()),
            ("socket", |it| it.socket = "127.0.0.1:99999".into()),
            ("root", |it| it.root = "www".into()),
            ("index", |it| it.index = Some("../a.php".into())),
            ("index", |it| it.index = Some(String::new())),
            ("index", |it| it.has_files = true),
            ("connections", |it| it.connections_max = 0),
            ("queue", |it| it.queue_max = 65_537),
        ] {
            let mut site = site();
            change(&mut site);
            let error = add(&mut Vec::new(), &mut Server::new(), site).expect_err(name);
            assert!(error.to_string().starts_with(name), "{error}");
        }
    }

    #[test]
    fn sockets_are_paths_or_addresses() {
        for (socket, place) in [
            ("/a", Place::Unix("/a".into())),
            ("unix:/a", Place::Unix("/a".into())),
            ("unix:///a", Place::Unix("/a".into())),
            ("127.0.0.1:9000", Place::Tcp(([127, 0, 0, 1], 9000).into())),
        ] {
            let site = Site {
                socket: socket.into(),
                ..site()
            };
            assert_eq!(site.place().expect("it is one"), place);
        }
    }
}
