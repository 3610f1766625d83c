//! A trie of patterns by segment, and its search.

use std::sync::Arc;

use fermata_proto::Span;

use super::found::{Found, Names};
use crate::http::files;

/// The patterns that share the segments up to this node.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Literal segments, sorted.
    pub children: Vec<(Box<[u8]>, Node)>,
    /// `{name}`
    pub parameter: Option<Box<Node>>,
    /// Patterns that end here.
    pub here: Targets,
    /// Patterns that continue with `{name...}`.
    pub rest: Targets,
    /// A directory whose prefix ends here.
    pub directory: Option<Directory>,
}

#[derive(Debug)]
pub(super) struct Directory {
    pub files: Arc<files::Directory>,
    pub prefix_len: usize,
    /// Guard of the files.
    pub handler: Option<u32>,
    /// Fallback for paths without a file, and for methods other than GET and HEAD.
    pub fallback: Option<u32>,
}

/// A directory with a guarding handler.
#[derive(Debug)]
pub(super) struct Guarded {
    pub handler: u32,
    pub files: Arc<files::Directory>,
    pub prefix_len: usize,
}

/// The handlers of one pattern, by method.
#[derive(Clone, Debug, Default)]
pub(super) struct Targets {
    pub methods: Vec<(Box<str>, Target)>,
    pub any: Option<Target>,
}

#[derive(Clone, Debug)]
pub(super) struct Target {
    pub serves: Serves,
    pub names: Names,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Serves {
    Handler(u32),
    WebSocket(u16),
}

pub(super) enum Hit<'r> {
    Target(&'r Target),
    Directory(&'r Directory),
    /// The fallback of a directory, for a request that no file can answer.
    Fallback(u32),
}

/// The state of a search.
pub(super) struct Search<'r, 's> {
    pub method: &'s [u8],
    pub path: &'s [u8],
    /// Offsets of slashes that were sent as `%2F`.
    pub slashes: &'s [u32],
    pub spans: &'s mut Vec<Span>,
    /// Patterns that match the path but not the method.
    pub missed: Vec<&'r Targets>,
    pub missed_directory: bool,
}

impl<'r> Search<'r, '_> {
    /// Matches the path below `node` from `at`, the start of a segment; `None` = after the last
    /// segment.
    pub fn walk(&mut self, node: &'r Node, at: Option<usize>) -> Option<Hit<'r>> {
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
            return self.fallback(node);
        }
        if let Some(hit) = self.pick(&node.rest) {
            self.spans.push(Span::new(start, path.len()));
            return Some(hit);
        }
        self.directory(node)
    }

    /// Returns the slash that ends the segment starting at `start`.
    #[inline]
    fn segment_end(&self, start: usize) -> Option<usize> {
        let mut slashes = memchr::memchr_iter(b'/', &self.path[start..]).map(|at| start + at);
        // Both lists are sorted, so one pass suffices.
        let from = self
            .slashes
            .partition_point(|data| (*data as usize) < start);
        let mut data = self.slashes[from..].iter();
        slashes.find(|at| data.next().is_none_or(|data| *data as usize != *at))
    }

    /// Returns true if a slash at or after `start` is data.
    #[inline]
    fn is_escaped_from(&self, start: usize) -> bool {
        let last = self.slashes.last();
        last.is_some_and(|last| *last as usize >= start)
    }

    pub fn pick(&mut self, targets: &'r Targets) -> Option<Hit<'r>> {
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
            // A directory has no parameters, even below a `{name}` segment.
            self.spans.clear();
            return Some(Hit::Directory(directory));
        }
        if directory.fallback.is_some() {
            return self.fallback(node);
        }
        self.missed_directory = true;
        None
    }

    fn fallback(&mut self, node: &'r Node) -> Option<Hit<'r>> {
        let handler = node.directory.as_ref()?.fallback?;
        self.spans.clear();
        Some(Hit::Fallback(handler))
    }
}

impl Node {
    /// Returns the child for a literal segment, creating it if necessary.
    pub fn child(&mut self, text: &str) -> &mut Node {
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
    pub fn found<'a>(self) -> Found<'a> {
        match self {
            Self::Handler(handler) => Found::Handler(handler),
            Self::WebSocket(number) => Found::WebSocket(number),
        }
    }
}

impl Targets {
    /// Adds a target. Returns false if the method already has one.
    pub fn add(&mut self, method: Option<&str>, target: Target) -> bool {
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
    pub fn pick(&self, method: &[u8]) -> Option<&Target> {
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
