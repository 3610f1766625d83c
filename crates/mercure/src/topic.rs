//! A topic of an update, in the form that selectors compare.

use std::cell::OnceCell;

use crate::url::Url;

/// A topic and its URL. The URL is parsed once, when the first pattern needs it.
#[derive(Debug)]
pub struct Topic {
    text: Box<str>,
    url: OnceCell<Option<Box<Url>>>,
}

impl Topic {
    /// Creates a topic from its text.
    pub fn new(text: impl Into<Box<str>>) -> Topic {
        Topic {
            text: text.into(),
            url: OnceCell::new(),
        }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the topic as a URL. All callers have to pass the same base, which is that of the
    /// hub.
    pub(crate) fn url(&self, base: &Url) -> Option<&Url> {
        let read = || Url::parse(&self.text, Some(base)).map(Box::new);
        self.url.get_or_init(read).as_deref()
    }
}
