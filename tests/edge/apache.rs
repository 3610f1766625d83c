//! Runs a PHP script under Apache with mod_php behind `fermata edge`: held `curl` clients, a
//! publish from the shell, and nginx with TLS in front.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use fermata_testkit::install::{skipped, works};
use fermata_testkit::{Directory, command_path, free_port, wait_until};

use crate::client::Client;
use crate::components::{Running, program, sample};

/// A backend script that prints the scheme and address of its client.
const WHO: &str = r#"<?php

print ($_SERVER["HTTP_X_FORWARDED_PROTO"] ?? "plain") . " " . $_SERVER["HTTP_X_FORWARDED_FOR"];
"#;
const MODULES: &str = "/usr/lib/apache2/modules";
const EVENT: &str = "event: message\ndata: hello world\n\n";

/// Returns an Apache configuration with two processes and one script.
fn apache_conf(folder: &str, port: u16, mod_php: &str) -> String {
    format!(
        "ServerRoot {folder}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {folder}/apache.pid\n\
        DefaultRuntimeDir {folder}\nMutex posixsem\nErrorLog {folder}/apache.log\n\
        LoadModule mpm_prefork_module {MODULES}/mod_mpm_prefork.so\n\
        LoadModule authz_core_module {MODULES}/mod_authz_core.so\n\
        LoadModule php_module {mod_php}\nUser www-data\nGroup www-data\n\
        StartServers 2\nMinSpareServers 1\nMaxSpareServers 2\nMaxRequestWorkers 2\n\
        DocumentRoot {folder}/www\n<FilesMatch \"\\.php$\">\nSetHandler application/x-httpd-php\n</FilesMatch>\n"
    )
}

/// Returns an nginx configuration with the servers of `docs/edge-nginx.md`.
fn nginx_conf(folder: &str, port: u16, edge: u16) -> String {
    let mut servers = sample("edge-nginx.md", "nginx");
    for (from, to) in [
        ("listen 443 ssl", format!("listen 127.0.0.1:{port} ssl")),
        ("127.0.0.1:7999", format!("127.0.0.1:{edge}")),
        ("/etc/ssl/example.crt", format!("{folder}/tls.crt")),
        ("/etc/ssl/example.key", format!("{folder}/tls.key")),
    ] {
        assert!(servers.contains(from), "{servers}");
        servers = servers.replace(from, &to);
    }
    format!(
        "daemon off;\npid {folder}/nginx.pid;\nerror_log {folder}/nginx.log;\nevents {{ }}\n\
        http {{\naccess_log off;\n{servers}}}\n"
    )
}

fn mod_php() -> Option<String> {
    let mut modules = fs::read_dir(MODULES).ok()?.filter_map(Result::ok);
    modules.find_map(|module| {
        let path = module.path().display().to_string();
        (path.contains("/libphp") && path.ends_with(".so")).then_some(path)
    })
}

#[test]
fn the_recipe_of_the_million_under_apache_and_behind_nginx() {
    let (Some(apache), Some(mod_php)) = (program(&["/usr/sbin/apache2"]), mod_php()) else {
        return skipped("Apache with mod_php is not installed");
    };
    let Some(nginx) = program(&["/usr/sbin/nginx"]) else {
        return skipped("nginx is not installed");
    };
    if !works("openssl", &["version"]) || !works("curl", &["--version"]) {
        return skipped("openssl or curl is not installed");
    }
    let folder = Directory::new();
    let name = folder.path().display().to_string();
    let ports = [free_port(), free_port(), free_port(), free_port()];
    let [origin, edge, control, front] = ports;
    folder.write("www/stream.php", sample("pushpin-users.md", "php"));
    folder.write("www/who.php", WHO);
    for path in ["", "www", "www/stream.php", "www/who.php"].map(|path| folder.join(path)) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own");
    }
    folder.write("apache.conf", apache_conf(&name, origin, &mod_php));
    folder.write("nginx.conf", nginx_conf(&name, front, edge));
    let certificate = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args([
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
        ])
        .args([
            "-keyout",
            &format!("{name}/tls.key"),
            "-out",
            &format!("{name}/tls.crt"),
        ])
        .output()
        .expect("it was tried before");
    assert!(certificate.status.success(), "{certificate:?}");

    let mut running = Running::default();
    let mut command = Command::new(apache);
    command
        .args(["-D", "FOREGROUND", "-f"])
        .arg(folder.join("apache.conf"));
    running.start(&mut command, &folder.join("apache.out"));
    let mut command = Command::new(nginx);
    command.arg("-c").arg(folder.join("nginx.conf"));
    running.start(&mut command, &folder.join("nginx.out"));
    let mut command = Command::new(command_path());
    command.args([
        "edge",
        "--workers",
        "2",
        "--accept-x-forwarded-protocol",
        "true",
    ]);
    command.args(["--listen", &format!("127.0.0.1:{edge}")]);
    command.args(["--control", &format!("127.0.0.1:{control}")]);
    command.args(["--route", &format!("* 127.0.0.1:{origin}")]);
    running.start(&mut command, &folder.join("edge.out"));
    wait_until("all of them answer", || {
        let connected = ports.map(|port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        let answer = || Client::open(edge, "localhost").get("/stream.php");
        (connected == [true; 4] && answer().text() == "missing parameter: topic\n").then_some(())
    });

    let curl = |target: &str| {
        let mut command = Command::new("curl");
        command
            .args(["--silent", "--no-buffer", "--max-time", "60", "--cacert"])
            .arg(folder.join("tls.crt"))
            .arg(format!("https://localhost:{front}{target}"));
        command
    };
    // Through nginx, the backend sees the scheme and address of a TLS client.
    let said = curl("/who.php").output().expect("it was tried before");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "https 127.0.0.1");

    // More clients than Apache has processes; the last is a curl that connects through nginx with
    // TLS.
    let mut clients: Vec<Client> = (0..6)
        .map(|_| {
            let mut client = Client::open(edge, "localhost");
            client.send("GET", "/stream.php?topic=test", &[], b"");
            assert_eq!(client.read_head().status, 200);
            client.read_until("data: stream open\n\n");
            client
        })
        .collect();
    let mut hanging = curl("/stream.php?topic=test");
    let mut hanging = hanging
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was tried before");
    let mut lines = BufReader::new(hanging.stdout.take().expect("piped")).lines();
    let mut read = |count: usize| {
        let lines = lines
            .by_ref()
            .take(count)
            .map(|line| line.expect("curl") + "\n");
        lines.collect::<String>()
    };
    assert_eq!(read(3), "event: message\ndata: stream open\n\n");
    let published = Command::new(command_path())
        .args(["publish", "--no-eol", "--spec"])
        .arg(format!("http://127.0.0.1:{control}"))
        .args(["test", EVENT])
        .output()
        .expect("our own program");
    assert_eq!(published.stdout, b"Published\n", "{published:?}");
    assert_eq!(read(3), EVENT);
    for client in &mut clients {
        assert_eq!(client.read_until(EVENT), EVENT);
    }
    let _ = hanging.kill();
    let _ = hanging.wait();
}
