//! Listeners other than TCP ports: Unix sockets, and sockets passed by systemd.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

use fermata_testkit::{Connection, Directory, Signal, extension_path, wait_until};
use fermata_tests::{fixture, fixture_path};

const TCP: &str = "http://127.0.0.1:0";

fn get(path: &Path, target: &str) -> String {
    let mut stream = UnixStream::connect(path).expect("the server listens");
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_unix_socket_serves_http_and_goes_with_the_server() {
    let builder = fixture("http");
    let path = builder.directory().join("app.sock");
    let mut server = builder
        .setting("listen", format!("{TCP},unix:{}", path.display()))
        .setting("listen_unix_mode", "0600")
        .start();
    assert!(get(&path, "/pid").starts_with("HTTP/1.1 200"));
    assert_eq!(server.connect().get("/").status(), 200);
    let mode = fs::metadata(&path)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    server
        .log()
        .wait_for(0, &format!("and unix:{}", path.display()));

    // A second server does not replace the socket of the first.
    let second = fixture("http").setting("listen", format!("unix:{}", path.display()));
    let exited = second.start_refused();
    exited.log.wait_for(0, "a server listens there");
    assert!(get(&path, "/pid").starts_with("HTTP/1.1 200"));

    server.signal(Signal::Terminate);
    assert_eq!(server.wait_exit().code(), Some(0));
    assert!(!path.exists());
}

#[test]
fn a_socket_that_a_killed_server_left_is_replaced_and_another_file_is_not() {
    let builder = fixture("http");
    let path = builder.directory().join("app.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a new path"));
    let listen = format!("{TCP},unix:{}", path.display());
    let server = builder.setting("listen", &listen).start();
    assert!(get(&path, "/").starts_with("HTTP/1.1 200"));
    drop(server);

    let directory = Directory::new();
    let path = directory.write("app.sock", "precious");
    let listen = format!("unix:{}", path.display());
    let exited = fixture("http").setting("listen", &listen).start_refused();
    exited.log.wait_for(0, "another kind of file");
    assert_eq!(fs::read(&path).expect("it is still there"), b"precious");
}

#[test]
fn both_families_are_served_side_by_side() {
    let listen = "http://127.0.0.1:0,http://[::1]:0";
    let server = fixture("http").setting("listen", listen).start();
    assert_eq!(server.connect().get("/").status(), 200);
    let address = server.log().wait_map(0, "an IPv6 address", |line| {
        let (_, rest) = line.text.split_once("http://[::1]:")?;
        rest.split(' ').next()?.parse::<u16>().ok()
    });
    let mut connection = Connection::open(([0, 0, 0, 0, 0, 0, 0, 1], address).into());
    assert_eq!(connection.get("/").status(), 200);
}

/// Returns the next message to the service manager.
fn told(manager: &UnixDatagram) -> String {
    let mut message = [0; 512];
    let read = manager.recv(&mut message).expect("the server tells");
    String::from_utf8_lossy(&message[..read]).into_owned()
}

#[test]
fn systemd_passes_sockets_and_is_told_how_the_server_is() {
    let directory = Directory::new();
    let manager = UnixDatagram::bind(directory.join("notify")).expect("a new path");
    manager
        .set_read_timeout(Some(fermata_testkit::deadline()))
        .expect("not zero");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    // As with systemd: the socket is descriptor 3, and LISTEN_PID is the started process.
    let script = "exec 3<&0 0</dev/null; LISTEN_PID=$$ WATCHDOG_PID=$$ exec \"$0\" \"$@\"";
    let mut child = Command::new("sh")
        .args(["-c", script, "php", "-n", "-d"])
        .arg(format!("extension={}", extension_path().display()))
        .arg(fixture_path("http"))
        .env("LISTEN_FDS", "1")
        .env("LISTEN_FDNAMES", "web")
        .env("NOTIFY_SOCKET", directory.join("notify"))
        .env("WATCHDOG_USEC", "200000")
        .env("FERMATA_LISTEN", "systemd:web")
        .env("FERMATA_WORKERS", "2")
        .env("TEST_DIRECTORY", directory.path())
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stderr(Stdio::null())
        .spawn()
        .expect("sh is there");
    assert!(told(&manager).starts_with("READY=1\n"));
    for _ in 0..10 {
        assert_eq!(Connection::open(address).get("/").status(), 200);
    }
    assert_eq!(told(&manager), "WATCHDOG=1");
    // A process that a handler has started is not the one that the service manager has started.
    let variables = Connection::open(address).get("/child-environment");
    let text = variables.text();
    assert!(text.contains("TEST_DIRECTORY="), "{text}");
    for name in ["LISTEN_", "NOTIFY_SOCKET", "WATCHDOG_"] {
        assert!(!text.lines().any(|line| line.starts_with(name)), "{text}");
    }
    fermata_testkit::send_signal(child.id(), Signal::Terminate);
    wait_until("it says that it stops", || {
        told(&manager).starts_with("STOPPING=1").then_some(())
    });
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn without_a_passed_socket_the_start_says_what_to_do() {
    let exited = fixture("http").setting("listen", "systemd").start_refused();
    exited.log.wait_for(0, "systemd has passed no such socket");
}
