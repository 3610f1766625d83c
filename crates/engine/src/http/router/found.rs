//! Results of routing.

use std::sync::Arc;

use fermata_proto::Span;

use crate::http::files;

/// Result of routing a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// The handler with this number; its parameters are in `Params`.
    Handler(u32),
    /// The WebSocket route with this number; its parameters are in `Params`. Also matched by HEAD.
    WebSocket(u16),
    /// A static file, for GET and HEAD; see `crate::files`.
    Files {
        /// The directory.
        directory: &'a Arc<files::Directory>,
        /// The part of the path after the prefix: empty or starting with a slash.
        rest: Span,
        /// The handler that guards the files; see [`Router::guard`].
        handler: Option<u32>,
        /// The handler of paths without a file; see [`Router::set_static_fallback`].
        fallback: Option<u32>,
    },
    /// The path exists, but not with this method.
    MethodNotAllowed {
        /// Value of the `Allow` header.
        allow: &'a str,
    },
    /// `OPTIONS` of a path without an `OPTIONS` handler, or `OPTIONS *`.
    Options {
        /// Value of the `Allow` header.
        allow: &'a str,
    },
    /// No route matches the path.
    NotFound,
}

/// Parameters of a match. Reused by all requests, so it allocates only while it grows.
#[derive(Clone, Debug, Default)]
pub struct Params {
    pub(super) names: Option<Names>,
    pub(super) spans: Vec<Span>,
    /// Text of the `Allow` header, built on demand.
    pub(super) allow: String,
}

/// Parameter names of a pattern, in order.
pub(super) type Names = Arc<[Box<str>]>;

impl Params {
    /// Returns the span of the path that the parameter `name` matched. `None` if the pattern has no
    /// such name.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<Span> {
        let names = self.names.as_deref()?;
        let index = names.iter().position(|is| is.as_bytes() == name)?;
        self.spans.get(index).copied()
    }

    /// Returns name and span of the parameter at `index`, in the order of the pattern.
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

    /// Returns true if the pattern has no parameters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(super) fn set_names(&mut self, names: &Names) {
        // Usually the route equals the previous request's, which costs no reference count.
        if !self
            .names
            .as_ref()
            .is_some_and(|old| Arc::ptr_eq(old, names))
        {
            self.names = Some(Arc::clone(names));
        }
    }
}
