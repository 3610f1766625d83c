//! The conversations of a worker with origins: each by its number, and by its asker.

use crate::client::source::{Asker, Owner, Source};
use crate::numbered::Numbered;
use crate::upstream::id::TalkId;
use crate::upstream::talk::{Purpose, Talk};

/// All conversations. Nothing that works on one has the others.
#[derive(Default)]
pub(crate) struct Talks(Numbered<TalkId, Box<Talk>>);

impl Talks {
    /// Adds a conversation that has begun.
    pub fn keep(&mut self, talk: Box<Talk>) {
        self.0.insert(talk.id(), talk);
    }

    /// A conversation is over.
    pub fn end(&mut self, id: TalkId) -> Option<Box<Talk>> {
        self.0.remove(&id)
    }

    pub fn get_mut(&mut self, id: TalkId) -> Option<&mut Talk> {
        self.0.get_mut(&id).map(|it| &mut **it)
    }

    /// The conversations for which `is_it` holds, in the order in which they began.
    pub fn find(&self, is_it: impl Fn(&Talk) -> bool) -> Vec<TalkId> {
        let talks = self.0.values();
        let mut found: Vec<TalkId> = talks.filter(|it| is_it(it)).map(|it| it.id()).collect();
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

/// The conversation of each asker.
#[derive(Default)]
pub(crate) struct Askers {
    talks: Numbered<Asker, TalkId>,
    last: u64,
}

impl Askers {
    /// A new conversation, for which nobody waits until it is [set](Self::set).
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

    /// The number that the next conversation gets.
    pub fn next_id(&self) -> TalkId {
        TalkId::of(self.last + 1)
    }

    /// The conversation of an asker.
    pub fn of(&self, asker: Asker) -> Option<TalkId> {
        self.talks.get(&asker).copied()
    }

    /// This conversation is its asker's from now on.
    pub fn set(&mut self, asker: Asker, id: TalkId) {
        self.talks.insert(asker, id);
    }

    /// The asker no longer asks, whatever becomes of the conversation.
    pub fn forget(&mut self, asker: Asker) -> Option<TalkId> {
        self.talks.remove(&asker)
    }

    /// The same if it was this one.
    pub fn forget_of(&mut self, asker: Asker, id: TalkId) {
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
