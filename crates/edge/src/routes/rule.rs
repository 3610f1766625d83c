//! A condition and its properties.

use std::borrow::Cow;

use super::Cause;
use super::lex::Section;
use super::path::{has_dot_segment, normalised};
use super::target::Target;
use super::target_options::TargetOptions;

/// Protocol of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proto {
    /// HTTP requests.
    Http,
    /// WebSockets.
    Ws,
}

/// Hosts of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Every host without a separate rule.
    Any,
    /// This host name, in lower case.
    Host(String),
    /// No host: requests select the rule by its id.
    Unnamed,
}

/// Content of a JSON-P response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JsonpMode {
    /// The body.
    Basic,
    /// Status, headers and body.
    #[default]
    Extended,
}

/// JSON-P options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jsonp {
    /// Content of a response.
    pub mode: JsonpMode,
    /// Query parameter with the callback's name.
    pub callback_param: String,
    /// Query parameter whose value becomes the request's body.
    pub body_param: Option<String>,
    /// Callback of requests that have only a body parameter.
    pub default_callback: Option<String>,
    /// Method that is used if the query contains no method. See [`Self::default_method`].
    pub default_method: Option<String>,
}

impl Jsonp {
    /// Returns the method for a query without one. For basic JSON-P the default is POST, as for a form.
    pub fn default_method(&self) -> &str {
        self.default_method.as_deref().unwrap_or(match self.mode {
            JsonpMode::Basic => "POST",
            JsonpMode::Extended => "GET",
        })
    }

    /// Sets a property. Returns false if it is not a JSON-P property.
    fn read(&mut self, name: &str, text: String) -> Result<bool, Cause> {
        let wrong = |fix| Err(wrong(name, &text, fix));
        match name {
            "jsonp_mode" => match text.as_str() {
                "basic" => self.mode = JsonpMode::Basic,
                "extended" => self.mode = JsonpMode::Extended,
                _ => return wrong("give basic or extended"),
            },
            "jsonp_cb" if text.is_empty() => return wrong("give the name of a query parameter"),
            "jsonp_cb" => self.callback_param = text,
            "jsonp_body" => self.body_param = Some(text),
            "jsonp_defcb" => self.default_callback = Some(text),
            "jsonp_defmethod" => self.default_method = Some(text),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A rule: one line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Number of its line, from 1.
    pub line: usize,
    /// Hosts.
    pub domain: Domain,
    /// Restricts the rule to this protocol.
    pub proto: Option<Proto>,
    /// Restricts the rule to clients with or without TLS.
    pub is_tls: Option<bool>,
    /// Restricts the rule to paths with this prefix; normalised.
    pub path_beg: String,
    /// Id in logs, metrics and requests.
    pub id: Option<String>,
    /// Issuer of the tokens with which requests of this rule are signed.
    pub sig_iss: Option<String>,
    /// Key that signs the tokens of `sig_iss`, in any format of `sig::Key`.
    pub sig_key: Option<String>,
    /// Prefix of every channel that the backend names.
    pub prefix: String,
    /// Forwards marked copies of the client's own fields.
    pub orig_headers: bool,
    /// `Host` field of requests to the backend.
    pub as_host: Option<String>,
    /// Number of bytes removed from the start of the path.
    pub path_rem: usize,
    /// Replacement of `path_beg`.
    pub replace_beg: Option<String>,
    /// Responses contain the reason of a failure.
    pub debug: bool,
    /// Enables CORS fields on all responses, and JSON-P.
    pub auto_cross_origin: bool,
    /// JSON-P.
    pub jsonp: Jsonp,
    /// Searches requests for session ids.
    pub session: bool,
    /// Path prefix of SockJS.
    pub sockjs: Option<String>,
    /// Path of SockJS sessions in requests to the backend.
    pub sockjs_as_path: Option<String>,
    /// Fields set for the backend, or removed if the value is empty.
    pub headers: Vec<(String, String)>,
    /// GRIP instructions in the backend's responses are not followed.
    pub no_grip: bool,
    /// Level of the rule's log lines.
    pub log_level: Option<u8>,
    /// Balancing and health options of the targets.
    pub target_options: TargetOptions,
    /// Targets of requests.
    pub targets: Vec<Target>,
}

impl Rule {
    /// Returns true if a target uses WebSocket-over-HTTP.
    pub fn is_over_http(&self) -> bool {
        self.targets.iter().any(|target| target.over_http)
    }

    /// Parses a condition. Appends the names of unknown properties to `unknown`.
    pub(super) fn read(
        line: usize,
        section: &Section,
        unknown: &mut Vec<String>,
    ) -> Result<Self, Cause> {
        let mut rule = Self::empty(line);
        for (name, value) in &section.props {
            if !rule.set(name, value.clone().unwrap_or_default())? {
                unknown.push(name.clone());
            }
        }
        rule.domain = match section.value.as_str() {
            "" if rule.id.is_some() => Domain::Unnamed,
            "" => return Err(Cause::Domain),
            "*" => Domain::Any,
            host if is_host(host) => {
                let host = host.strip_suffix('.').unwrap_or(host);
                Domain::Host(host.to_ascii_lowercase())
            }
            host => return Err(Cause::Host(host.to_owned())),
        };
        if rule.replace_beg.is_some() {
            rule.path_rem = rule.path_beg.len();
        }
        Ok(rule)
    }

    /// Sets a property. Returns false if the name is unknown.
    fn set(&mut self, name: &str, text: String) -> Result<bool, Cause> {
        let wrong = |fix| Err(wrong(name, &text, fix));
        match name {
            "proto" => match text.as_str() {
                "http" => self.proto = Some(Proto::Http),
                "ws" => self.proto = Some(Proto::Ws),
                _ => return wrong("give http or ws"),
            },
            "ssl" => match text.as_str() {
                "yes" => self.is_tls = Some(true),
                "no" => self.is_tls = Some(false),
                _ => return wrong("give yes or no"),
            },
            "path_beg" if text.is_empty() => {
                return wrong("give the beginning of a path, such as /api");
            }
            "path_beg" => {
                let normal = normalised(text.as_bytes()).into_owned();
                self.path_beg = String::from_utf8(normal).unwrap_or(text);
            }
            "id" if text.is_empty() => return wrong("give a name"),
            "id" => self.id = Some(text),
            "sig_iss" => self.sig_iss = Some(text),
            "sig_key" => self.sig_key = Some(text),
            "prefix" => self.prefix = text,
            "orig_headers" => self.orig_headers = true,
            "as_host" if text.is_empty() => return wrong("give a host"),
            "as_host" => self.as_host = Some(text),
            "path_rem" => match text.parse() {
                Ok(bytes) => self.path_rem = bytes,
                Err(_) => return wrong("give a number of bytes"),
            },
            "replace_beg" => self.replace_beg = Some(text),
            "debug" => self.debug = true,
            "aco" => self.auto_cross_origin = true,
            "session" => self.session = true,
            "sockjs" => self.sockjs = Some(text),
            "sockjs_as_path" => self.sockjs_as_path = Some(text),
            "header" => match text.split_once(':') {
                Some((name, value)) if is_header(name, value) => {
                    self.headers
                        .push((name.to_owned(), value.trim_start().to_owned()));
                }
                _ => return wrong("give NAME:VALUE, or NAME: to remove it"),
            },
            "no_grip" => self.no_grip = true,
            "log_level" => match text.parse() {
                Ok(level @ 0..=4) => self.log_level = Some(level),
                _ => return wrong("give 0 to 4"),
            },
            name => {
                return Ok(self.target_options.read(name, &text)? || self.jsonp.read(name, text)?);
            }
        }
        Ok(true)
    }

    fn empty(line: usize) -> Self {
        Self {
            line,
            domain: Domain::Any,
            proto: None,
            is_tls: None,
            path_beg: String::new(),
            id: None,
            sig_iss: None,
            sig_key: None,
            prefix: String::new(),
            orig_headers: false,
            as_host: None,
            path_rem: 0,
            replace_beg: None,
            debug: false,
            auto_cross_origin: false,
            jsonp: Jsonp {
                mode: JsonpMode::Extended,
                callback_param: "callback".to_owned(),
                body_param: None,
                default_callback: None,
                default_method: None,
            },
            session: false,
            sockjs: None,
            sockjs_as_path: None,
            headers: Vec::new(),
            no_grip: false,
            log_level: None,
            target_options: TargetOptions::default(),
            targets: Vec::new(),
        }
    }

    /// Returns path and query for the backend. The path always starts with a slash.
    ///
    /// A path with dot segments, or spelled unlike `path_beg`, is normalised before its prefix is removed: otherwise
    /// `/api/../api/x` could become a path above `replace_beg`.
    pub fn backend_path<'a>(&self, target: &'a [u8]) -> Cow<'a, [u8]> {
        if self.path_rem == 0 && self.replace_beg.is_none() {
            return self.cut(target);
        }
        let end = target.iter().position(|&byte| byte == b'?');
        let (path, query) = target.split_at(end.unwrap_or(target.len()));
        if path.starts_with(self.path_beg.as_bytes()) && !has_dot_segment(path) {
            return self.cut(target);
        }
        let target = [&normalised(path)[..], query].concat();
        self.cut(&target).into_owned().into()
    }

