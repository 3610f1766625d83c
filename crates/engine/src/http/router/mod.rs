//! Routing: from method and path to the number of a handler or a directory of files.
//!
//! A hash map finds patterns without parameters; a trie over path segments finds the others. A
//! slash sent as `%2F` is data: it separates no segments and appears only in the value of a
//! `{name}`. So a slash has the same meaning for every component, whichever decodes the path. On
//! each segment, literal text takes precedence over `{name}`, then `{name...}`, then a directory of
//! files. A path that matches without a handler for its method continues with less specific
//! patterns. A search visits each trie node at most once, so the routes limit its cost, not the
//! path.

mod found;
mod path_hash;
mod pattern;
mod trie;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::path::Path;
use std::sync::Arc;

use fermata_proto::Span;
use fermata_proto::response::valid_name;

use crate::http::files::{self, StaticOptions};
use path_hash::PathHasher;
use pattern::{Segment, parse_pattern};
use trie::{Directory, Guarded, Hit, Node, Search, Serves, Target, Targets};

pub use found::{Found, Params};
pub use pattern::{BODY_BYTES_MAX, RouteError, SEGMENTS_MAX};

/// Flag of WebSocket routes among handler numbers, for [`Router::label`].
pub const WEBSOCKET: u32 = 1 << 31;

/// Number of a task among handler numbers, for [`Router::what_runs`].
pub const TASK: u32 = u32::MAX;

/// All routes of a server.
#[derive(Debug, Default)]
pub struct Router {
    /// Handlers of patterns without parameters, by path. They are also in the trie.
    exact: HashMap<Box<[u8]>, Targets, BuildHasherDefault<PathHasher>>,
    root: Node,
    /// Every method that has a handler, in the order of addition.
    methods: Vec<Box<str>>,
    /// Number and label (method and pattern) of every handler, for log lines.
    labels: Vec<(u32, Box<str>)>,
    /// Body rules of handlers that differ from the settings, sorted by handler.
    body_rules: Vec<(u32, BodyRule)>,
    fallback: Option<Fallback>,
    directories_len: usize,
    guarded: Vec<Guarded>,
}

/// A handler's rule for request bodies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BodyRule {
    /// Maximum size in bytes; `None` = the setting.
    pub bytes_max: Option<u64>,
    /// The handler reads bodies while they arrive.
    pub is_early: bool,
}

/// The handler of unrouted requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fallback {
    pub handler: u32,
    /// The fallback also handles `OPTIONS` and methods without a handler.
    pub takes_methods: bool,
}

impl Router {
    /// Creates a router without routes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler. `method` `None` matches every method that has no handler of its own for the
    /// pattern.
    ///
    /// A segment `{name}` matches one non-empty segment; a final `{name...}` matches the rest of
    /// the path, which may be empty. Both match the percent-decoded path; `{name...}` does not
    /// match a rest with a slash sent as `%2F`. `GET` also handles `HEAD`.
    ///
    /// # Errors
    /// [`RouteError`] if the pattern or method is malformed or exists already.
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

    /// Adds a WebSocket, which is opened by `GET` and replaces a `GET` handler of the same pattern.
    /// `number` is returned by `find`; `handler` is used in its events.
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
        // WebSocket handlers and other handlers are numbered separately.
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
        let names: found::Names = segments
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

    /// Sets the maximum body size for `handler`; overrides the settings.
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

    /// Passes requests to `handler` when their heads are complete. The handler reads the bodies
    /// while they arrive.
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

    /// Returns the number of directories.
    pub(crate) fn directories_len(&self) -> usize {
        self.directories_len
    }

    /// Returns true if a handler has a body rule.
    pub(crate) fn has_body_rules(&self) -> bool {
        !self.body_rules.is_empty()
    }

    /// Returns the body rule of a handler.
    pub(crate) fn body_rule(&self, handler: u32) -> BodyRule {
        let at = self
            .body_rules
            .binary_search_by_key(&handler, |(of, _)| *of);
        at.map_or_else(|_| BodyRule::default(), |at| self.body_rules[at].1)
    }

    /// Routes unmatched requests to `handler`: unknown paths and, if `takes_methods` is set, also
    /// wrong methods and `OPTIONS`.
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

    /// Returns method and pattern for which a handler was first added, for messages.
    pub fn label(&self, handler: u32) -> Option<&str> {
        let found = self.labels.iter().find(|(number, _)| *number == handler);
        found.map(|(_, label)| &**label)
    }

    /// Describes what a handler number runs, for the log.
    pub(crate) fn what_runs(&self, handler: u32) -> String {
        match self.label(handler) {
            _ if handler == TASK => "a task".to_owned(),
            Some(label) => format!("the handler of {label}"),
            None => "the handler of an unknown route".to_owned(),
        }
    }

    /// Serves the files of `directory` below `prefix`. Handlers take precedence over files.
    ///
    /// # Errors
    /// [`RouteError`] if the prefix is malformed or used, or `directory` is invalid.
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
            fallback: None,
        });
        self.directories_len += 1;
        Ok(())
    }

    /// Returns the node of the directory at `prefix`. Creates the node if necessary.
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

    /// Routes requests for files of the directory at `prefix` to `handler`, which may send the
    /// files.
    ///
    /// # Errors
    /// As [`Router::add_static`]; has no effect without a directory.
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

    /// Sets the handler for requests below the directory at `prefix` that are not served from a
    /// file: paths without a file, and methods other than `GET` and `HEAD`.
    ///
    /// # Errors
    /// As [`Router::add_static`]; has no effect without a directory.
    pub fn set_static_fallback(&mut self, prefix: &str, handler: u32) -> Result<(), RouteError> {
        let Some(directory) = &mut self.directory_node(prefix)?.directory else {
            return Ok(());
        };
        directory.fallback = Some(handler);
        let label = format!("paths below {prefix} without a file");
        self.labels.push((handler, label.into()));
        Ok(())
    }

    /// Returns the directory that `handler` guards, and the part of a path below it.
    pub(crate) fn guarded<'p>(
        &self,
        handler: u32,
        path: &'p [u8],
    ) -> Option<(&Arc<files::Directory>, &'p [u8])> {
        let found = self.guarded.iter().find(|it| it.handler == handler)?;
        Some((&found.files, path.get(found.prefix_len..)?))
    }

    /// Routes `method` and `path`. The path is percent-decoded; `slashes` has the offsets of
    /// slashes sent as `%2F` (`fermata_proto::percent::decode_path`). Fills `params` for a handler.
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
                fallback: directory.fallback,
            },
            Some(Hit::Fallback(handler)) => Found::Handler(handler),
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

/// Entry in a method list for a `GET` that does not handle `HEAD`. The text is not a valid token,
/// so it equals no real method.
const GET_ALONE: &str = "(GET)";

/// Returns the value of `Allow`: `methods` without duplicates, `HEAD` after `GET`, and `OPTIONS`,
/// which the server handles.
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

#[cfg(test)]
mod tests;
