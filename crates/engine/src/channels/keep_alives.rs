//! Keep-alive payloads of an embedder: one shared copy of each.

use std::collections::HashSet;
use std::rc::Rc;

/// Number of payloads from which unused payloads are removed.
const KEPT_MIN: usize = 1024;

#[derive(Default)]
pub(crate) struct KeepAlives {
    known: HashSet<Rc<[u8]>>,
    kept: usize,
}

impl KeepAlives {
    /// Returns the shared copy of `data`.
    pub fn intern(&mut self, data: &[u8]) -> Rc<[u8]> {
        if let Some(known) = self.known.get(data) {
            return Rc::clone(known);
        }
        if self.known.len() >= self.kept.max(KEPT_MIN) {
            self.known.retain(|it| Rc::strong_count(it) > 1);
            self.kept = 2 * self.known.len();
        }
        let data: Rc<[u8]> = Rc::from(data);
        self.known.insert(Rc::clone(&data));
        data
    }
}
