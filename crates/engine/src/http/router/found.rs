//! What is found for a request.

use std::sync::Arc;

use fermata_proto::Span;

use crate::http::files;

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
        /// The handler of paths that have no file; see [`Router::set_static_fallback`].
        fallback: Option<u32>,
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
    pub(super) names: Option<Names>,
    pub(super) spans: Vec<Span>,
    /// Text of the `Allow` header, written when it is needed.
    pub(super) allow: String,
}

/// Parameter names of a pattern, in its order.
pub(super) type Names = Arc<[Box<str>]>;

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

    pub(super) fn set_names(&mut self, names: &Names) {
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
