//! PHP-FPM and nothing else behind the edge: large bodies, files beside the program, and checks by its ping.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use fermata_testkit::{Directory, install, wait_until};

use crate::client::Client;
use crate::own::Own;

/// Answers with what it was sent, or says what it was told of that.
const SCRIPT: &str = "<?php\nheader('X-Length: ' . ($_SERVER['CONTENT_LENGTH'] ?? 'none'));\nreadfile('php://input');\n";

/// More than a client is held with.
const BYTES: usize = 300_000;

pub struct Fpm(Child);

impl Drop for Fpm {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Starts it in a folder; `None`: it is not installed.
pub fn start(folder: &Directory) -> Option<Fpm> {
    let programs = ["8.2", "8.3", "8.4"].map(|version| format!("/usr/sbin/php-fpm{version}"));
    let program = programs
        .iter()
        .find(|path| std::path::Path::new(path).exists())?;
    let name = folder.path().display();
    folder.write(
        "fpm.conf",
        format!(
            "[global]\nerror_log = {name}/fpm.log\n[www]\nlisten = {name}/fpm.sock\nuser = root\ngroup = root\n\
            pm = static\npm.max_children = 2\nping.path = /ping\n"
        ),
    );
    let log = File::create(folder.join("fpm.out")).expect("a log");
    let mut command = Command::new(program);
    command
        .args(["-F", "-R", "-y"])
        .arg(folder.join("fpm.conf"));
    let child = command.stdout(Stdio::null()).stderr(log).spawn();
    let fpm = Fpm(child.expect("it was looked at before"));
    wait_until("PHP-FPM listens", || {
        std::os::unix::net::UnixStream::connect(folder.join("fpm.sock")).ok()
    });
    Some(fpm)
}

#[test]
fn php_fpm_gets_large_bodies_and_the_edge_its_files() {
    let folder = Directory::new();
    let Some(_fpm) = start(&folder) else {
        install::skipped("php-fpm is not installed");
        return;
    };
    folder.write("echo.php", SCRIPT);
    folder.write("style.css", "body { margin: 0 }\n");
    let name = folder.path().display().to_string();
    let route = format!("* file/{name} fastcgi/{name}/fpm.sock,root={name}");
    let own = Own::start_in(folder, &["--route", &route]);
    let style = own.get("/style.css");
    assert_eq!(style.text(), "body { margin: 0 }\n");
    assert_eq!(
        style.header("content-type").as_deref(),
        Some("text/css; charset=utf-8")
    );
    assert_eq!(
        own.get("/echo.php").header("x-length").as_deref(),
        Some("none")
    );
    let body: Vec<u8> = (0..BYTES).map(|at| (at / 11 % 253) as u8).collect();
    for bytes in [0, 10, BYTES] {
        let answer = own
            .client()
            .request("POST", "/echo.php", &[], &body[..bytes]);
        assert_eq!(answer.status, 200);
        assert!(answer.body == body[..bytes], "{bytes} bytes come back");
    }
    // FastCGI has no chunks: the program is told a length all the same.
    for bytes in [10, BYTES] {
        let chunk = format!("{bytes:x}\r\n");
        let chunked = [chunk.as_bytes(), &body[..bytes], b"\r\n0\r\n\r\n"].concat();
        let headers = [("Transfer-Encoding", "chunked")];
        let answer = own
            .client()
            .request("POST", "/echo.php", &headers, &chunked);
        assert_eq!(answer.header("x-length"), Some(bytes.to_string()));
        assert!(answer.body == body[..bytes], "{bytes} bytes come back");
    }
}

#[test]
fn php_fpm_is_checked_by_its_ping() {
    let folder = Directory::new();
    let Some(_fpm) = start(&folder) else {
        install::skipped("php-fpm is not installed");
        return;
    };
    folder.write("echo.php", SCRIPT);
    let name = folder.path().display().to_string();
    let dead = format!("fastcgi/{name}/nobody.sock");
    let alive = format!("fastcgi/{name}/fpm.sock");
    let route = format!("*,id=r,check=/ping {dead},root={name} {alive},root={name}");
    let own = Own::start_in(folder, &["--route", &route]);
    let up = |target: &str| {
        let name = format!("fermata_edge_target_up{{route=\"r\",target=\"{target}\"}}");
        own.figure(&name)
    };
    wait_until("one is out", || (up(&dead) == Some(0)).then_some(()));
    assert_eq!(up(&alive), Some(1));
    assert_eq!(
        Client::open(own.port, "localhost").get("/echo.php").status,
        200
    );
}
