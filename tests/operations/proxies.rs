//! Clients that forge their address, through the proxies of the documentation: nginx, Apache and
//! the edge.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use fermata_testkit::install::{skipped, works};
use fermata_testkit::{Directory, Server, command_path, free_port, wait_until, workspace_root};
use fermata_tests::{fixture, stats};

const NGINX: &str = "/usr/sbin/nginx";
const APACHE: &str = "/usr/sbin/apache2";
const MODULES: &str = "/usr/lib/apache2/modules";

/// The address of the lying client, which is not a trusted proxy.
const CLIENT: &str = "127.0.0.2";

/// Headers that could identify a client.
const FORGED: [&str; 9] = [
    "Forwarded: for=6.6.6.6;proto=https;host=evil.example",
    "X-Forwarded-For: 6.6.6.6",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: evil.example",
    "X-Forwarded-Port: 443",
    "X-Real-IP: 6.6.6.6",
    "X_Forwarded_For: 6.6.6.6",
    "X_Forwarded_Proto: https",
    "Client-IP: 6.6.6.6",
];

/// A proxy that is stopped when the test ends.
struct Proxy {
    child: Child,
    port: u16,
}

impl Proxy {
    /// Starts a proxy with its output in a file of `folder`, and waits until it forwards requests.
    fn start(mut command: Command, folder: &Directory, port: u16) -> Proxy {
        let path = folder.join("proxy.out");
        let log = fs::File::create(&path).expect("a log");
        let errors = log.try_clone().expect("a log");
        // A separate process group, because Apache stops its whole group.
        command.process_group(0).stdout(log).stderr(errors);
        let child = command.spawn().expect("it was looked at before");
        let proxy = Proxy { child, port };
        wait_until("the proxy passes requests on", || {
            proxy.ask(&[]).contains(CLIENT).then_some(())
        });
        proxy
    }

    /// Returns the client information that the application behind the proxy sees for these headers.
    fn ask(&self, headers: &[&str]) -> String {
        ask(&format!("http://127.0.0.1:{}/", self.port), headers)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let _ = self.child.wait();
    }
}

fn ask(url: &str, headers: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--max-time", "30", "--interface", CLIENT]);
    command.args(["-H", "Host: chat.example.org"]);
    for header in headers {
        command.args(["-H", header]);
    }
    let output = command.arg(url).output().expect("curl");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns every header separately, and all together.
fn attacks() -> impl Iterator<Item = Vec<&'static str>> {
    let alone = FORGED.iter().map(|header| vec![*header]);
    alone.chain([FORGED.to_vec(), FORGED[1..].to_vec()])
}

fn is_there(program: &str) -> bool {
    Path::new(program).exists() && works("curl", &["--version"])
}

/// Returns the code block of this language in `docs/deploy.md` that contains `part`.
fn sample(kind: &str, part: &str) -> String {
    let path = workspace_root().join("docs/deploy.md");
    let text = fs::read_to_string(path).expect("a page");
    let opening = format!("```{kind}\n");
    let mut blocks = text.split(&opening).skip(1);
    let block = blocks.find_map(|rest| {
        let (block, _) = rest.split_once("\n```")?;
        block.contains(part).then(|| format!("{block}\n"))
    });
    block.expect("a block")
}

