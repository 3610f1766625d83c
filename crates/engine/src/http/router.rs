//! From method and path to the number of a handler or a directory of files.
//!
//! Patterns without parameters are found through a hash map; the others in a trie over path segments. On each
//! Slashes that came as `%2F` are data: they separate nothing, stand in the value of a `{name}`, and are matched by
//! nothing else, so what a client means by one never depends on who decodes it. On each
//! segment literal text beats `{name}`, which beats `{name...}`, which beats a directory of files. A path that is
//! found but not for the method goes on to less specific patterns. A search visits each trie node at most once,
//! so its cost is bounded by the routes and not by the path.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;
use std::sync::Arc;

use fermata_proto::Span;
use fermata_proto::response::valid_name;

use crate::http::files::{self, StaticOptions};

/// Marks numbers of WebSocket routes among those of handlers, for [`Router::label`].
pub const WEBSOCKET: u32 = 1 << 31;

/// Stands for a task among numbers of handlers, for [`Router::what_runs`].
pub const TASK: u32 = u32::MAX;

/// Most segments of a pattern; bounds the depth of a search.
pub const SEGMENTS_MAX: usize = 64;

/// Most bytes that a route may let bodies have: a terabyte.
pub const BODY_BYTES_MAX: u64 = 1 << 40;

/// A route that cannot be added: a mistake in the program.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Patterns are compared with paths, which always start with a slash.
    #[error(
        "the path {0:?} does not start with /; write it as it stands in the URL after the host"
    )]
    NoSlash(String),
    /// Query and fragment are no part of the path.
    #[error(
        "the path {0:?} holds ? or #; routes match the path only, read the query from the request"
    )]
    NotPath(String),
    /// Braces stand for a whole segment.
    #[error(
        "the path {0:?} has a malformed parameter; a segment is either text, {{name}} or {{name...}}"
    )]
    Braces(String),
    /// A name must be usable as an identifier.
    #[error(
        "the parameter name {0:?} is malformed; use letters, digits and _, starting with no digit"
    )]
    ParameterName(String),
    /// A second parameter of this name would hide the first.
    #[error("the parameter {0:?} stands twice in one path; give each its own name")]
    ParameterTwice(String),
    /// `{name...}` takes all that follows.
    #[error("the path {0:?} goes on after {{name...}}; such a parameter must be the last segment")]
    RestNotLast(String),
    /// More than [`SEGMENTS_MAX`].
    #[error("the path {0:?} has more than {SEGMENTS_MAX} segments; shorten it")]
    TooDeep(String),
    /// Not a token (RFC 9110, 9.1).
    #[error("the method {0:?} is malformed; methods are words such as GET")]
    Method(String),
    /// More than [`BODY_BYTES_MAX`].
    #[error("a body of {0} bytes is over {BODY_BYTES_MAX}; give a smaller limit")]
    BodyBytes(u64),
    /// There is such a route already; parameter names make no difference.
    #[error("there already is a handler for {method} {pattern}; remove one of the two")]
    Duplicate {
        /// The method, or `any method`.
        method: String,
        /// The pattern that was to be added.
        pattern: String,
    },
    /// An option of a WebSocket that cannot work.
    #[error("the WebSocket at {pattern}: {cause}")]
    WebSocket {
        /// Its path.
        pattern: String,
        /// What is wrong and what to write instead.
        cause: String,
    },
    /// There is already a directory at this prefix.
    #[error("there already is a directory at {0:?}; remove one of the two")]
    DuplicateDirectory(String),
    /// Parameters make no sense in the prefix of a directory.
    #[error("the prefix {0:?} of a directory has parameters; use literal text")]
    PrefixParameter(String),
    /// The directory cannot be read.
    #[error(
        "the directory {path} cannot be served: {reason}; check the path, its permissions and the options"
    )]
    Directory {
        /// As it was given.
        path: String,
        /// What the system said.
        reason: String,
    },
}

/// What is there for a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// The handler with this number; its parameters are in `Params`.
    Handler(u32),
    /// A WebSocket: the number it was added with; its parameters are in `Params`. HEAD finds it as well.
    WebSocket(u16),
    /// A file of a directory, for GET and HEAD; see `crate::files`.
    Files {
        /// The directory.
        directory: &'a Arc<files::Directory>,
        /// The part of the path behind the prefix: empty or from a slash on.
        rest: Span,
        /// The handler in front of the files; see [`Router::guard`].
        handler: Option<u32>,
    },
    /// The path is known, but not with this method.
    MethodNotAllowed {
        /// Value of the `Allow` header.
        allow: &'a str,
    },
    /// `OPTIONS` of a known path without its own handler, or `OPTIONS *`.
    Options {
        /// Value of the `Allow` header.
        allow: &'a str,
    },
    /// Nothing knows the path.
    NotFound,
}

