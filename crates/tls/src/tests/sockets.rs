//! Client and server in one loop over real sockets: the client's side, resumption, the system's timing.

use std::net::Ipv4Addr;
use std::os::fd::IntoRawFd;

use fermata_io::net;
use fermata_io::sys::epoll::Epoll;
use rustls::pki_types::ServerName;

use super::{Owner, folder};
use crate::client::{ClientOptions, client_config};
use crate::handle::Failure;

struct World {
    owner: Owner<Epoll>,
    address: std::net::SocketAddr,
}

fn world() -> World {
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    let (listener, address) = net::bind_tcp(address, 16, false).expect("loopback has a port");
    let epoll = Epoll::new().expect("epoll");
    let owner = Owner::new(epoll, listener.into_raw_fd(), true);
    World { owner, address }
}

impl World {
    fn connect(&mut self, options: &ClientOptions) -> u64 {
        let config = client_config(options).expect("the authority is good");
        self.connect_with(config)
    }

    fn connect_with(&mut self, config: std::sync::Arc<rustls::ClientConfig>) -> u64 {
        self.connect_to("localhost", config)
    }

    fn connect_to(
        &mut self,
        name: &'static str,
        config: std::sync::Arc<rustls::ClientConfig>,
    ) -> u64 {
        let fd = net::connect_tcp(self.address, None).expect("it listens");
        let name = ServerName::try_from(name).expect("a name");
        self.owner
            .driver
            .connect(fd, config, name)
            .expect("they go together");
        self.owner.add(fd)
    }

    /// Runs turns until `is_done` returns true.
    fn turn_until(&mut self, is_done: impl Fn(&Owner<Epoll>) -> bool) {
        for _ in 0..100_000 {
            if is_done(&self.owner) {
                return;
            }
            self.owner.turn();
        }
        panic!("it never came");
    }
}

fn trusting() -> ClientOptions {
    ClientOptions {
        authorities: Some(folder().join("localhost-ca.pem")),
        ..ClientOptions::default()
    }
}

#[test]
fn a_client_becomes_writable_and_gets_its_echo() {
    let mut world = world();
    let token = world.connect(&trusting());
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 253) as u8).collect();
    let client = world.owner.connections.get_mut(&token).expect("it is open");
    client.to_send = bytes.clone();
    // A client that waits for the event before it writes.
    client.is_blocked = true;
    world.turn_until(|owner| {
        owner
            .connections
            .values()
            .any(|other| other.received.len() == bytes.len())
    });
    let server = world
        .owner
        .connections
        .values()
        .find(|other| !other.received.is_empty());
    assert!(server.expect("it has received").received == bytes);
    assert_eq!(world.owner.handle.open(), 2);
}

#[test]
fn an_untrusting_client_sends_an_alert() {
    let mut world = world();
    // An authority that did not sign the server's certificate.
    let other = folder().join("other");
    crate::development::provide(&other, super::unix_s()).expect("it can be written");
    let token = world.connect(&ClientOptions {
        authorities: Some(other.join("localhost-ca.pem")),
        ..ClientOptions::default()
    });
    world.turn_until(|owner| owner.handle.failed(Failure::Alert) == 1);
    let error = world.owner.connections[&token]
        .error
        .as_ref()
        .expect("it knows why");
    assert!(error.contains("invalid peer certificate"), "{error}");
    assert!(!world.owner.connections[&token].is_about_name);
}

#[test]
fn distinguishes_a_wrong_name_from_an_unknown_authority() {
    let mut world = world();
    let config = client_config(&trusting()).expect("the authority is good");
    let token = world.connect_to("other.test", config);
    world.turn_until(|owner| owner.connections[&token].error.is_some());
    let client = &world.owner.connections[&token];
    assert!(client.is_about_name, "{:?}", client.error);
}

#[test]
fn an_insecure_client_accepts_any_certificate_and_resumes_by_ticket() {
    let mut world = world();
    let config = client_config(&ClientOptions {
        is_insecure: true,
        ..ClientOptions::default()
    })
    .expect("nothing to read");
    for resumed in 0..3 {
        let token = world.connect_with(config.clone());
        world
            .owner
            .connections
            .get_mut(&token)
            .expect("it is open")
            .to_send = b"hello".to_vec();
        world.turn_until(|owner| {
            owner
                .connections
                .values()
                .any(|other| other.received == b"hello")
        });
        // The tickets precede the response.
        let mut servers = world.owner.connections.iter();
        let (&server, _) = servers
            .find(|(_, other)| !other.received.is_empty())
            .expect("it is there");
        world
            .owner
            .connections
            .get_mut(&server)
            .expect("it is open")
            .to_send = b"good day".to_vec();
        world.owner.write(server);
        world.turn_until(|owner| owner.connections[&token].received == b"good day");
        // Both sides have counted.
        assert_eq!(
            (world.owner.handle.full(), world.owner.handle.resumed()),
            (2, 2 * resumed)
        );
        for token in world.owner.connections.keys().copied().collect::<Vec<_>>() {
            world.owner.close(token);
        }
    }
}

#[test]
fn a_refused_connection_is_an_error_and_not_a_wait() {
    let mut world = world();
    world.address.set_port(1);
    let token = world.connect(&trusting());
    world.turn_until(|owner| owner.connections[&token].error.is_some());
}
