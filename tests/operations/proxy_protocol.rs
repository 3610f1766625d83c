//! Listeners with PROXY protocol headers, behind real proxies and malicious clients.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use fermata_testkit::install::{skipped, works};
use fermata_testkit::{Builder, Directory, Server, free_port, wait_until};
use fermata_tests::{fixture, stats};

/// The address of the clients.
const CLIENT: &str = "127.0.0.3";

const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n";

fn builder() -> Builder {
    let builder = fixture("who").workers(1).control();
    builder.setting("listen", "http://127.0.0.1:0?proxy_protocol=on")
}

fn refused(server: &Server, count: u64) {
    wait_until("the figures show it", || {
        let refused = &stats(server)["total"]["connections_refused"]["proxy_protocol"];
        (*refused == count).then_some(())
    });
}

/// Returns the client information for a connection that starts with `preface`; empty if there is no
/// response.
fn told(server: &Server, preface: &[u8]) -> String {
    let mut connection = server.connect();
    let _ = connection.try_send([preface, ASK.as_bytes()].concat());
    match connection.try_read_response(false) {
        Ok(response) => response.text().to_owned(),
        Err(_) => String::new(),
    }
}

fn binary(family: u8, addresses: &[u8]) -> Vec<u8> {
    let len = (addresses.len() as u16).to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n\x21", &[family][..], &len, addresses].concat()
}

#[test]
fn the_client_is_whom_the_header_names() {
    let server = builder().start();
    for (preface, client) in [
        (
            b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 80\r\n".to_vec(),
            "192.0.2.7",
        ),
        (
            b"PROXY TCP6 2001:db8::7 ::1 4711 80\r\n".to_vec(),
            "2001:db8::7",
        ),
        (
            binary(0x11, &[192, 0, 2, 8, 10, 0, 0, 1, 1, 1, 0, 80]),
            "192.0.2.8",
        ),
        // The proxy sends no address, and the address in the request is not from the proxy.
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
    ] {
        assert_eq!(told(&server, &preface), format!("{client} http a"));
    }
    // Send the header byte by byte, with a second request after it.
    let mut connection = server.connect();
    for byte in b"PROXY TCP4 192.0.2.9 10.0.0.1 4711 80\r\n" {
        connection.send([*byte]);
    }
    for _ in 0..2 {
        connection.send(ASK);
        assert_eq!(connection.read_response().text(), "192.0.2.9 http a");
    }
}

#[test]
fn a_peer_without_the_header_or_no_proxy_is_closed_unanswered() {
    let server = builder().setting("header_timeout_ms", 300).start();
    assert_eq!(told(&server, b""), "");
    assert_eq!(told(&server, b"PROXY TCP4 nobody 10.0.0.1 1 80\r\n"), "");
    assert_eq!(told(&server, &binary(0x11, &[1, 2, 3])), "");
    server
        .log()
        .wait_for(0, "does not begin with a PROXY protocol header");
    // Send an incomplete header.
    let mut connection = server.connect();
    connection.send("PROXY TCP4 192.0.2.7");
    connection.expect_end();
    refused(&server, 4);

    let server = builder().setting("trusted_proxies", "10.0.0.0/8").start();
    assert_eq!(told(&server, b"PROXY TCP4 192.0.2.7 10.0.0.1 1 80\r\n"), "");
    server.log().wait_for(0, "it is not in trusted_proxies");
    refused(&server, 1);

    let exited = builder().setting("trusted_proxies", "").start_refused();
    exited.log.wait_for(0, "trusted_proxies is empty");
}

#[test]
fn the_limit_per_address_counts_clients_and_not_the_proxy() {
    let server = builder().setting("connections_per_address_max", 2).start();
    let open = |client: &str| {
        let mut connection = server.connect();
        connection.send(format!("PROXY TCP4 {client} 10.0.0.1 1 80\r\n{ASK}"));
        let answer = connection.try_read_response(false);
        (connection, answer.is_ok())
    };
    let first: Vec<_> = (0..2).map(|_| open("192.0.2.1")).collect();
    let second: Vec<_> = (0..2).map(|_| open("192.0.2.2")).collect();
    assert!(first.iter().chain(&second).all(|(_, is_served)| *is_served));
    assert!(!open("192.0.2.1").1);
    drop(first);
    wait_until("there is room again", || open("192.0.2.1").1.then_some(()));
}

