//! Options of a bridge in tests.

use fermata_cluster::{Address, Options};

/// Options for a list of servers. Tests override single fields.
pub fn options(servers: &str) -> Options {
    Options {
        servers: Address::list(servers).expect("a list of servers"),
        prefix: "app".to_owned(),
        inbox: "_INBOX.a".to_owned(),
        outbox: "n".to_owned(),
        zero_unix_ms: 1_795_000_000_000,
        age_ms_max: 1000,
        bytes_max: 1 << 20,
        replicas: 1,
        events_max: 1000,
        past_max: 1000,
        application: None,
    }
}