/// The parameters of one match. Reused from request to request, so it allocates only while it grows.
#[derive(Clone, Debug, Default)]
pub struct Params {
    names: Option<Names>,
    spans: Vec<Span>,
    /// Text of the `Allow` header, written when it is needed.
    allow: String,
}

/// Parameter names of a pattern, in its order.
type Names = Arc<[Box<str>]>;

impl Params {
    /// Where in the path the parameter `name` matched. `None` when the pattern has no such name.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<Span> {
        let names = self.names.as_deref()?;
        let index = names.iter().position(|is| is.as_bytes() == name)?;
        self.spans.get(index).copied()
    }

    /// Name and place of the parameter at `index`, in the order of the pattern.
    #[must_use]
    pub fn at(&self, index: usize) -> Option<(&str, Span)> {
        let span = *self.spans.get(index)?;
        let name = self.names.as_deref()?.get(index)?;
        Some((name, span))
    }

    /// Number of parameters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether the pattern has no parameters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    fn set_names(&mut self, names: &Names) {
        // The same route as last time is the usual case and costs no reference count.
        if !self
            .names
            .as_ref()
            .is_some_and(|old| Arc::ptr_eq(old, names))
        {
            self.names = Some(Arc::clone(names));
        }
    }
}

/// All routes of a server.
#[derive(Debug, Default)]
pub struct Router {
    /// Handlers of patterns without parameters, by path. The same are in the trie.
    exact: HashMap<Box<[u8]>, Targets, BuildHasherDefault<PathHasher>>,
    root: Node,
    /// Every method that has a handler, in the order they were added.
    methods: Vec<Box<str>>,
    /// Number, method and pattern of every handler, for log lines.
    labels: Vec<(u32, Box<str>)>,
    /// How handlers want their bodies, where that is not as the settings say. Sorted by handler.
    body_rules: Vec<(u32, BodyRule)>,
    fallback: Option<Fallback>,
    directories_len: usize,
    guarded: Vec<Guarded>,
}

/// How a handler wants its bodies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BodyRule {
    /// Bytes that they may have, where that is not the setting.
    pub bytes_max: Option<u64>,
    /// It reads them while they arrive.
    pub is_early: bool,
}

/// The handler of requests that no route serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fallback {
    pub handler: u32,
    /// Whether it also answers `OPTIONS` and wrong methods.
    pub takes_methods: bool,
}

/// What is known about a path up to some segment.
#[derive(Debug, Default)]
struct Node {
    /// Literal segments, sorted.
    children: Vec<(Box<[u8]>, Node)>,
    /// `{name}`
    parameter: Option<Box<Node>>,
    /// Patterns that end here.
    here: Targets,
    /// Patterns that go on with `{name...}`.
    rest: Targets,
    /// A directory whose prefix ends here.
    directory: Option<Directory>,
}

#[derive(Debug)]
struct Directory {
    files: Arc<files::Directory>,
    prefix_len: usize,
    handler: Option<u32>,
}

/// A directory with a handler in front.
#[derive(Debug)]
struct Guarded {
    handler: u32,
    files: Arc<files::Directory>,
    prefix_len: usize,
}

/// The handlers of one pattern, by method.
#[derive(Clone, Debug, Default)]
struct Targets {
    methods: Vec<(Box<str>, Target)>,
    any: Option<Target>,
}

#[derive(Clone, Debug)]
struct Target {
    serves: Serves,
    names: Names,
}

#[derive(Clone, Copy, Debug)]
enum Serves {
    Handler(u32),
    WebSocket(u16),
}