#[test]
fn tls_begins_behind_the_header() {
    if !works("curl", &["--version"]) || !works("openssl", &["version"]) {
        return skipped("curl or openssl is not installed");
    }
    let builder = fixture("who").workers(1);
    let home = builder.directory().path().display().to_string();
    let server = builder
        .env("XDG_DATA_HOME", &home)
        .setting("listen", "https://127.0.0.1:0?proxy_protocol=on")
        .setting("tls_development", "on")
        .start();
    let url = format!("https://localhost:{}/", server.address().port());
    for _ in 0..3 {
        let mut command = Command::new("curl");
        command.args(["--silent", "--max-time", "30", "--haproxy-protocol"]);
        command.args(["--interface", "127.0.0.1", "--ipv4", "--cacert"]);
        command.arg(format!("{home}/fermata/localhost-ca.pem"));
        let output = command.arg(&url).output().expect("curl");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(
            told,
            format!("127.0.0.1 https localhost:{}", server.address().port())
        );
    }
    assert_eq!(told(&server, b"PROXY TCP4 192.0.2.7 10.0.0.1 1 80\r\n"), "");
}

/// A proxy that is stopped when the test ends.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Returns the client information that the application sees behind the proxy started by `command`.
fn told_behind(mut command: Command, folder: &Directory, port: u16) -> (Proxy, String) {
    let log = fs::File::create(folder.join("proxy.out")).expect("a log");
    let errors = log.try_clone().expect("a log");
    command.process_group(0).stdout(log).stderr(errors);
    let proxy = Proxy(command.spawn().expect("it was looked at before"));
    let told = wait_until("the proxy passes connections on", || {
        let mut command = Command::new("curl");
        command.args(["--silent", "--max-time", "30", "--interface", CLIENT]);
        command.args(["-H", "Host: a", "-H", "X-Forwarded-For: 6.6.6.6"]);
        let output = command.arg(format!("http://127.0.0.1:{port}/")).output();
        let told = String::from_utf8_lossy(&output.expect("curl").stdout).into_owned();
        (!told.is_empty()).then_some(told)
    });
    (proxy, told)
}

#[test]
fn haproxy_names_its_clients_in_both_versions() {
    let haproxy = "/usr/sbin/haproxy";
    if !Path::new(haproxy).exists() || !works("curl", &["--version"]) {
        return skipped("HAProxy or curl is not installed");
    }
    let server = builder().start();
    for option in ["send-proxy", "send-proxy-v2"] {
        let (folder, port) = (Directory::new(), free_port());
        let conf = format!(
            "defaults\n mode tcp\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n\
            listen front\n bind 127.0.0.1:{port}\n server app {} {option}\n",
            server.address()
        );
        folder.write("haproxy.cfg", conf);
        let mut command = Command::new(haproxy);
        command.arg("-db").arg("-f").arg(folder.join("haproxy.cfg"));
        let (_proxy, told) = told_behind(command, &folder, port);
        assert_eq!(told, format!("{CLIENT} http a"), "{option}");
    }
}

#[test]
fn nginx_names_its_clients() {
    let (nginx, module) = (
        "/usr/sbin/nginx",
        "/usr/lib/nginx/modules/ngx_stream_module.so",
    );
    if !Path::new(nginx).exists() || !Path::new(module).exists() {
        return skipped("nginx with its stream module is not installed");
    }
    let server = builder().start();
    let (folder, port) = (Directory::new(), free_port());
    let name = folder.path().display();
    let conf = format!(
        "load_module {module};\ndaemon off;\npid {name}/nginx.pid;\nerror_log {name}/nginx.log;\nevents {{ }}\n\
        stream {{\nserver {{\nlisten 127.0.0.1:{port};\nproxy_pass {};\nproxy_protocol on;\n}}\n}}\n",
        server.address()
    );
    folder.write("nginx.conf", conf);
    let mut command = Command::new(nginx);
    command.arg("-c").arg(folder.join("nginx.conf"));
    let (_proxy, told) = told_behind(command, &folder, port);
    assert_eq!(told, format!("{CLIENT} http a"));
}
