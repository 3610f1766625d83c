//! Exchanges of a worker with origins, by id and by the part of the edge that started them.

use crate::client::source::{Asker, Owner, Source};
use crate::numbered::Numbered;
use crate::upstream::exchange::{Purpose, UpstreamExchange};
use crate::upstream::id::UpstreamExchangeId;

/// All exchanges. Code that works on one exchange has no access to the others.
#[derive(Default)]
pub(crate) struct UpstreamExchanges(Numbered<UpstreamExchangeId, Box<UpstreamExchange>>);

impl UpstreamExchanges {
    /// Adds an exchange.
    pub fn keep(&mut self, exchange: Box<UpstreamExchange>) {
        self.0.insert(exchange.id(), exchange);
    }

    /// Removes an exchange that is complete.
    pub fn end(&mut self, id: UpstreamExchangeId) -> Option<Box<UpstreamExchange>> {
        self.0.remove(&id)
    }

    pub fn get(&self, id: UpstreamExchangeId) -> Option<&UpstreamExchange> {
        self.0.get(&id).map(|it| &**it)
    }

    pub fn get_mut(&mut self, id: UpstreamExchangeId) -> Option<&mut UpstreamExchange> {
        self.0.get_mut(&id).map(|it| &mut **it)
    }

    /// Returns the exchanges for which `is_it` returns true, oldest first.
    pub fn find(&self, is_it: impl Fn(&UpstreamExchange) -> bool) -> Vec<UpstreamExchangeId> {
        let exchanges = self.0.values();
        let mut found: Vec<UpstreamExchangeId> =
            exchanges.filter(|it| is_it(it)).map(|it| it.id()).collect();
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
    exchanges: Numbered<Asker, UpstreamExchangeId>,
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
    ) -> Box<UpstreamExchange> {
        let id = self.next_id();
        self.last += 1;
        UpstreamExchange::new(id, owner, source, last_ids, purpose)
    }

    /// Returns the id of the next exchange.
    pub fn next_id(&self) -> UpstreamExchangeId {
        UpstreamExchangeId::of(self.last + 1)
    }

    /// Returns the exchange of an asker.
    pub fn of(&self, asker: Asker) -> Option<UpstreamExchangeId> {
        self.exchanges.get(&asker).copied()
    }

    /// Assigns an exchange to a key.
    pub fn set(&mut self, asker: Asker, id: UpstreamExchangeId) {
        self.exchanges.insert(asker, id);
    }

    /// Removes a key. Its exchange continues.
    pub fn forget(&mut self, asker: Asker) -> Option<UpstreamExchangeId> {
        self.exchanges.remove(&asker)
    }

    /// Like [`Self::forget`], but does so only if the key belongs to this exchange.
    pub fn forget_of(&mut self, asker: Asker, id: UpstreamExchangeId) {
        if self.of(asker) == Some(id) {
            self.exchanges.remove(&asker);
        }
    }

    pub fn len(&self) -> usize {
        self.exchanges.len()
    }
}

#[cfg(test)]
mod tests {
    use fermata_engine::RequestId;

    use super::*;

    #[test]
    fn a_newer_exchange_keeps_its_key_when_the_older_one_ends() {
        let handle = RequestId::from_raw(7).expect("it is not zero");
        let asker = Asker::Client(handle);
        let (mut exchanges, mut askers) = (UpstreamExchanges::default(), Askers::default());
        let mut begin = |askers: &mut Askers| {
            let owner = Owner::Client(handle);
            let exchange = askers.begin(owner, Source::of_get("/"), Vec::new(), Purpose::Plain);
            let id = exchange.id();
            askers.set(asker, id);
            exchanges.keep(exchange);
            id
        };
        let next = askers.next_id();
        let first = begin(&mut askers);
        assert_eq!(first, next);
        let second = begin(&mut askers);
        assert_eq!(exchanges.find(|_| true), [first, second]);
        assert!(exchanges.end(first).is_some() && exchanges.end(first).is_none());
        askers.forget_of(asker, first);
        assert_eq!((askers.of(asker), exchanges.len()), (Some(second), 1));
        askers.forget_of(asker, second);
        assert_eq!((askers.of(asker), askers.len()), (None, 0));
        assert!(exchanges.get_mut(second).is_some());
    }
}
