//! Tests that the edge takes a target out only for the target's own faults, never for a fault
//! caused by a request.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fermata_testkit::{Directory, free_port, wait_until};

use crate::client::Client;
use crate::origin::{Origin, Reply, text};
use crate::own::Own;
use crate::socket;

/// One more than the number of failures that take a target out.
const TRIES: usize = 4;

fn up(own: &Own, target: &str) -> Option<u64> {
    own.figure(&format!(
        "fermata_edge_target_up{{route=\"r\",target=\"{target}\"}}"
    ))
}

/// Starts a backend that returns a text and echoes WebSocket messages.
fn other() -> Origin {
    let origin = Origin::start();
    for name in ["x", "favicon.ico"] {
        origin.on(name, |_| text("other"));
    }
    origin.on("ws", |request| {
        socket::accept(request, "", |mut socket| while socket.next().is_some() {})
    });
    origin
}

#[test]
fn a_path_that_names_no_program_is_not_the_fault_of_fastcgi() {
    let (backend, other) = (TcpListener::bind("127.0.0.1:0").expect("a port"), other());
    let target = format!("fastcgi/{}", backend.local_addr().expect("bound"));
    let routes = [
        format!("*,id=r {target},root=/srv 127.0.0.1:{}", other.port()),
        format!("alone.test {target},root=/srv"),
    ];
    let own = Own::start(&["--route", &routes[0], "--route", &routes[1]]);
    for _ in 0..TRIES {
        assert_eq!(own.get("/favicon.ico").text(), "other");
    }
    assert_eq!(up(&own, &target), Some(1));
    for (path, status) in [("/favicon.ico", 404), ("/%zz.php", 400)] {
        let answer = Client::open(own.port, "alone.test").get(path);
        assert_eq!(answer.status, status, "{path}");
    }
}

#[test]
fn a_host_that_no_certificate_can_have_is_not_the_fault_of_a_target() {
    let (backend, other) = (TcpListener::bind("127.0.0.1:0").expect("a port"), other());
    let target = backend.local_addr().expect("bound").to_string();
    let route = format!("*,id=r {target},ssl,insecure 127.0.0.1:{}", other.port());
    let own = Own::start(&["--route", &route]);
    for _ in 0..TRIES {
        let answer = Client::open(own.port, "a..b").get("/x");
        assert_eq!((answer.status, answer.text()), (200, "other"));
    }
    assert_eq!(up(&own, &target), Some(1));
}

#[test]
fn what_a_zhttp_backend_does_not_take_is_not_its_fault() {
    let other = other();
    let target = format!("zhttpreq/tcp://127.0.0.1:{}", free_port());
    let routes = [
        format!("*,id=r {target} 127.0.0.1:{}", other.port()),
        format!("alone.test {target}"),
    ];
    let own = Own::start(&["--route", &routes[0], "--route", &routes[1]]);
    for _ in 0..TRIES {
        drop(socket::open(own.client(), "/ws"));
    }
    let large = vec![b'a'; 1_000_000];
    for _ in 0..TRIES {
        let answer = own.client().request("POST", "/x", &[], &large);
        assert_eq!((answer.status, answer.text()), (200, "other"));
    }
    assert_eq!(up(&own, &target), Some(1));
    let mut client = Client::open(own.port, "alone.test");
    assert_eq!(client.request("POST", "/x", &[], &large).status, 413);
}

#[test]
fn a_folder_stays_whatever_else_is_asked() {
    let (folder, origin) = (Directory::new(), other());
    folder.write("page.html", "a page");
    let asked = Arc::new(AtomicUsize::new(0));
    let links = Arc::clone(&asked);
    origin.on("stream", move |_| {
        links.fetch_add(1, Ordering::SeqCst);
        let headers = [
            ("Grip-Hold", "stream"),
            ("Grip-Channel", "c"),
            ("Grip-Link", "</stream>; rel=next; timeout=1"),
        ];
        let headers = headers.map(|(name, value)| (name, value.to_owned()));
        Reply::Answer(200, headers.to_vec(), Vec::new())
    });
    let target = format!("file/{}", folder.path().display());
    let route = format!("*,id=r {target} 127.0.0.1:{}", origin.port());
    let own = Own::start(&["--route", &route]);
    let sockets: Vec<_> = (0..TRIES)
        .map(|_| socket::open(own.client(), "/ws"))
        .collect();
    let streams: Vec<_> = (0..TRIES)
        .map(|_| {
            let mut client = own.client();
            client.send("GET", "/stream", &[], b"");
            client
        })
        .collect();
    wait_until("links are asked", || {
        (asked.load(Ordering::SeqCst) >= 2 * TRIES).then_some(())
    });
    for _ in 0..TRIES {
        assert_eq!(own.get("/page.html").text(), "a page");
    }
    assert_eq!(up(&own, &target), Some(1));
    drop((sockets, streams));
}
