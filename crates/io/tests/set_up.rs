//! Operations at start: listeners, shared memory and probing.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use fermata_io::shm::Shared;
use fermata_io::{net, probe, process};

const BACKLOG: i32 = 16;

/// A separate folder for each test, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fermata-io-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

#[test]
fn a_port_in_use_is_an_error_unless_both_share_it() {
    let (_first, address) = net::bind_tcp(loopback(), BACKLOG, false).expect("a free port");
    assert_ne!(address.port(), 0);
    let error = net::bind_tcp(address, BACKLOG, true).expect_err("in use");
    assert_eq!(error.kind(), ErrorKind::AddrInUse);

    let (first, address) = net::bind_tcp(loopback(), BACKLOG, true).expect("a free port");
    let (second, same) = net::bind_tcp(address, BACKLOG, true).expect("shared");
    assert_eq!(address, same);
    assert_eq!(net::local_addr(&second).expect("bound"), address);
    assert_eq!(
        net::check_tcp_free(address).expect_err("in use").kind(),
        ErrorKind::AddrInUse
    );
    drop((first, second));
    net::check_tcp_free(address).expect("free again");
}

#[test]
fn both_families_can_use_one_port() {
    let v6 = "[::]:0".parse().expect("an address");
    let Ok((_v6, address)) = net::bind_tcp(v6, BACKLOG, false) else {
        return; // This machine has no IPv6.
    };
    // Another test may use the IPv4 port at the same time, but cannot share it with `[::]`.
    let v4 = SocketAddr::from(([0, 0, 0, 0], address.port()));
    match net::bind_tcp(v4, BACKLOG, false) {
        Ok(_) => {}
        Err(error) => assert!(
            TcpListener::bind(("127.0.0.2", v4.port())).is_err(),
            "{error}"
        ),
    }
}

#[test]
fn a_unix_socket_is_private_and_replaced_only_when_stale() {
    let folder = Folder::new("stale");
    let path = folder.0.join("control.sock");
    let listener = net::bind_unix(&path, BACKLOG, net::UNIX_MODE).expect("bind");
    let mode = std::fs::metadata(&path).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, net::UNIX_MODE);
    let error = net::bind_unix(&path, BACKLOG, net::UNIX_MODE).expect_err("in use");
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    drop(listener);
    net::bind_unix(&path, BACKLOG, net::UNIX_MODE).expect("the old one is dead");
}

#[test]
fn nobody_connects_before_a_unix_socket_is_prepared() {
    let folder = Folder::new("prepared");
    let path = folder.0.join("control.sock");
    let connect = || std::os::unix::net::UnixStream::connect(&path).map(|_| ());
    let listener = net::bind_unix_with(&path, BACKLOG, net::UNIX_MODE, |made| {
        assert_eq!(made, path);
        let error = connect().expect_err("nobody listens");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        Ok(())
    });
    connect().expect("it listens");
    drop(listener);
    let refused = net::bind_unix_with(&path, BACKLOG, net::UNIX_MODE, |_| {
        Err(ErrorKind::PermissionDenied.into())
    });
    assert_eq!(
        refused.expect_err("refused").kind(),
        ErrorKind::PermissionDenied
    );
    assert!(!path.exists());
}

#[test]
fn a_full_queue_does_not_look_stale() {
    let folder = Folder::new("full");
    let path = folder.0.join("control.sock");
    let _listener = net::bind_unix(&path, 0, net::UNIX_MODE).expect("bind");
    let _waiting = std::os::unix::net::UnixStream::connect(&path).expect("connect");
    let error = net::bind_unix(&path, BACKLOG, net::UNIX_MODE).expect_err("in use");
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
}

#[test]
fn a_file_that_is_no_socket_is_never_replaced() {
    let folder = Folder::new("file");
    let path = folder.0.join("control.sock");
    std::fs::write(&path, "precious").expect("write");
    let error = net::bind_unix(&path, BACKLOG, net::UNIX_MODE).expect_err("in use");
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert_eq!(std::fs::read_to_string(&path).expect("read"), "precious");
    let long = folder.0.join("x".repeat(200));
    assert!(net::bind_unix(&long, BACKLOG, net::UNIX_MODE).is_err());
}

#[test]
fn anonymous_memory_is_zero_and_stays() {
    let shared = Shared::anonymous(1000).expect("memory");
    assert!(!shared.existed());
    let words = shared.words();
    assert_eq!(words.len(), 1000);
    assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
    words[999].store(7, Ordering::Relaxed);
    assert_eq!(shared.words()[999].load(Ordering::Relaxed), 7);
    assert_eq!(
        Shared::anonymous(0).expect_err("empty").kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        Shared::anonymous(usize::MAX).expect_err("huge").kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn a_file_is_private_locked_and_keeps_its_content() {
    let folder = Folder::new("shared");
    let path = folder.0.join("history");
    let mut old = vec![0_u8; 16];
    old[8] = 5;
    std::fs::write(&path, &old).expect("write");
    let shared = Shared::file(&path, 4096).expect("map");
    assert!(shared.existed());
    assert_eq!(std::fs::metadata(&path).expect("there").size(), 4096 * 8);
    assert_eq!(shared.words()[1].load(Ordering::Relaxed).to_le(), 5);
    let error = Shared::file(&path, 4096).expect_err("locked");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);

    let fresh = folder.0.join("fresh");
    assert!(!Shared::file(&fresh, 10).expect("map").existed());
    assert_eq!(
        std::fs::metadata(&fresh)
            .expect("made")
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
}

#[test]
fn root_maps_no_file_through_a_link_that_somebody_else_may_have_made() {
    let folder = Folder::new("links");
    let shared = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&folder.0, shared).expect("it is ours");
    let (target, path) = (folder.0.join("target"), folder.0.join("history"));
    std::os::unix::fs::symlink(&target, &path).expect("a link");
    let opened = Shared::file(&path, 8);
    if process::user() != process::ROOT {
        opened.expect("anybody else may follow it");
        return;
    }
    opened.expect_err("a symbolic link");
    assert!(!target.exists(), "nothing is created behind it");
    std::fs::remove_file(&path).expect("it is ours");
    std::fs::write(&target, "").expect("a file");
    std::fs::hard_link(&target, &path).expect("a link");
    Shared::file(&path, 8).expect_err("a second name of another file");
    assert_eq!(std::fs::metadata(&target).expect("there").size(), 0);
    std::fs::remove_file(&path).expect("it is ours");
    Shared::file(&path, 8).expect("a file of its own");
}

#[test]
fn reports_cores_and_descriptors() {
    assert!(process::usable_cores() >= 1);
    let limit = process::descriptor_limit();
    assert!(process::raise_descriptor_limit() >= limit);
    let features = probe::features();
    assert!(
        features.contains(&("epoll", "available".to_owned())),
        "{features:?}"
    );
    assert!(features.iter().any(|(name, _)| *name == "io_uring"));
    assert!(features.iter().all(|(_, value)| !value.is_empty()));
}