enum Hit<'r> {
    Target(&'r Target),
    Directory(&'r Directory),
}

/// What a search carries along.
struct Search<'r, 's> {
    method: &'s [u8],
    path: &'s [u8],
    /// Where slashes stand in it that came as `%2F`.
    slashes: &'s [u32],
    spans: &'s mut Vec<Span>,
    /// Patterns that match the path but not the method.
    missed: Vec<&'r Targets>,
    missed_directory: bool,
}

impl Router {
    /// A router that knows nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler. `method` `None` takes every method that has no handler of its own for the pattern.
    ///
    /// A segment `{name}` matches one segment that is not empty, a last segment `{name...}` the rest of the path,
    /// which may be empty. Both match in the percent-decoded path; `{name...}` matches no path whose rest has a slash
    /// that came as `%2F`. `GET` also answers `HEAD`.
    ///
    /// # Errors
    /// [`RouteError`] when the pattern or method is malformed or is there already.
    pub fn add(
        &mut self,
        method: Option<&str>,
        pattern: &str,
        handler: u32,
    ) -> Result<(), RouteError> {
        self.add_target(method, pattern, Serves::Handler(handler))?;
        let label = format!("{} {pattern}", method.unwrap_or("any method"));
        self.labels.push((handler, label.into()));
        Ok(())
    }

    /// Adds a WebSocket, which is opened by `GET`: it takes the place of a handler for that. `number` is what is found,
    /// `handler` what its events name.
    ///
    /// # Errors
    /// As [`Router::add`].
    pub fn add_websocket(
        &mut self,
        pattern: &str,
        number: u16,
        handler: u32,
    ) -> Result<(), RouteError> {
        self.add_target(Some("GET"), pattern, Serves::WebSocket(number))?;
        let label = format!("WebSocket {pattern}");
        // The program numbers its WebSockets apart from its other handlers.
        self.labels.push((handler | WEBSOCKET, label.into()));
        Ok(())
    }

    fn add_target(
        &mut self,
        method: Option<&str>,
        pattern: &str,
        serves: Serves,
    ) -> Result<(), RouteError> {
        if let Some(method) = method.filter(|method| !valid_name(method.as_bytes())) {
            return Err(RouteError::Method(method.to_owned()));
        }
        let segments = parse_pattern(pattern)?;
        let names: Names = segments
            .iter()
            .filter_map(Segment::name)
            .map(Box::from)
            .collect();
        let is_exact = names.is_empty();
        let mut node = &mut self.root;
        let mut is_rest = false;
        for segment in segments {
            match segment {
                Segment::Literal(text) => node = node.child(text),
                Segment::Parameter(_) => node = node.parameter.get_or_insert_default(),
                Segment::Rest(_) => is_rest = true,
            }
        }
        let targets = if is_rest {
            &mut node.rest
        } else {
            &mut node.here
        };
        if !targets.add(method, Target { serves, names }) {
            return Err(RouteError::Duplicate {
                method: method.unwrap_or("any method").to_owned(),
                pattern: pattern.to_owned(),
            });
        }
        if is_exact {
            self.exact
                .insert(pattern.as_bytes().into(), targets.clone());
        }
        if let Some(method) = method
            && !self.methods.iter().any(|known| **known == *method)
        {
            self.methods.push(method.into());
        }
        Ok(())
    }

    /// Lets bodies for `handler` have so many bytes, whatever the settings say.
    ///
    /// # Errors
    /// [`RouteError::BodyBytes`] over [`BODY_BYTES_MAX`].
    pub fn limit_body(&mut self, handler: u32, bytes_max: u64) -> Result<(), RouteError> {
        if bytes_max > BODY_BYTES_MAX {
            return Err(RouteError::BodyBytes(bytes_max));
        }
        self.rule_of(handler).bytes_max = Some(bytes_max);
        Ok(())
    }

    /// Hands requests to `handler` when their heads are complete; it reads their bodies while they arrive.
    pub fn begin_early(&mut self, handler: u32) {
        self.rule_of(handler).is_early = true;
    }

    fn rule_of(&mut self, handler: u32) -> &mut BodyRule {
        let at = self.body_rules.partition_point(|(of, _)| *of < handler);
        if self.body_rules.get(at).is_none_or(|(of, _)| *of != handler) {
            self.body_rules.insert(at, (handler, BodyRule::default()));
        }
        &mut self.body_rules[at].1
    }

    /// How many directories there are.
    pub(crate) fn directories_len(&self) -> usize {
        self.directories_len
    }

    /// Whether any handler wants its bodies in a way of its own.
    pub(crate) fn has_body_rules(&self) -> bool {
        !self.body_rules.is_empty()
    }

    /// How a handler wants its bodies.
    pub(crate) fn body_rule(&self, handler: u32) -> BodyRule {
        let at = self
            .body_rules
            .binary_search_by_key(&handler, |(of, _)| *of);
        at.map_or_else(|_| BodyRule::default(), |at| self.body_rules[at].1)
    }

    /// Sends requests that no route serves to `handler`: unknown paths, and if `takes_methods` also wrong methods and
    /// `OPTIONS`.
    pub fn set_fallback(&mut self, handler: u32, takes_methods: bool) {
        self.fallback = Some(Fallback {
            handler,
            takes_methods,
        });
        self.labels.push((handler, "no route".into()));
    }

    #[inline]
    pub(crate) fn fallback(&self) -> Option<Fallback> {
        self.fallback
    }

    /// Method and pattern that a handler was first added for, as people write them.
    pub fn label(&self, handler: u32) -> Option<&str> {
        let found = self.labels.iter().find(|(number, _)| *number == handler);
        found.map(|(_, label)| &**label)
    }

    /// What a number of a handler stands for, as the log names it.
    pub(crate) fn what_runs(&self, handler: u32) -> String {
        match self.label(handler) {
            _ if handler == TASK => "a task".to_owned(),
            Some(label) => format!("the handler of {label}"),
            None => "the handler of an unknown route".to_owned(),
        }
    }

    /// Serves the files of `directory` below `prefix`. Handlers beat files.
    ///
    /// # Errors
    /// [`RouteError`] when the prefix is malformed or taken, or `directory` is none.
    pub fn add_static(
        &mut self,
        prefix: &str,
        directory: &Path,
        options: StaticOptions,
    ) -> Result<(), RouteError> {
        let files = files::Directory::new(directory, options, self.directories_len);
        let files = files.map_err(|reason| RouteError::Directory {
            path: directory.display().to_string(),
            reason,
        })?;
        let prefix_len = prefix.trim_end_matches('/').len();
        let node = self.directory_node(prefix)?;
        if node.directory.is_some() {
            return Err(RouteError::DuplicateDirectory(prefix.to_owned()));
        }
        node.directory = Some(Directory {
            files: Arc::new(files),
            prefix_len,
            handler: None,
        });
        self.directories_len += 1;
        Ok(())
    }

    /// Where the directory at `prefix` is or belongs.
    fn directory_node(&mut self, prefix: &str) -> Result<&mut Node, RouteError> {
        let trimmed = prefix.trim_end_matches('/');
        let mut node = &mut self.root;
        for segment in parse_pattern(if trimmed.is_empty() { "/" } else { trimmed })? {
            match segment {
                Segment::Literal(_) if trimmed.is_empty() => {}
                Segment::Literal(text) => node = node.child(text),
                _ => return Err(RouteError::PrefixParameter(prefix.to_owned())),
            }
        }
        if !prefix.starts_with('/') {
            return Err(RouteError::NoSlash(prefix.to_owned()));
        }
        Ok(node)
    }

    /// Sends requests for files of the directory at `prefix` to `handler`, which may answer with them.
    ///
    /// # Errors
    /// As [`Router::add_static`]; nothing happens where there is no directory.
    pub fn guard(&mut self, prefix: &str, handler: u32) -> Result<(), RouteError> {
        let Some(directory) = &mut self.directory_node(prefix)?.directory else {
            return Ok(());
        };
        directory.handler = Some(handler);
        let (files, prefix_len) = (Arc::clone(&directory.files), directory.prefix_len);
        self.guarded.push(Guarded {
            handler,
            files,
            prefix_len,
        });
        let label = format!("the files at {prefix}");
        self.labels.push((handler, label.into()));
        Ok(())
    }

    /// The directory that `handler` stands in front of, and what of a path is below it.
    pub(crate) fn guarded<'p>(
        &self,
        handler: u32,
        path: &'p [u8],
    ) -> Option<(&Arc<files::Directory>, &'p [u8])> {
        let found = self.guarded.iter().find(|it| it.handler == handler)?;
        Some((&found.files, path.get(found.prefix_len..)?))
    }

    /// Finds what answers `method` on `path`, which is percent-decoded; `slashes` tells which of its slashes came as
    /// `%2F` (`fermata_proto::percent::decode_path`). Fills `params` for a handler.
    #[inline]
    pub fn find<'a>(
        &'a self,
        method: &[u8],
        path: &[u8],
        slashes: &[u32],
        params: &'a mut Params,
    ) -> Found<'a> {
        params.spans.clear();
        if slashes.is_empty()
            && let Some(target) = self
                .exact
                .get(path)
                .and_then(|targets| targets.pick(method))
        {
            return target.serves.found();
        }
        self.find_in_trie(method, path, slashes, params)
    }

    fn find_in_trie<'a>(
        &'a self,
        method: &[u8],
        path: &[u8],
        slashes: &[u32],
        params: &'a mut Params,
    ) -> Found<'a> {
        if path == b"*" {
            let methods = self.methods.iter().map(|method| &**method);
            params.allow = allow_text(methods.chain(["GET"]));
            return Found::Options {
                allow: &params.allow,
            };
        }
        if path.first() != Some(&b'/') {
            return Found::NotFound;
        }
        let mut search = Search {
            method,
            path,
            slashes,
            spans: &mut params.spans,
            missed: Vec::new(),
            missed_directory: false,
        };
        match search.walk(&self.root, Some(1)) {
            Some(Hit::Target(target)) => {
                params.set_names(&target.names);
                target.serves.found()
            }
            Some(Hit::Directory(directory)) => Found::Files {
                directory: &directory.files,
                rest: Span::new(directory.prefix_len, path.len()),
                handler: directory.handler,
            },
            None if search.missed.is_empty() && !search.missed_directory => Found::NotFound,
            None => {
                let of_routes = search.missed.iter().flat_map(|targets| &targets.methods);
                let of_routes = of_routes.map(|(method, target)| match target.serves {
                    Serves::Handler(_) => &**method,
                    Serves::WebSocket(_) => GET_ALONE,
                });
                let of_files = search.missed_directory.then_some("GET");
                params.allow = allow_text(of_routes.chain(of_files));
                if method == b"OPTIONS" {
                    Found::Options {
                        allow: &params.allow,
                    }
                } else {
                    Found::MethodNotAllowed {
                        allow: &params.allow,
                    }
                }
            }
        }
    }
}

