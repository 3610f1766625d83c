//! A topic of an update, as it is compared with selectors.

use std::cell::OnceCell;

use crate::url::Url;

/// A topic, and the URL that it is: read when the first pattern asks, and not again for the others.
#[derive(Debug)]
pub struct Topic {
    text: Box<str>,
    url: OnceCell<Option<Box<Url>>>,
}

impl Topic {
    /// Of its text.
    pub fn new(text: impl Into<Box<str>>) -> Topic {
        Topic {
            text: text.into(),
            url: OnceCell::new(),
        }
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The URL that it is. All that ask have the same base, which is the hub's.
    pub(crate) fn url(&self, base: &Url) -> Option<&Url> {
        let read = || Url::parse(&self.text, Some(base)).map(Box::new);
        self.url.get_or_init(read).as_deref()
    }
}
