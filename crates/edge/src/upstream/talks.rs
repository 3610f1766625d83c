//! Exchanges of a worker with origins, by id and by the part of the edge that started them.

use crate::client::source::{Asker, Owner, Source};
use crate::numbered::Numbered;
use crate::upstream::id::UpstreamExchangeId;
use crate::upstream::talk::{Purpose, Talk};

/// All exchanges. Code that works on one exchange has no access to the others.
#[derive(Default)]
pub(crate) struct Talks(Numbered<UpstreamExchangeId, Box<Talk>>);

impl Talks {
    /// Adds an exchange.
    pub fn keep(&mut self, talk: Box<Talk>) {
        self.0.insert(talk.id(), talk);
    }

    /// Removes an exchange that is complete.
    pub fn end(&mut self, id: UpstreamExchangeId) -> Option<Box<Talk>> {
        self.0.remove(&id)
    }

    pub fn get(&self, id: UpstreamExchangeId) -> Option<&Talk> {
        self.0.get(&id).map(|it| &**it)
    }

    pub fn get_mut(&mut self, id: UpstreamExchangeId) -> Option<&mut Talk> {
        self.0.get_mut(&id).map(|it| &mut **it)
    }

    /// Returns the exchanges for which `is_it` returns true, oldest first.
    pub fn find(&self, is_it: impl Fn(&Talk) -> bool) -> Vec<UpstreamExchangeId> {
        let talks = self.0.values();
        let mut found: Vec<UpstreamExchangeId> =
            talks.filter(|it| is_it(it)).map(|it| it.id()).collect();
        found.sort_unstable();
        found
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Exchange of each asker.
#[derive(Default)]
pub(crate) struct Askers {
    talks: Numbered<Asker, UpstreamExchangeId>,
    last: u64,
}

impl Askers {
    /// Creates an exchange. It is assigned to no key until [`Self::set`].
    pub fn begin(
        &mut self,
        owner: Owner,
        source: Source,
        last_ids: Vec<(Vec<u8>, Vec<u8>)>,
        purpose: Purpose,
    ) -> Box<Talk> {
        let id = self.next_id();
        self.last += 1;
        Talk::new(id, owner, source, last_ids, purpose)
    }

    /// Returns the id of the next exchange.
    pub fn next_id(&self) -> UpstreamExchangeId {
        UpstreamExchangeId::of(self.last + 1)
    }

    /// Returns the exchange of an asker.
    pub fn of(&self, asker: Asker) -> Option<UpstreamExchangeId> {
        self.talks.get(&asker).copied()
    }

    /// Assigns an exchange to a key.
    pub fn set(&mut self, asker: Asker, id: UpstreamExchangeId) {
        self.talks.insert(asker, id);
    }

    /// Removes a key. Its exchange continues.
    pub fn forget(&mut self, asker: Asker) -> Option<UpstreamExchangeId> {
        self.talks.remove(&asker)
    }

    /// Like [`Self::forget`], but does so only if the key belongs to this exchange.
    pub fn forget_of(&mut self, asker: Asker, id: UpstreamExchangeId) {
        if self.of(asker) == Some(id) {
            self.talks.remove(&asker);
        }
    }

    pub fn len(&self) -> usize {
        self.talks.len()
    }
}

#[cfg(test)]
mod tests {
    use fermata_engine::RequestId;

    use super::*;

    #[test]
    fn the_next_conversation_of_a_request_outlives_the_one_before() {
        let handle = RequestId::from_raw(7).expect("it is not zero");
        let asker = Asker::Client(handle);
        let (mut talks, mut askers) = (Talks::default(), Askers::default());
        let mut begin = |askers: &mut Askers| {
            let owner = Owner::Client(handle);
            let talk = askers.begin(owner, Source::of_get("/"), Vec::new(), Purpose::Plain);
            let id = talk.id();
            askers.set(asker, id);
            talks.keep(talk);
            id
        };
        let next = askers.next_id();
        let first = begin(&mut askers);
        assert_eq!(first, next);
        let second = begin(&mut askers);
        assert_eq!(talks.find(|_| true), [first, second]);
        assert!(talks.end(first).is_some() && talks.end(first).is_none());
        askers.forget_of(asker, first);
        assert_eq!((askers.of(asker), talks.len()), (Some(second), 1));
        askers.forget_of(asker, second);
        assert_eq!((askers.of(asker), askers.len()), (None, 0));
        assert!(talks.get_mut(second).is_some());
    }
}
