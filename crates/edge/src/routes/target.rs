//! A backend and its properties.

use std::io;

use fermata_engine::is_program;

use super::Cause;
use super::lex::Section;
use super::rule::wrong;
use super::target_options::WEIGHT_MAX;

/// Checks that a file of a property can be read.
pub(super) type CheckFile<'a> = dyn FnMut(&str) -> io::Result<()> + 'a;

/// Address and protocol of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// HTTP or WebSocket over TCP.
    Host {
        /// A name or an address, without brackets.
        host: String,
        /// Its port.
        port: u16,
    },
    /// HTTP or WebSocket over a Unix socket.
    Unix(String),
    /// FastCGI over TCP.
    FastCgiHost {
        /// A name or an address, without brackets.
        host: String,
        /// Its port.
        port: u16,
    },
    /// FastCGI over a Unix socket.
    FastCgiUnix(String),
    /// Files below this folder.
    Files(String),
    /// ZHTTP over ZeroMQ, streaming.
    Zhttp(String),
    /// ZHTTP over ZeroMQ, one request and one response.
    ZhttpReq(String),
    /// The built-in test origin.
    Test,
}

/// One backend of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name in the file.
    pub name: String,
    /// Address and protocol.
    pub origin: Origin,
    /// Uses TLS.
    pub is_tls: bool,
    /// May have an internal address.
    pub is_trusted: bool,
    /// Check the certificate for the host name of the connection instead of the request's host.
    pub trust_connect_host: bool,
    /// Do not check the certificate.
    pub insecure: bool,
    /// `Host` field of requests to this target.
    pub host: Option<String>,
    /// Uses HTTP/2: with TLS if negotiated by ALPN, without TLS always.
    pub http2: bool,
    /// Channels to which every client held by this target's instructions is subscribed, without the route's prefix.
    pub subscriptions: Vec<String>,
    /// The target uses WebSocket-over-HTTP.
    pub over_http: bool,
    /// Send one event per request.
    pub one_event: bool,
    /// File mode of the target's Unix socket.
    pub ipc_file_mode: Option<u32>,
    /// File with trusted authorities, instead of the setting's.
    pub ca: Option<String>,
    /// File with the client certificate.
    pub client_cert: Option<String>,
    /// File with the key of that; by default the file of the certificate.
    pub client_key: Option<String>,
    /// FastCGI: the document root on the application's machine.
    pub root: Option<String>,
    /// FastCGI: the script for all requests, such as `/index.php`; by default the path names the script.
    pub script: Option<String>,
    /// FastCGI: `script` serves paths that are neither a script below `root` nor a folder with an index.
    pub is_front: bool,
    /// Files and FastCGI: folders below the root that are not served.
    pub denied: Vec<String>,
    /// Files: the index file of a folder. Empty means none.
    pub index: Option<String>,
    /// Files: links may lead out of the folder.
    pub follows_links: bool,
    /// Files: `max-age` in seconds.
    pub cache_s: Option<u32>,
    /// Weight in load balancing.
    pub weight: u32,
    /// Use the target only if no other target is up.
    pub is_reserve: bool,
}

impl Target {
    /// Parses a target. Appends the names of unknown properties to `unknown`. `check` checks that a file can be read.
    pub(super) fn read(
        section: &Section,
        unknown: &mut Vec<String>,
        check: &mut CheckFile<'_>,
    ) -> Result<Self, Cause> {
        let mut target = Self::new(section.value.clone(), origin(&section.value)?);
        if let Origin::Files(folder) = &target.origin {
            readable("file", folder.clone(), check)?;
        }
        for (name, value) in &section.props {
            if !target.set(name, value.clone().unwrap_or_default(), check)? {
                unknown.push(name.clone());
            }
        }
        target.check_together()?;
        Ok(target)
    }

    /// Creates a target without properties.
    fn new(name: String, origin: Origin) -> Self {
        Self {
            name,
            origin,
            is_tls: false,
            is_trusted: true,
            trust_connect_host: false,
            insecure: false,
            host: None,
            http2: false,
            subscriptions: Vec::new(),
            over_http: false,
            one_event: false,
            ipc_file_mode: None,
            ca: None,
            client_cert: None,
            client_key: None,
            root: None,
            script: None,
            is_front: false,
            denied: Vec::new(),
            index: None,
            follows_links: false,
            cache_s: None,
            weight: 1,
            is_reserve: false,
        }
    }

