//! Why a target is not asked, by whose fault.

use std::io;

use fermata_fastcgi::codec::VariablesError;
use fermata_io::process::is_short_of_descriptors;

/// Why a target is not asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// It is of no use, which counts against it.
    Target(String),
    /// It has nothing for this request; what the client is told when the others have not either.
    Request(u16, String),
    /// We cannot ask anybody now.
    Own(String),
}

impl Unopened {
    /// For the log.
    pub fn reason(&self) -> &str {
        match self {
            Unopened::Target(reason) | Unopened::Request(_, reason) | Unopened::Own(reason) => {
                reason
            }
        }
    }

    /// No connection to `place`.
    pub fn of_connect(place: &str, error: &io::Error) -> Self {
        let reason = format!("{place}: {error}");
        match is_short_of_descriptors(error) {
            true => Unopened::Own(reason),
            false => Unopened::Target(reason),
        }
    }
}

impl From<VariablesError> for Unopened {
    fn from(error: VariablesError) -> Self {
        let status = match error {
            VariablesError::Path => 400,
            VariablesError::Script => 404,
            VariablesError::Folder => 308,
        };
        Unopened::Request(status, error.to_string())
    }
}

pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_is_our_own() {
        let short = io::Error::from_raw_os_error(24);
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        for (error, is_own) in [(short, true), (reset, false)] {
            let unopened = Unopened::of_connect("a:1", &error);
            assert_eq!(matches!(unopened, Unopened::Own(_)), is_own, "{unopened:?}");
            assert!(unopened.reason().starts_with("a:1: "));
        }
    }

    #[test]
    fn a_reason_begins_as_a_sentence_does() {
        assert_eq!(capitalized("the path"), "The path");
        assert_eq!(capitalized(""), "");
    }
}
