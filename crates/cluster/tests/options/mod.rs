//! What a bridge of a test is begun with.

use fermata_cluster::{Address, Options};

/// A bridge to these servers; a test that needs other bounds says so.
pub fn options(servers: &str) -> Options {
    Options {
        servers: Address::list(servers).expect("a list of servers"),
        prefix: "app".to_owned(),
        inbox: "_INBOX.a".to_owned(),
        outbox: "n".to_owned(),
        age_ms_max: 1000,
        bytes_max: 1 << 20,
        replicas: 1,
        events_max: 1000,
        past_max: 1000,
    }
}
