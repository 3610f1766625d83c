//! What does not work over several machines is refused instead of working for one.

use std::process::Command;

use fermata_testkit::command_path;
use fermata_tests::fixture;

#[test]
fn what_is_no_address_or_cannot_be_shared_ends_the_start() {
    for (servers, cause) in [
        ("amqp://secret@localhost", "redis://HOST:PORT"),
        ("redis://secret@localhost/x", "no number of a database"),
        ("nats://localhost:port", "the port of one of the addresses"),
        ("nats://a,tls://b", "nats://host:port"),
    ] {
        let refused = fixture("hub").setting("cluster", servers).start_refused();
        let text = format!("{refused:?}");
        assert!(text.contains(cause), "{servers}: {text}");
        assert!(!text.contains("secret@"), "{text}");
    }
}

#[test]
fn an_edge_says_that_it_cannot() {
    let output = Command::new(command_path())
        .args(["edge", "--listen", "127.0.0.1:0", "--control="])
        .args(["--route", "* test"])
        .env("FERMATA_CLUSTER", "nats://localhost")
        .output()
        .expect("the command can be started");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("only hubs and servers that PHP programs start"),
        "{text}"
    );
}
