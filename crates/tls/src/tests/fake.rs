//! Edge cases of the driver, with a virtual clock.

use fermata_io::Driver;
use fermata_io::sys::fake::{End, Fake, FakePeer};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ProtocolVersion};

use super::{Owner, folder};
use crate::client::{ClientOptions, client_config};
use crate::handle::Failure;

/// A TLS client controlled by the test.
pub(super) struct Client {
    pub tls: ClientConnection,
    pub peer: FakePeer,
    pub received: Vec<u8>,
}

impl Client {
    pub fn new(peer: FakePeer) -> Client {
        let config = client_config(&ClientOptions {
            authorities: Some(folder().join("localhost-ca.pem")),
            ..ClientOptions::default()
        })
        .expect("the authority is good");
        let name = ServerName::try_from("localhost").expect("a name");
        Client {
            tls: ClientConnection::new(config, name).expect("they go together"),
            peer,
            received: Vec::new(),
        }
    }

    /// Returns the ciphertext that the client sends now.
    pub fn pull(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.tls.wants_write() {
            self.tls
                .write_tls(&mut bytes)
                .expect("memory takes everything");
        }
        bytes
    }

    /// Processes the received bytes. Returns true if the server sent close_notify.
    pub fn push(&mut self) -> bool {
        let arrived = self.peer.read();
        let mut rest = &arrived[..];
        let mut has_ended = false;
        while !rest.is_empty() {
            self.tls.read_tls(&mut rest).expect("memory can be read");
            let state = self
                .tls
                .process_new_packets()
                .expect("the server keeps to the protocol");
            has_ended |= state.peer_has_closed();
            let mut plain = vec![0; state.plaintext_bytes_to_read()];
            use std::io::Read;
            self.tls
                .reader()
                .read_exact(&mut plain)
                .expect("it is there");
            self.received.extend(plain);
        }
        has_ended
    }

    pub fn write(&mut self, bytes: &[u8]) {
        use std::io::Write;
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = self.tls.writer().write(rest).expect("memory takes it");
            rest = &rest[taken..];
            let bytes = self.pull();
            self.peer.write(&bytes);
        }
    }

    pub fn shake_hands(&mut self, owner: &mut Owner<Fake>) {
        for _ in 0..10 {
            let bytes = self.pull();
            self.peer.write(&bytes);
            owner.turn_until_quiet();
            self.push();
            if !self.tls.is_handshaking() && !self.tls.wants_write() {
                return;
            }
        }
        panic!("no handshake");
    }
}

fn connected() -> (Fake, Owner<Fake>, Client) {
    let fake = Fake::new(1);
    let listener = fake.listen();
    let mut owner = Owner::new(fake.clone(), listener, true);
    let mut client = Client::new(fake.connect(listener));
    client.shake_hands(&mut owner);
    (fake, owner, client)
}

