//! The conversations of a worker with origins: each by its number, and by its asker.

use crate::client::source::{Asker, Owner, Source};
use crate::numbered::Numbered;
use crate::upstream::id::TalkId;
use crate::upstream::talk::{Purpose, Talk};

/// All conversations. One that is worked on keeps its entry, which is empty meanwhile.
#[derive(Default)]
pub(crate) struct Talks {
    entries: Numbered<TalkId, Option<Box<Talk>>>,
    by_asker: Numbered<Asker, TalkId>,
    last: u64,
}

impl Talks {
    /// A new conversation, which is not among the others until it is [kept](Self::keep).
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

    /// Adds a conversation that has begun.
    pub fn keep(&mut self, talk: Box<Talk>) {
        self.by_asker.insert(talk.owner.asker(), talk.id());
        self.entries.insert(talk.id(), Some(talk));
    }

    /// Lends a conversation to be worked on; `None`: it is over, or lent already.
    pub fn lend(&mut self, id: TalkId) -> Option<Box<Talk>> {
        self.entries.get_mut(&id)?.take()
    }

    /// Takes back what was lent.
    pub fn take_back(&mut self, talk: Box<Talk>) {
        let entry = self.entries.get_mut(&talk.id());
        debug_assert!(entry.as_ref().is_some_and(|it| it.is_none()));
        if let Some(entry) = entry {
            *entry = Some(talk);
        }
    }

    /// A conversation that was lent is over.
    pub fn end(&mut self, id: TalkId) {
        self.entries.remove(&id);
    }

    /// A conversation that nobody works on.
    pub fn get_mut(&mut self, id: TalkId) -> Option<&mut Talk> {
        self.entries.get_mut(&id)?.as_deref_mut()
    }

    /// The conversations for which `is_it` holds, in the order in which they began.
    pub fn find(&self, is_it: impl Fn(&Talk) -> bool) -> Vec<TalkId> {
        let talks = self.entries.values().flatten();
        let mut found: Vec<TalkId> = talks.filter(|it| is_it(it)).map(|it| it.id()).collect();
        found.sort_unstable();
        found
    }

    /// The conversation of an asker.
    pub fn of(&self, asker: Asker) -> Option<TalkId> {
        self.by_asker.get(&asker).copied()
    }

    /// This conversation is its asker's from now on.
    pub fn set_asker(&mut self, asker: Asker, id: TalkId) {
        self.by_asker.insert(asker, id);
    }

    /// The asker no longer asks, whatever becomes of the conversation.
    pub fn forget(&mut self, asker: Asker) -> Option<TalkId> {
        self.by_asker.remove(&asker)
    }

    /// The same if it was this one.
    pub fn forget_of(&mut self, asker: Asker, id: TalkId) {
        if self.of(asker) == Some(id) {
            self.by_asker.remove(&asker);
        }
    }

    /// How many there are, with those who ask.
    pub fn len(&self) -> usize {
        self.entries.len().max(self.by_asker.len())
    }

    /// Whether there is no conversation.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use fermata_engine::RequestId;

    use super::*;

    fn handle() -> RequestId {
        RequestId::from_raw(7).expect("it is not zero")
    }

    fn asker() -> Asker {
        Asker::Client(handle())
    }

    fn begin(talks: &mut Talks, handle: RequestId) -> TalkId {
        let owner = Owner::Client(handle);
        let talk = talks.begin(owner, Source::of_get("/"), Vec::new(), Purpose::Plain);
        let id = talk.id();
        talks.keep(talk);
        id
    }

    #[test]
    fn a_conversation_that_is_worked_on_is_not_lent_twice() {
        let mut talks = Talks::default();
        let id = begin(&mut talks, handle());
        let talk = talks.lend(id).expect("a conversation");
        assert!(talks.lend(id).is_none() && talks.get_mut(id).is_none());
        assert!(talks.find(|_| true).is_empty() && !talks.is_empty());
        talks.take_back(talk);
        assert_eq!(talks.find(|_| true), [id]);
        talks.lend(id).expect("it again");
        talks.end(id);
        assert!(talks.is_empty() && talks.lend(id).is_none());
    }

    #[test]
    fn the_next_conversation_of_a_request_outlives_the_one_before() {
        let mut talks = Talks::default();
        let next = talks.next_id();
        let first = begin(&mut talks, handle());
        assert_eq!(first, next);
        let second = begin(&mut talks, handle());
        talks.end(first);
        talks.forget_of(asker(), first);
        assert_eq!((talks.of(asker()), talks.len()), (Some(second), 1));
        talks.forget_of(asker(), second);
        assert_eq!((talks.of(asker()), talks.len()), (None, 1));
    }
}