/// Returns a sample without TLS, and without lines that contain any of `parts`.
fn without(sample: &str, parts: &[&str]) -> String {
    let lines = sample.lines().filter(|line| {
        let words = line.trim_start();
        !parts.iter().any(|part| line.contains(part))
            && !words.starts_with("ssl_")
            && !words.starts_with("SSL")
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// Starts nginx as documented, in front of `server`.
fn nginx(folder: &Directory, server: &Server, left_out: &[&str]) -> Proxy {
    let port = free_port();
    let servers = without(&sample("nginx", "proxy_pass http://fermata"), left_out)
        .replace("listen 443 ssl http2", &format!("listen 127.0.0.1:{port}"))
        .replace("127.0.0.1:8080", &server.address().to_string());
    let name = folder.path().display();
    let conf = format!(
        "daemon off;\npid {name}/nginx.pid;\nerror_log {name}/nginx.log;\nevents {{ }}\n\
        http {{\naccess_log off;\nunderscores_in_headers on;\n{servers}}}\n"
    );
    folder.write("nginx.conf", conf);
    let mut command = Command::new(NGINX);
    command.arg("-c").arg(folder.join("nginx.conf"));
    Proxy::start(command, folder, port)
}

#[test]
fn nginx_as_documented_lets_no_client_speak_for_another() {
    if !is_there(NGINX) {
        return skipped("nginx or curl is not installed");
    }
    let server = fixture("who").workers(1).control().start();
    let folder = Directory::new();
    let proxy = nginx(&folder, &server, &[]);
    for headers in attacks() {
        let told = proxy.ask(&headers);
        assert_eq!(told, "127.0.0.2 http chat.example.org", "{headers:?}");
    }
    assert_eq!(stats(&server)["total"]["proxy_headers_ignored"], 0);
}

#[test]
fn nginx_that_passes_headers_on_is_not_believed_in_their_place() {
    if !is_there(NGINX) {
        return skipped("nginx or curl is not installed");
    }
    let server = fixture("who").workers(1).control().start();
    let folder = Directory::new();
    let passed = ["Forwarded \"\"", "X-Forwarded-Host \"\""];
    let proxy = nginx(&folder, &server, &passed);
    for headers in attacks() {
        // A request with both kinds of headers is ambiguous, so the server uses the proxy's address.
        let is_both = headers.iter().any(|it| it.starts_with("Forwarded"));
        let address = if is_both { "127.0.0.1" } else { CLIENT };
        let told = proxy.ask(&headers);
        assert_eq!(
            told,
            format!("{address} http chat.example.org"),
            "{headers:?}"
        );
    }
    server.log().wait_for(0, "forwarded a Forwarded header");
    wait_until("the figures show it", || {
        (stats(&server)["total"]["proxy_headers_ignored"] == 2).then_some(())
    });
}

#[test]
fn apache_as_documented_lets_no_client_speak_for_another() {
    let modules = ["proxy", "proxy_http", "headers", "mpm_event", "authz_core"];
    let path = |module: &str| format!("{MODULES}/mod_{module}.so");
    if !is_there(APACHE) || !modules.iter().all(|it| Path::new(&path(it)).exists()) {
        return skipped("Apache or curl is not installed");
    }
    let server = fixture("who").workers(1).start();
    let folder = Directory::new();
    let port = free_port();
    let host = without(&sample("apache", "ProxyPass"), &[])
        .replace("*:443", &format!("127.0.0.1:{port}"))
        .replace("127.0.0.1:8080", &server.address().to_string());
    let name = folder.path().display();
    let loaded: String = modules
        .iter()
        .map(|it| format!("LoadModule {it}_module {}\n", path(it)))
        .collect();
    let conf = format!(
        "ServerRoot {name}\nListen 127.0.0.1:{port}\nPidFile {name}/apache.pid\nDefaultRuntimeDir {name}\n\
        Mutex posixsem\nErrorLog {name}/apache.log\nServerName localhost\n{loaded}User www-data\nGroup www-data\n\
        StartServers 1\nThreadsPerChild 4\nMaxRequestWorkers 4\nMinSpareThreads 1\nMaxSpareThreads 4\n{host}"
    );
    folder.write("apache.conf", conf);
    let mut command = Command::new(APACHE);
    command
        .args(["-D", "FOREGROUND", "-f"])
        .arg(folder.join("apache.conf"));
    let proxy = Proxy::start(command, &folder, port);
    for headers in attacks() {
        let told = proxy.ask(&headers);
        assert_eq!(told, "127.0.0.2 http chat.example.org", "{headers:?}");
    }
}

#[test]
fn a_client_without_a_proxy_is_not_believed() {
    if !works("curl", &["--version"]) {
        return skipped("curl is not installed");
    }
    let server = fixture("who").workers(1).start();
    let url = format!("http://{}/", server.address());
    for headers in attacks() {
        let told = ask(&url, &headers);
        assert_eq!(told, "127.0.0.2 http chat.example.org", "{headers:?}");
    }
}

#[test]
fn the_edge_lets_no_client_speak_for_another() {
    if !works("curl", &["--version"]) {
        return skipped("curl is not installed");
    }
    let server = fixture("who").workers(1).start();
    let folder = Directory::new();
    let port = free_port();
    let mut command = Command::new(command_path());
    command.args(["edge", "--workers", "1"]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    command.args(["--control", &format!("127.0.0.1:{}", free_port())]);
    command.args(["--route", &format!("* {}", server.address())]);
    let proxy = Proxy::start(command, &folder, port);
    for headers in attacks() {
        let told = proxy.ask(&headers);
        assert_eq!(told, "127.0.0.2 http chat.example.org", "{headers:?}");
    }
}