#[test]
fn a_handshake_is_counted_and_speaks_http() {
    let (_fake, owner, client) = connected();
    assert_eq!(
        client.tls.protocol_version(),
        Some(ProtocolVersion::TLSv1_3)
    );
    assert_eq!(client.tls.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(
        (
            owner.handle.full(),
            owner.handle.resumed(),
            owner.handle.open()
        ),
        (1, 0, 1)
    );
}

#[test]
fn reports_close_notify_after_data_although_the_socket_is_empty() {
    let (_fake, mut owner, mut client) = connected();
    client.write(b"last words");
    client.tls.send_close_notify();
    let bytes = client.pull();
    client.peer.write(&bytes);
    owner.turn_until_quiet();
    let (_, connection) = owner.the_only();
    assert_eq!(connection.received, b"last words");
    assert!(connection.has_ended);
}

#[test]
fn reports_data_and_close_notify_of_one_read() {
    let (_fake, mut owner, mut client) = connected();
    use std::io::Write;
    client
        .tls
        .writer()
        .write_all(b"last words")
        .expect("memory takes it");
    client.tls.send_close_notify();
    let bytes = client.pull();
    client.peer.write(&bytes);
    owner.turn_until_quiet();
    let (_, connection) = owner.the_only();
    assert_eq!(
        (connection.received.as_slice(), connection.has_ended),
        (&b"last words"[..], true)
    );
}

#[test]
fn reports_the_end_within_a_handshake() {
    let fake = Fake::new(1);
    let listener = fake.listen();
    let mut owner = Owner::new(fake.clone(), listener, true);
    let mut client = Client::new(fake.connect(listener));
    let hello = client.pull();
    client.peer.write(&hello[..20]);
    client.peer.shutdown_write();
    owner.turn_until_quiet();
    let (token, connection) = owner.the_only();
    assert!(connection.has_ended);
    owner.close(token);
    assert_eq!(owner.handle.failed(Failure::Abandoned), 1);
    assert_eq!((owner.handle.open(), fake.open_streams()), (0, 0));
}

#[test]
fn plain_http_is_answered_in_plain_text() {
    let fake = Fake::new(1);
    let listener = fake.listen();
    let mut owner = Owner::new(fake.clone(), listener, true);
    let peer = fake.connect(listener);
    peer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    owner.turn_until_quiet();
    let answer = String::from_utf8(peer.read()).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
    assert!(head.starts_with("HTTP/1.1 400 "));
    assert!(head.contains(&format!("Content-Length: {}", body.len())));
    assert_eq!(owner.handle.failed(Failure::PlainHttp), 1);
    assert_eq!((peer.end(), fake.open_streams()), (End::Finished, 0));
}

#[test]
fn a_broken_handshake_ends_with_an_alert_and_an_error() {
    let fake = Fake::new(1);
    let listener = fake.listen();
    let mut owner = Owner::new(fake.clone(), listener, true);
    let peer = fake.connect(listener);
    peer.write(&[0x16, 3, 1, 0, 4, 1, 0, 0, 0]);
    owner.turn_until_quiet();
    let alert = peer.read();
    assert_eq!((alert[0], alert[5]), (0x15, 2), "a fatal alert");
    assert_eq!(owner.handle.failed(Failure::Protocol), 1);
    assert_eq!(fake.open_streams(), 0);
}

#[test]
fn what_was_sent_before_a_close_arrives_whole() {
    let (fake, mut owner, mut client) = connected();
    client.peer.set_window(1_000);
    let (token, connection) = owner.the_only();
    connection.to_send = vec![7; 50_000];
    owner.write(token);
    let connection = owner.close(token);
    assert!(connection.to_send.is_empty(), "the session has taken it");
    assert_eq!(
        (
            owner.handle.leaving(),
            owner.handle.open(),
            fake.open_streams()
        ),
        (1, 0, 1)
    );
    let mut has_ended = false;
    while !has_ended {
        has_ended = client.push();
        assert!(
            has_ended || owner.turn() == 0,
            "its owner hears nothing of it"
        );
    }
    assert_eq!(client.received, vec![7; 50_000]);
    owner.turn_until_quiet();
    assert_eq!((owner.handle.leaving(), fake.open_streams()), (0, 0));
}

#[test]
fn gives_up_a_closed_client_that_does_not_read() {
    let (fake, mut owner, client) = connected();
    client.peer.set_window(0);
    let (token, connection) = owner.the_only();
    connection.to_send = vec![7; 50_000];
    owner.write(token);
    owner.close(token);
    fake.advance(4_999);
    owner.turn();
    assert_eq!(fake.open_streams(), 1);
    fake.advance(10);
    owner.turn();
    assert_eq!((owner.handle.leaving(), fake.open_streams()), (0, 0));
}

#[test]
fn a_connection_that_is_reset_ends_at_once() {
    let (fake, mut owner, client) = connected();
    client.peer.set_window(0);
    let (token, connection) = owner.the_only();
    connection.to_send = vec![7; 50_000];
    owner.write(token);
    let fd = owner.the_only().1.fd;
    owner.driver.reset_on_close(fd);
    owner.close(token);
    assert_eq!(client.peer.end(), End::Reset);
    let open = (owner.handle.leaving(), owner.handle.open());
    assert_eq!((open, fake.open_streams()), ((0, 0), 0));
}

#[test]
fn stores_little_for_a_slow_client() {
    let (_fake, mut owner, mut client) = connected();
    client.peer.set_window(10_000);
    let (token, connection) = owner.the_only();
    connection.to_send = vec![7; 1 << 20];
    owner.write(token);
    let (_, connection) = owner.the_only();
    assert!(connection.is_blocked);
    assert!(connection.to_send.len() >= (1 << 20) - crate::session::SEND_BYTES);
    for _ in 0..1_000 {
        client.push();
        owner.turn();
    }
    assert_eq!(client.received.len(), 1 << 20);
}

#[test]
fn connections_of_other_listeners_pass_through() {
    let fake = Fake::new(1);
    let (secure, plain) = (fake.listen(), fake.listen());
    let mut owner = Owner::new(fake.clone(), secure, true);
    let mut client = Client::new(fake.connect(secure));
    client.shake_hands(&mut owner);
    owner.listener = plain;
    owner.echoes = true;
    owner
        .driver
        .add_listener(plain, super::LISTENER)
        .expect("it can be watched");
    let peer = fake.connect(plain);
    peer.write(b"in the clear");
    owner.turn_until_quiet();
    assert_eq!(peer.read(), b"in the clear");
}