    fn cut<'a>(&self, path: &'a [u8]) -> Cow<'a, [u8]> {
        let rest = path.get(self.path_rem..).unwrap_or_default();
        let start = self.replace_beg.as_deref().unwrap_or_default().as_bytes();
        match start.first().or(rest.first()) {
            Some(b'/') if start.is_empty() => Cow::Borrowed(rest),
            Some(b'/') => [start, rest].concat().into(),
            _ => [b"/", start, rest].concat().into(),
        }
    }

    /// Returns the id, or a label made of its conditions.
    pub fn label(&self) -> String {
        if let Some(id) = &self.id {
            return id.clone();
        }
        let domain = match &self.domain {
            Domain::Host(host) => host.as_str(),
            Domain::Any | Domain::Unnamed => "*",
        };
        let proto = match self.proto {
            Some(Proto::Http) => "http",
            Some(Proto::Ws) => "ws",
            None => "*",
        };
        let tls = match self.is_tls {
            Some(true) => "yes",
            Some(false) => "no",
            None => "*",
        };
        let path = if self.path_beg.is_empty() {
            "*"
        } else {
            &self.path_beg
        };
        format!("{domain},{proto},{tls},{path}")
    }
}

pub(super) fn wrong(name: &str, value: &str, fix: &'static str) -> Cause {
    Cause::Value {
        name: name.to_owned(),
        value: value.to_owned(),
        fix,
    }
}

/// Returns true for a host name or a bracketed IPv6 address without a port.
fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').unwrap_or_default();
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    !host.contains(|char: char| {
        matches!(char, ':' | '/' | '*' | '[' | ']') || char.is_whitespace() || char.is_control()
    })
}

/// Returns true for a valid field.
fn is_header(name: &str, value: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty()
        && name.bytes().all(is_token)
        && !value
            .bytes()
            .any(|byte| (byte < b' ' && byte != b'\t') || byte == 0x7f)
}
