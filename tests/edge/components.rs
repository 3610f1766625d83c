//! A common deployment: a script under PHP-FPM, reached over FastCGI, with nginx in front of the
//! edge.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use fermata_testkit::{Directory, command_path, free_port, wait_until, workspace_root};

use crate::client::Client;

const SCRIPT: &str = r#"<?php

if (isset($_GET['empty'])) {
    http_response_code(204);
    flush();
    usleep(20000);
    exit;
}
$topic = $_GET['topic'] ?? '';
if ($topic !== '') {
    header('Content-Type: text/event-stream');
    header('Grip-Hold: stream');
    header('Grip-Channel: ' . $topic);
    header('Grip-Keep-Alive: :\n\n; format=cstring; timeout=55');
    print "event: message\ndata: stream open\n\n";
} else {
    header('Content-Type: text/plain');
    print "missing parameter: topic\n";
}
"#;
const EVENT: &str = "event: message\ndata: hello world\n\n";

/// Child processes, killed when the test ends.
#[derive(Default)]
pub struct Running(Vec<Child>);

impl Running {
    /// Starts a process with its output redirected to a file.
    pub fn start(&mut self, command: &mut Command, log: &Path) {
        let log = fs::File::create(log).expect("a log");
        let errors = log.try_clone().expect("a log");
        // A separate process group, because Apache stops its whole group.
        command.process_group(0).stdout(log).stderr(errors);
        let child = command.spawn();
        self.0.push(child.expect("it was looked at before"));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
    }
}

/// Returns the first code block of this language on a page of the documentation.
pub fn sample(page: &str, kind: &str) -> String {
    let path = workspace_root().join("docs").join(page);
    let text = fs::read_to_string(path).expect("a page");
    let (_, rest) = text.split_once(&format!("```{kind}\n")).expect("a block");
    let (block, _) = rest.split_once("\n```").expect("its end");
    format!("{block}\n")
}

/// Returns the first of these programs that is installed.
pub fn program(names: &[&'static str]) -> Option<&'static str> {
    let is_there = |name: &&&str| Path::new(*name).exists();
    names.iter().find(is_there).copied()
}

#[test]
fn php_fpm_behind_the_edge_behind_nginx() {
    let fpm = program(&[
        "/usr/sbin/php-fpm8.2",
        "/usr/sbin/php-fpm8.3",
        "/usr/sbin/php-fpm8.4",
    ]);
    let (Some(fpm), Some(nginx)) = (fpm, program(&["/usr/sbin/nginx"])) else {
        eprintln!("SKIPPED: php-fpm and nginx are not installed");
        return;
    };
    let folder = Directory::new();
    let name = folder.path().display().to_string();
    let ports = [free_port(), free_port(), free_port()];
    let [edge, control, front] = ports;
    folder.write("stream.php", SCRIPT);
    folder.write("held.php", sample("edge-php-fpm.md", "php"));
    folder.write(
        "fpm.conf",
        format!(
            "[global]\nerror_log = {name}/fpm.log\n[www]\nlisten = {name}/fpm.sock\nuser = root\ngroup = root\n\
            pm = static\npm.max_children = 2\n"
        ),
    );
    folder.write(
        "nginx.conf",
        format!(
            "daemon off;\npid {name}/nginx.pid;\nerror_log {name}/nginx.log;\nevents {{ }}\nhttp {{\naccess_log off;\n\
            server {{\nlisten 127.0.0.1:{front};\nlocation / {{\nproxy_pass http://127.0.0.1:{edge};\n\
            proxy_http_version 1.1;\nproxy_set_header Connection \"\";\nproxy_buffering off;\n}}\n}}\n}}\n"
        ),
    );
    let mut running = Running::default();
    let mut command = Command::new(fpm);
    command
        .args(["-F", "-R", "-y"])
        .arg(folder.join("fpm.conf"));
    running.start(&mut command, &folder.join("fpm.out"));
    let mut command = Command::new(nginx);
    command.arg("-c").arg(folder.join("nginx.conf"));
    running.start(&mut command, &folder.join("nginx.out"));
    let mut command = Command::new(command_path());
    command.args(["edge", "--workers", "2", "--listen"]);
    command.arg(format!("127.0.0.1:{edge}"));
    command.args(["--control", &format!("127.0.0.1:{control}"), "--route"]);
    command.arg(format!("* fastcgi/{name}/fpm.sock,root={name}"));
    running.start(&mut command, &folder.join("edge.out"));

    wait_until("all of them answer", || {
        let connected = ports.map(|port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        let answers = || {
            Client::open(front, "localhost")
                .get("/stream.php")
                .text()
                .to_owned()
        };
        (connected == [true; 3] && answers() == "missing parameter: topic\n").then_some(())
    });
    // The handler in the documentation.
    let mut client = Client::open(edge, "localhost");
    client.send("GET", "/held.php", &[], b"");
    assert_eq!(client.read_head().status, 200);
    client.read_until("event: message\ndata: welcome\n\n");
    // A response without a body releases its PHP-FPM child. There are only two children.
    for _ in 0..6 {
        let mut client = Client::open(edge, "localhost");
        assert_eq!(client.get("/stream.php?empty=1").status, 204);
        let head = client.request("HEAD", "/stream.php", &[], b"");
        assert_eq!(head.status, 200);
    }
    // Concurrent requests: no child stays bound to one worker while requests of another worker wait
    // for a child.
    let mut crowd: Vec<Client> = (0..12)
        .map(|_| {
            let mut client = Client::open(edge, "localhost");
            client.send("GET", "/stream.php", &[], b"");
            client
        })
        .collect();
    for client in &mut crowd {
        assert_eq!(client.read_head().status, 200);
    }
    // More clients than PHP-FPM has children, to show that held clients occupy none. Some connect
    // through nginx; both workers get clients.
    let mut clients: Vec<Client> = (0..8)
        .map(|at| {
            let mut client = Client::open(if at % 2 == 0 { edge } else { front }, "localhost");
            client.send("GET", "/stream.php?topic=test", &[], b"");
            assert_eq!(client.read_head().status, 200);
            client.read_until("data: stream open\n\n");
            client
        })
        .collect();
    let published = Command::new(command_path())
        .args(["publish", "--no-eol", "--spec"])
        .arg(format!("http://127.0.0.1:{control}"))
        .args(["test", EVENT])
        .output()
        .expect("our own program");
    assert_eq!(published.stdout, b"Published\n", "{published:?}");
    for client in &mut clients {
        assert_eq!(client.read_until(EVENT), EVENT);
    }
}
