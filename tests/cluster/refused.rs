//! Features that cannot work over several machines are rejected instead of working on one machine.

use fermata_tests::fixture;

#[test]
fn what_is_no_address_or_cannot_be_shared_ends_the_start() {
    for (servers, cause) in [
        ("amqp://secret@localhost", "redis://HOST:PORT"),
        ("redis://secret@localhost/x", "is not a number"),
        ("nats://localhost:port", "the port of one of the addresses"),
        ("nats://a,tls://b", "nats://host:port"),
    ] {
        let refused = fixture("hub").setting("cluster", servers).start_refused();
        let text = format!("{refused:?}");
        assert!(text.contains(cause), "{servers}: {text}");
        assert!(!text.contains("secret@"), "{text}");
    }
}
