//! FastCGI with a real PHP-FPM, if one is installed.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fermata_fastcgi::codec::{Event, Exchange, Head, HttpRequest, Request, Script, variables};

/// Maximum time for PHP-FPM to start and to respond.
const PATIENCE: Duration = Duration::from_secs(30);

const SCRIPT: &str = r#"<?php
header('Grip-Hold: stream');
header('X-Info: ' . ($_SERVER['PATH_INFO'] ?? '-') . ' ' . $_GET['q']);
http_response_code(201);
file_put_contents('php://stderr', 'from stderr');
error_log('from the log');
echo $_SERVER['HTTP_X_NAME'], ' ', strlen(file_get_contents('php://input')), ' ';
echo str_repeat('x', 200000);
"#;

struct Fpm {
    child: Child,
    folder: PathBuf,
}

impl Fpm {
    /// Returns `None` if none is installed.
    fn start() -> Option<Self> {
        let versions = ["8.2", "8.3", "8.4", "8.5"];
        let program = versions
            .iter()
            .map(|version| format!("/usr/sbin/php-fpm{version}"))
            .find(|path| fs::exists(path).unwrap_or(false));
        let Some(program) = program else {
            eprintln!("not run: no PHP-FPM in /usr/sbin");
            return None;
        };
        let folder = std::env::temp_dir().join(format!("fermata-fpm-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        fs::write(folder.join("a.php"), SCRIPT).expect("a file");
        let name = folder.display();
        let config = format!(
            "[global]\nerror_log={name}/log\ndaemonize=no\n[www]\nlisten={name}/socket\npm=static\npm.max_children=1\ncatch_workers_output=no\nphp_admin_value[error_log]=\n"
        );
        fs::write(folder.join("fpm.conf"), config).expect("a file");
        let child = Command::new(program)
            .args(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config"])
            .arg(folder.join("fpm.conf"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("an installed program");
        Some(Self { child, folder })
    }

    fn connect(&self) -> UnixStream {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(socket) = UnixStream::connect(self.folder.join("socket")) {
                socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
                return socket;
            }
            assert!(Instant::now() < deadline, "PHP-FPM does not listen");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        // SIGTERM, so that its children exit too.
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn ask(socket: &mut UnixStream, root: &str, target: &str, body: &[u8]) -> (Head, Vec<u8>, Vec<u8>) {
    let address: SocketAddr = "127.0.0.1:80".parse().expect("an address");
    let request = HttpRequest {
        method: b"POST",
        target: target.as_bytes(),
        prefix: "",
        protocol: "HTTP/1.1",
        headers: &[
            (b"X-Name", b"fermata"),
            (b"Content-Type", b"application/octet-stream"),
        ],
        content_bytes: Some(body.len() as u64),
        client: address,
        server: address,
        host: b"localhost",
        is_tls: false,
    };
    let variables = variables(&request, Script::Path { root }).expect("a script");
    let mut out = Vec::new();
    Request::begin(&mut out, true).params(
        variables
            .iter()
            .map(|(name, value)| (&name[..], &value[..])),
    );
    Request::body(&mut out, body);
    Request::body_end(&mut out);
    socket.write_all(&out).expect("a program that reads");

    let (mut exchange, mut events, mut buffer) = (Exchange::default(), Vec::new(), [0; 4096]);
    while !exchange.is_complete() {
        let len = socket.read(&mut buffer).expect("an answer");
        assert!(len > 0, "PHP-FPM closed the connection");
        exchange
            .handle(&buffer[..len], &mut events)
            .expect("valid records");
    }
    let (mut head, mut body, mut stderr) = (None, Vec::new(), Vec::new());
    for event in events {
        match event {
            Event::Interim(found) => panic!("an interim head: {found:?}"),
            Event::Head(found) => head = Some(found),
            Event::Body(piece) => body.extend(piece),
            Event::Stderr(piece) => stderr.extend(piece),
            Event::End { exit_status } => assert_eq!(exit_status, 0),
        }
    }
    (head.expect("a head"), body, stderr)
}

#[test]
fn php_fpm_serves_two_requests_on_one_connection() {
    let Some(fpm) = Fpm::start() else {
        return;
    };
    let root = fpm.folder.display().to_string();
    let mut socket = fpm.connect();
    // The second request tests the kept connection, the large body its splitting.
    for len in [5, 100_000] {
        let (head, body, stderr) = ask(&mut socket, &root, "/a.php/in/fo?q=1", &vec![b'b'; len]);
        assert_eq!(head.status, 201);
        let header = |name: &str| {
            let found = head
                .headers
                .iter()
                .find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
            found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        };
        assert_eq!(header("Grip-Hold").as_deref(), Some("stream"));
        assert_eq!(header("X-Info").as_deref(), Some("/in/fo 1"));
        let start = format!("fermata {len} ");
        assert!(
            body.starts_with(start.as_bytes()),
            "{}",
            body[..40].escape_ascii()
        );
        assert_eq!(body.len(), start.len() + 200_000);
        assert!(
            String::from_utf8_lossy(&stderr).contains("from the log"),
            "{}",
            stderr.escape_ascii()
        );
    }
    let (head, _, _) = ask(&mut socket, &root, "/missing.php?q=1", b"");
    assert_eq!(head.status, 404);
}