    /// Sets a property. Returns false if the name is unknown.
    fn set(&mut self, name: &str, text: String, check: &mut CheckFile<'_>) -> Result<bool, Cause> {
        if let Some(fix) = self.fix(name, &text) {
            return Err(wrong(name, &text, fix));
        }
        match name {
            "ssl" => self.is_tls = true,
            "untrusted" => self.is_trusted = false,
            "trust_connect_host" => self.trust_connect_host = true,
            "insecure" => self.insecure = true,
            "host" => self.host = Some(text),
            "http2" => self.http2 = true,
            "sub" => self.subscriptions.push(text),
            "over_http" => self.over_http = true,
            "one_event" => self.one_event = true,
            "ipc_file_mode" => match u32::from_str_radix(&text, 8) {
                Ok(mode @ 0..=0o777) => self.ipc_file_mode = Some(mode),
                _ => return Err(wrong(name, &text, "give an octal mode, such as 660")),
            },
            "ca" => self.ca = Some(readable("ca", text, check)?),
            "client_cert" => self.client_cert = Some(readable("client_cert", text, check)?),
            "client_key" => self.client_key = Some(readable("client_key", text, check)?),
            "root" => self.root = Some(text),
            "script" => self.script = Some(text),
            "front" => self.is_front = true,
            "deny" => self.denied.push(text),
            "index" => self.index = Some(text),
            "links" => self.follows_links = true,
            "cache" => match text.parse() {
                Ok(seconds) => self.cache_s = Some(seconds),
                Err(_) => return Err(wrong(name, &text, "give seconds")),
            },
            "weight" => match text.parse() {
                Ok(weight @ 1..=WEIGHT_MAX) => self.weight = weight,
                _ => return Err(wrong(name, &text, "give a number from 1 to 1000")),
            },
            "reserve" => self.is_reserve = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the accepted values if a text is invalid for a property.
    fn fix(&self, name: &str, text: &str) -> Option<&'static str> {
        let is_path = text.starts_with('/');
        Some(match name {
            "host" if text.is_empty() => "give a host",
            "sub" if text.is_empty() => "give a channel",
            "http2" if !self.supports_http() => {
                "give it to a target of HTTP: HOST:PORT or unix/PATH"
            }
            "root" if !is_path => "give a directory, such as /var/www/html",
            "script" if !is_path => "give a path below the root, such as /index.php",
            "deny" if !is_path || text.trim_matches('/').is_empty() => {
                "give a folder below the root, such as /data"
            }
            "index" if text.contains('/') => "give the name of a file, or nothing for none",
            "index" if is_program(text.as_bytes()) => {
                "a program is not served as it is; give a page, and the program by a target behind this one, such as fastcgi/PATH,root=FOLDER,script=/index.php"
            }
            _ => return None,
        })
    }

    /// Checks properties that depend on each other.
    fn check_together(&self) -> Result<(), Cause> {
        if self.is_front && self.script.is_none() {
            return Err(wrong(
                "front",
                "",
                "give the program that answers what is no file, too: script=/index.php",
            ));
        }
        if let (Some(key), None) = (&self.client_key, &self.client_cert) {
            return Err(wrong(
                "client_key",
                key,
                "give the certificate that it is the key of, too: client_cert=FILE",
            ));
        }
        Ok(())
    }

    /// Returns true if the target is reached over HTTP.
    fn supports_http(&self) -> bool {
        matches!(self.origin, Origin::Host { .. } | Origin::Unix(_))
    }

    /// Returns true for ZHTTP targets, whose number is limited.
    pub(super) fn is_zhttp(&self) -> bool {
        matches!(self.origin, Origin::Zhttp(_) | Origin::ZhttpReq(_))
    }
}

fn origin(text: &str) -> Result<Origin, Cause> {
    let wrong = || Cause::Target(text.to_owned());
    let some = |rest: &str| {
        (!rest.is_empty())
            .then(|| rest.to_owned())
            .ok_or_else(wrong)
    };
    if text == "test" {
        return Ok(Origin::Test);
    }
    if let Some(path) = text.strip_prefix("unix/") {
        return Ok(Origin::Unix(some(path)?));
    }
    if let Some(path) = text.strip_prefix("file/") {
        // Accept only absolute paths: a relative path would depend on the directory in which the edge is started.
        let is_absolute = path.starts_with('/');
        return if is_absolute {
            Ok(Origin::Files(path.to_owned()))
        } else {
            Err(wrong())
        };
    }
    if let Some(rest) = text.strip_prefix("fastcgi/") {
        // A path starts with a slash; an address does not.
        return if rest.starts_with('/') {
            Ok(Origin::FastCgiUnix(rest.to_owned()))
        } else {
            let (host, port) = address(rest).ok_or_else(wrong)?;
            Ok(Origin::FastCgiHost { host, port })
        };
    }
    if let Some(spec) = text.strip_prefix("zhttpreq/") {
        return Ok(Origin::ZhttpReq(some(spec)?));
    }
    if let Some(spec) = text.strip_prefix("zhttp/") {
        return Ok(Origin::Zhttp(some(spec)?));
    }
    let (host, port) = address(text).ok_or_else(wrong)?;
    Ok(Origin::Host { host, port })
}

fn address(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|&port: &u16| port > 0)?;
    let host = match host.strip_prefix('[') {
        Some(host) => {
            let host = host.strip_suffix(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            host
        }
        None => host,
    };
    let is_name =
        |char: char| !char.is_whitespace() && !char.is_control() && !"/[]*".contains(char);
    // A remaining colon belongs to an IPv6 address, which needs brackets.
    let is_bare = !text.starts_with('[') && host.contains(':');
    (!host.is_empty() && !is_bare && host.chars().all(is_name)).then(|| (host.to_owned(), port))
}

/// Returns the path if the file can be read.
fn readable(name: &'static str, path: String, check: &mut CheckFile<'_>) -> Result<String, Cause> {
    match check(&path) {
        Ok(()) => Ok(path),
        Err(error) => Err(Cause::File {
            name,
            error: error.to_string(),
        }),
    }
}
