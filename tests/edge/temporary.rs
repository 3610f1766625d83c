//! The edge leaves no files behind in the folder for temporary files.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use fermata_testkit::{Directory, command_path, free_port, wait_until};

fn edge(folder: &std::path::Path, port: u16) -> Command {
    let mut command = Command::new(command_path());
    command.env("TMPDIR", folder);
    command.args(["edge", "--workers", "2", "--control=", "--route", "* test"]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    for setting in ["--zmq-stats", "--zmq-state"] {
        command.args([setting, &format!("tcp://127.0.0.1:{}", free_port())]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn sockets(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let names = entries.map(|it| it.expect("an entry").file_name().into_string());
    let names = names.map(|it| it.expect("UTF-8"));
    names.filter(|it| it.starts_with("fermata-edge-")).collect()
}

#[test]
fn an_edge_that_ends_or_cannot_start_leaves_no_sockets() {
    let folder = Directory::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port();
    let status = edge(folder.path(), port).status().expect("our own program");
    assert!(!status.success());
    assert_eq!(sockets(folder.path()), [""; 0]);

    let port = free_port();
    let mut child = edge(folder.path(), port).spawn().expect("our own program");
    wait_until("it listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port))
            .is_ok()
            .then_some(())
    });
    // One socket per worker, one for metrics, one for commands.
    assert_eq!(sockets(folder.path()).len(), 4);
    let _ = Command::new("kill").arg(child.id().to_string()).status();
    child.wait().expect("it ends");
    assert_eq!(sockets(folder.path()), [""; 0]);
}
