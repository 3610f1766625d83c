//! Pools whose connections lead to several servers: an abandoned query is stopped on the server
//! where it runs. Each server numbers its connections itself, so the same number on another server
//! belongs to another client.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;

use fermata_testkit::{Server, wait_until};
use fermata_tests::fixture;

use super::services::Service;
use super::{ask, text};

/// Starts a server with one worker whose pools have not connected yet.
fn start() -> Server {
    fixture("hosts")
        .workers(1)
        // Abandoned queries are stopped immediately.
        .setting("abandoned_query_ms_max", 0)
        .start()
}

fn wait_for_sleeping(server: &Server, client: &str, port: u16, wanted: usize) {
    wait_until(&format!("{client}: {wanted} sleep at {port}"), || {
        let count = text(server, &format!("/asleep/{client}/{port}"));
        (count == wanted.to_string()).then_some(())
    });
}

/// Waits until `/alone` has found its connection. No other client may connect to that server
/// before: it could get the wanted connection number.
fn wait_for_found(server: &Server, port: u16) {
    wait_until(&format!("a connection of its number at {port}"), || {
        (text(server, &format!("/found/{port}")) == "found").then_some(())
    });
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// Forwards connections from a new port to the port that `to` contains at that time.
fn forward(to: Arc<AtomicU16>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", to.load(Ordering::SeqCst)));
            let Ok(server) = server else { continue };
            let (Ok(from), Ok(back)) = (client.try_clone(), server.try_clone()) else {
                continue;
            };
            thread::spawn(move || copy(from, server));
            thread::spawn(move || copy(back, client));
        }
    });
    port
}

#[test]
fn a_query_that_was_left_is_stopped_at_its_own_server_and_at_no_other() {
    for client in ["mysql", "pgsql"] {
        let start_one = || match client {
            "mysql" => Service::mariadb_on_port(),
            _ => Service::postgres_on_port(),
        };
        let (first, second, server) = (start_one(), start_one(), start());
        text(&server, &format!("/skip/{client}/{}", first.port));
        text(&server, &format!("/next/{}", first.port));
        let left = ask(&server, &format!("/sleep/{client}"));
        wait_for_sleeping(&server, client, first.port, 1);
        // On the second server, the number belongs to another client.
        let id = text(&server, "/lent");
        let alone = ask(&server, &format!("/alone/{client}/{}/{id}", second.port));
        wait_for_found(&server, second.port);
        wait_for_sleeping(&server, client, second.port, 1);
        text(&server, &format!("/next/{}", second.port));
        drop(left);
        // Abandoned queries are stopped before a connection is lent again.
        for _ in 0..3 {
            text(&server, &format!("/use/{client}"));
        }
        wait_for_sleeping(&server, client, first.port, 1);
        wait_for_sleeping(&server, client, second.port, 1);
        // Connections to the second server are not enough.
        text(&server, &format!("/next/{}", first.port));
        text(&server, &format!("/use-all/{client}"));
        wait_for_sleeping(&server, client, first.port, 0);
        wait_for_sleeping(&server, client, second.port, 1);
        drop(alone);
    }
}

#[test]
fn of_servers_behind_one_address_none_is_told_to_stop_what_another_does() {
    let (first, second, server) = (
        Service::mariadb_on_port(),
        Service::mariadb_on_port(),
        start(),
    );
    let to = Arc::new(AtomicU16::new(first.port));
    let port = forward(Arc::clone(&to));
    text(&server, &format!("/skip/mysql/{}", first.port));
    text(&server, &format!("/next/{port}"));
    let left = ask(&server, "/sleep/mysql");
    wait_for_sleeping(&server, "mysql", first.port, 1);
    let id = text(&server, "/lent");
    let alone = ask(&server, &format!("/alone/mysql/{}/{id}", second.port));
    wait_for_found(&server, second.port);
    wait_for_sleeping(&server, "mysql", second.port, 1);
    to.store(second.port, Ordering::SeqCst);
    drop(left);
    for _ in 0..3 {
        text(&server, "/use/mysql");
    }
    wait_for_sleeping(&server, "mysql", second.port, 1);
    drop(alone);
}
