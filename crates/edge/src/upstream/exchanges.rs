//! Exchanges of a worker with origins, by id and by the part of the edge that started them.

use crate::client::source::{ExchangeKey, Owner, Source};
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

/// Open exchange of each key.
#[derive(Default)]
pub(crate) struct ExchangeKeys {
    exchanges: Numbered<ExchangeKey, UpstreamExchangeId>,
    last: u64,
}

impl ExchangeKeys {
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

    /// Returns the open exchange of a key.
    pub fn of(&self, key: ExchangeKey) -> Option<UpstreamExchangeId> {
        self.exchanges.get(&key).copied()
    }

    /// Assigns an exchange to a key.
    pub fn set(&mut self, key: ExchangeKey, id: UpstreamExchangeId) {
        self.exchanges.insert(key, id);
    }

    /// Removes a key. Its exchange continues.
    pub fn forget(&mut self, key: ExchangeKey) -> Option<UpstreamExchangeId> {
        self.exchanges.remove(&key)
    }

    /// Like [`Self::forget`], but does so only if the key belongs to this exchange.
    pub fn forget_of(&mut self, key: ExchangeKey, id: UpstreamExchangeId) {
        if self.of(key) == Some(id) {
            self.exchanges.remove(&key);
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
        let key = ExchangeKey::Client(handle);
        let (mut exchanges, mut exchange_keys) =
            (UpstreamExchanges::default(), ExchangeKeys::default());
        let mut begin = |exchange_keys: &mut ExchangeKeys| {
            let owner = Owner::Client(handle);
            let exchange =
                exchange_keys.begin(owner, Source::of_get("/"), Vec::new(), Purpose::Plain);
            let id = exchange.id();
            exchange_keys.set(key, id);
            exchanges.keep(exchange);
            id
        };
        let next = exchange_keys.next_id();
        let first = begin(&mut exchange_keys);
        assert_eq!(first, next);
        let second = begin(&mut exchange_keys);
        assert_eq!(exchanges.find(|_| true), [first, second]);
        assert!(exchanges.end(first).is_some() && exchanges.end(first).is_none());
        exchange_keys.forget_of(key, first);
        assert_eq!((exchange_keys.of(key), exchanges.len()), (Some(second), 1));
        exchange_keys.forget_of(key, second);
        assert_eq!((exchange_keys.of(key), exchange_keys.len()), (None, 0));
        assert!(exchanges.get_mut(second).is_some());
    }
}