impl<'r> Search<'r, '_> {
    /// Matches the path from `at`, the start of a segment or `None` after the last one, below `node`.
    fn walk(&mut self, node: &'r Node, at: Option<usize>) -> Option<Hit<'r>> {
        let Some(start) = at else {
            return self.pick(&node.here).or_else(|| self.directory(node));
        };
        let path = self.path;
        let end = self.segment_end(start);
        let next = end.map(|end| end + 1);
        let end = end.unwrap_or(path.len());
        let segment = &path[start..end];
        if let Ok(index) = node
            .children
            .binary_search_by(|(text, _)| (**text).cmp(segment))
            && let Some(hit) = self.walk(&node.children[index].1, next)
        {
            return Some(hit);
        }
        if let Some(child) = &node.parameter
            && !segment.is_empty()
        {
            self.spans.push(Span::new(start, end));
            if let Some(hit) = self.walk(child, next) {
                return Some(hit);
            }
            self.spans.pop();
        }
        if self.is_escaped_from(start) {
            return None;
        }
        if let Some(hit) = self.pick(&node.rest) {
            self.spans.push(Span::new(start, path.len()));
            return Some(hit);
        }
        self.directory(node)
    }

    /// The slash that ends the segment from `start`.
    #[inline]
    fn segment_end(&self, start: usize) -> Option<usize> {
        let mut slashes = memchr::memchr_iter(b'/', &self.path[start..]).map(|at| start + at);
        // Those that are data lie in their order, so each is passed over once.
        let from = self
            .slashes
            .partition_point(|data| (*data as usize) < start);
        let mut data = self.slashes[from..].iter();
        slashes.find(|at| data.next().is_none_or(|data| *data as usize != *at))
    }

    /// Whether a slash from `start` on is data.
    #[inline]
    fn is_escaped_from(&self, start: usize) -> bool {
        let last = self.slashes.last();
        last.is_some_and(|last| *last as usize >= start)
    }

    fn pick(&mut self, targets: &'r Targets) -> Option<Hit<'r>> {
        if let Some(target) = targets.pick(self.method) {
            return Some(Hit::Target(target));
        }
        if !targets.methods.is_empty() {
            self.missed.push(targets);
        }
        None
    }

    fn directory(&mut self, node: &'r Node) -> Option<Hit<'r>> {
        let directory = node.directory.as_ref()?;
        if matches!(self.method, b"GET" | b"HEAD") {
            // What an enclosing `{name}` has matched is no parameter of a directory.
            self.spans.clear();
            return Some(Hit::Directory(directory));
        }
        self.missed_directory = true;
        None
    }
}

impl Node {
    /// The child for a literal segment, made when it is missing.
    fn child(&mut self, text: &str) -> &mut Node {
        let text = text.as_bytes();
        let index = match self.children.binary_search_by(|(is, _)| (**is).cmp(text)) {
            Ok(index) => index,
            Err(index) => {
                self.children.insert(index, (text.into(), Node::default()));
                index
            }
        };
        &mut self.children[index].1
    }
}

impl Serves {
    #[inline]
    fn found<'a>(self) -> Found<'a> {
        match self {
            Self::Handler(handler) => Found::Handler(handler),
            Self::WebSocket(number) => Found::WebSocket(number),
        }
    }
}

impl Targets {
    /// False when there is one for this method already.
    fn add(&mut self, method: Option<&str>, target: Target) -> bool {
        match method {
            None if self.any.is_some() => false,
            None => {
                self.any = Some(target);
                true
            }
            Some(method) if self.methods.iter().any(|(is, _)| **is == *method) => false,
            Some(method) => {
                self.methods.push((method.into(), target));
                true
            }
        }
    }

    #[inline]
    fn pick(&self, method: &[u8]) -> Option<&Target> {
        let of = |method: &[u8]| {
            self.methods
                .iter()
                .find(|(is, _)| is.as_bytes() == method)
                .map(|(_, target)| target)
        };
        of(method)
            .or_else(|| if method == b"HEAD" { of(b"GET") } else { None })
            .or(self.any.as_ref())
    }
}

/// Stands in a list of methods for a `GET` that does not answer `HEAD`. Not a token, so no method.
const GET_ALONE: &str = "(GET)";

/// `methods` once each, `HEAD` after `GET`, and `OPTIONS`, which the server answers by itself.
fn allow_text<'m>(methods: impl Iterator<Item = &'m str>) -> String {
    let mut list: Vec<&str> = Vec::new();
    for method in methods {
        let implied = match method {
            "GET" => &["GET", "HEAD"][..],
            GET_ALONE => &["GET"],
            _ => &[method],
        };
        for &method in implied {
            if !list.contains(&method) {
                list.push(method);
            }
        }
    }
    if !list.contains(&"OPTIONS") {
        list.push("OPTIONS");
    }
    list.join(", ")
}

enum Segment<'p> {
    Literal(&'p str),
    Parameter(&'p str),
    Rest(&'p str),
}

impl<'p> Segment<'p> {
    fn name(&self) -> Option<&'p str> {
        match self {
            Self::Literal(_) => None,
            Self::Parameter(name) | Self::Rest(name) => Some(name),
        }
    }
}

fn parse_pattern(pattern: &str) -> Result<Vec<Segment<'_>>, RouteError> {
    let Some(inside) = pattern.strip_prefix('/') else {
        return Err(RouteError::NoSlash(pattern.to_owned()));
    };
    if pattern.contains(['?', '#', '\0']) {
        return Err(RouteError::NotPath(pattern.to_owned()));
    }
    let mut segments = Vec::new();
    for text in inside.split('/') {
        if matches!(segments.last(), Some(Segment::Rest(_))) {
            return Err(RouteError::RestNotLast(pattern.to_owned()));
        }
        if segments.len() == SEGMENTS_MAX {
            return Err(RouteError::TooDeep(pattern.to_owned()));
        }
        let segment = match text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'))
        {
            Some(name) => match name.strip_suffix("...") {
                Some(name) => Segment::Rest(name),
                None => Segment::Parameter(name),
            },
            None if text.contains(['{', '}']) => {
                return Err(RouteError::Braces(pattern.to_owned()));
            }
            None => Segment::Literal(text),
        };
        if let Some(name) = segment.name() {
            let is_identifier = name
                .bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
                && name
                    .bytes()
                    .next()
                    .is_some_and(|byte| !byte.is_ascii_digit());
            if !is_identifier {
                return Err(RouteError::ParameterName(name.to_owned()));
            }
            if segments
                .iter()
                .any(|earlier: &Segment<'_>| earlier.name() == Some(name))
            {
                return Err(RouteError::ParameterTwice(name.to_owned()));
            }
        }
        segments.push(segment);
    }
    Ok(segments)
}

/// A fast hash for short paths.
///
/// Its keys are the program's own patterns, so a client cannot fill a bucket; a secret key would buy nothing.
#[derive(Default)]
struct PathHasher(u64);

impl PathHasher {
    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for PathHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.add(
                word.iter()
                    .rev()
                    .fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
            );
        }
        self.add(
            words
                .remainder()
                .iter()
                .fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
        );
    }

    #[inline]
    fn write_usize(&mut self, len: usize) {
        self.add(len as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        // The map takes its bucket from the low bits, where a product is weakest.
        self.0 ^ (self.0 >> 29)
    }
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
