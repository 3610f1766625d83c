//! PHP-FPM directly behind the edge: large bodies, files next to the scripts, and health checks
//! with its ping page.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use fermata_testkit::{Directory, install, wait_until};

use crate::client::Client;
use crate::own::Own;

/// A script that returns the request's body or facts about it.
const SCRIPT: &str = "<?php\nheader('X-Length: ' . ($_SERVER['CONTENT_LENGTH'] ?? 'none'));\nreadfile('php://input');\n";

/// Larger than the maximum size of a held request's body.
const BYTES: usize = 300_000;

pub struct Fpm(Child);

impl Drop for Fpm {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Starts PHP-FPM in a folder; `None` if it is not installed.
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
    // FastCGI has no chunked coding, so the edge passes the length to the script.
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

/// Opens connections that send a request and do not read the response.
fn silent_clients(own: &Own, count: usize, path: &str) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(("127.0.0.1", own.port)).expect("it listens");
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it is open");
        stream
    };
    (0..count).map(connect).collect()
}

/// Starts an edge in front of PHP-FPM, with the scripts in its folder.
fn with_scripts(variables: &[(&str, &str)]) -> Option<(Fpm, Own, Directory)> {
    let folder = Directory::new();
    let fpm = start(&folder)?;
    folder.write(
        "huge.php",
        "<?php for ($i = 0; $i < 100; $i++) { echo str_repeat(chr(97 + $i % 26), 1_000_000); }",
    );
    folder.write("pid.php", "<?php echo getmypid();");
    let name = folder.path().display().to_string();
    let route = format!("* fastcgi/{name}/fpm.sock,root={name}");
    let own = Own::start_with(variables, &["--route", &route]);
    Some((fpm, own, folder))
}

#[test]
fn silent_clients_hold_no_child_of_php_fpm() {
    let variables = [
        ("FERMATA_EDGE_RESPONSE_SPOOL_ADDRESS_BYTES_MAX", "2g"),
        ("FERMATA_EDGE_RESPONSE_SPOOL_BYTES_MAX", "2g"),
    ];
    let Some((_fpm, own, _folder)) = with_scripts(&variables) else {
        return;
    };
    let mut clients = silent_clients(&own, 8, "/huge.php");
    assert_eq!(own.get("/pid.php").status, 200);
    let mut last = clients.pop().expect("there are some");
    let mut response = Vec::new();
    last.read_to_end(&mut response).expect("it is not cut off");
    let letters = |letter: u8| response.iter().filter(|&&byte| byte == letter).count();
    assert!(letters(b'z') >= 3_000_000 && letters(b'a') >= 4_000_000);
    assert!(response.len() > 100_000_000 && response.ends_with(b"\r\n0\r\n\r\n"));
}

#[test]
fn one_address_holds_no_more_children_of_php_fpm_than_it_may() {
    let variables = [
        ("FERMATA_EDGE_RESPONSE_SPOOL_BYTES_MAX", "1m"),
        ("FERMATA_EDGE_RESPONSE_WAITS_PER_ADDRESS_MAX", "1"),
    ];
    let Some((_fpm, own, _folder)) = with_scripts(&variables) else {
        return;
    };
    // Each client occupies a child for at most two seconds (`SILENT_MS`), so the number of clients determines how long others wait.
    let _clients = silent_clients(&own, 10, "/huge.php");
    assert_eq!(own.get("/pid.php").status, 200);
    // The one client that may occupy a child is served when it reads.
    let mut late = silent_clients(&own, 1, "/huge.php").remove(0);
    let mut response = Vec::new();
    late.read_to_end(&mut response).expect("it is not cut off");
    assert!(response.len() > 100_000_000);
}

#[test]
fn a_client_that_sends_slowly_holds_no_child_of_php_fpm() {
    let Some((_fpm, own, folder)) = with_scripts(&[]) else {
        return;
    };
    folder.write("echo.php", SCRIPT);
    let mut slow = silent_clients(&own, 0, "");
    for _ in 0..4 {
        let mut stream = TcpStream::connect(("127.0.0.1", own.port)).expect("it listens");
        let head = "POST /echo.php HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("it is open");
        stream.write_all(&[b'x'; 200_000]).expect("it is open");
        slow.push(stream);
    }
    assert_eq!(own.get("/pid.php").status, 200);
}
