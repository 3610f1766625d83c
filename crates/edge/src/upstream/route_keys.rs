//! Keys of the routes' `sig_key` option.
//!
//! They are read at the start, before workers change to a user that may lack permission to read the files. If a key cannot be read
//! again later, the previous one stays in use and the error is logged.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fermata_grip::sig;
use fermata_grip::sig::{FileError, Key, KeyError};

use crate::routes::Routes;

/// Maximum number of cached keys of previous routes, which clients held by those routes still need. Keys of the current routes do
/// not count.
const OLD_KEYS_MAX: usize = 1_000;

/// Cached keys, by their text in the routes (a key, or the name of a file).
#[derive(Clone)]
pub(crate) struct RouteKeys {
    directory: PathBuf,
    known: HashMap<String, Rc<Key>>,
    /// Keys read since the routes were last reloaded; other keys are read again at their next use.
    fresh: HashSet<String>,
    /// The last error, until it was returned.
    problem: Option<String>,
}

impl RouteKeys {
    /// Reads the keys of the routes. Also returns the errors of keys that cannot be read.
    pub fn read(routes: &Routes, directory: PathBuf) -> (Self, Vec<String>) {
        let mut keys = Self {
            directory,
            known: HashMap::new(),
            fresh: HashSet::new(),
            problem: None,
        };
        let mut problems = Vec::new();
        for rule in routes.rules() {
            if let Some(text) = &rule.sig_key {
                keys.get(text);
                let problem = keys.problem.take();
                problems.extend(problem.map(|it| format!("route {}: {it}", rule.label())));
            }
        }
        (keys, problems)
    }

    /// Returns a key. If it returns `None`, [`take_problem`](Self::take_problem) returns the error once.
    pub fn get(&mut self, text: &str) -> Option<Rc<Key>> {
        if !self.fresh.contains(text) {
            match read_key(text, &self.directory) {
                Ok(key) => {
                    self.known.insert(text.to_owned(), Rc::new(key));
                }
                Err(error) => {
                    let then = if self.known.contains_key(text) {
                        "the key of before is used"
                    } else {
                        "its requests have no Grip-Sig"
                    };
                    self.problem = Some(format!("sig_key: {error}; {then}"));
                }
            }
            self.fresh.insert(text.to_owned());
        }
        self.known.get(text).map(Rc::clone)
    }

    /// Returns the last error. Returns it only once.
    pub fn take_problem(&mut self) -> Option<String> {
        self.problem.take()
    }

    /// Drops keys of previous routes beyond the limit.
    pub fn keep(&mut self, routes: &Routes) {
        let named = routes
            .rules()
            .iter()
            .filter_map(|rule| rule.sig_key.as_ref());
        let named: HashSet<&String> = named.collect();
        if self.known.len().max(self.fresh.len()) > named.len() + OLD_KEYS_MAX {
            self.known.retain(|text, _| named.contains(text));
            self.fresh.retain(|text| named.contains(text));
        }
    }

    /// Reads every key again at its next use.
    pub fn forget(&mut self) {
        self.fresh.clear();
    }
}

/// Reads a key. File names are relative to `directory`.
pub(crate) fn read_key(text: &str, directory: &Path) -> Result<sig::Key, KeyError> {
    let read = |path: &str| {
        let path = directory.join(path);
        std::fs::read(&path).map_err(|error| FileError::new(&path, &error))
    };
    sig::Key::parse(text, read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_the_routes_are_remembered_and_few_of_others() {
        let folder = std::env::temp_dir().join(format!("fermata-many-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let count = 2 * OLD_KEYS_MAX;
        std::fs::write(folder.join("key"), "616263").expect("a file");
        // Different spellings of the same path, not longer than the maximum length of a path.
        let spelt = |at: usize| -> String {
            let bits = (0..usize::BITS - count.leading_zeros()).map(|bit| at >> bit & 1);
            bits.map(|bit| if bit == 0 { "./" } else { ".//" })
                .collect()
        };
        let lines: Vec<String> = (0..count)
            .map(|at| format!("h{at},sig_key=file:{}key b:1", spelt(at)))
            .collect();
        let (routes, _) = Routes::read(&lines.join("\n"), |_| Ok(()));
        let (mut keys, problems) = RouteKeys::read(&routes, folder.clone());
        assert!(problems.is_empty(), "{problems:?}");
        // From now on, the files cannot be read. The same happens in workers that have changed their user.
        std::fs::remove_dir_all(&folder).expect("it is there");
        for rule in routes.rules() {
            let text = rule.sig_key.as_ref().expect("a key");
            assert!(keys.get(text).is_some(), "{text}");
        }
        let (few, _) = Routes::read(&lines[0], |_| Ok(()));
        keys.keep(&few);
        assert_eq!(keys.known.len(), 1);
        keys.keep(&routes);
        assert_eq!(keys.known.len(), 1);
    }

    #[test]
    fn keeps_an_unreadable_key_and_reports_it_once() {
        let folder = std::env::temp_dir().join(format!("fermata-keys-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("key");
        std::fs::write(&file, "616263").expect("a file");
        let line = "a,sig_key=file:key b:1\nb,sig_key=file:none b:1";
        let (routes, _) = Routes::read(line, |_| Ok(()));
        let (mut keys, problems) = RouteKeys::read(&routes, folder.clone());
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("route b") && problems[0].contains("sig_key: "));
        std::fs::remove_file(&file).expect("it is there");
        keys.forget();
        assert!(keys.get("file:key").is_some());
        assert!(
            keys.take_problem()
                .is_some_and(|it| it.contains("of before"))
        );
        assert!(keys.get("file:key").is_some() && keys.take_problem().is_none());
        assert!(keys.get("file:none").is_none());
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}
