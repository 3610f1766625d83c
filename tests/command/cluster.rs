//! `fermata cluster up`: servers that share a log, killed and started by typed commands.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use fermata_testkit::sse::Stream;
use fermata_testkit::{Connection, Directory, Signal, free_port, send_signal, wait_until};
use fermata_tests::fixture_path;

use super::{fermata, is_open, run};

struct Cluster {
    child: Child,
    ports: Vec<u16>,
    log_port: u16,
    proxy_port: u16,
    folder: Directory,
    said: Arc<Mutex<String>>,
}

impl Cluster {
    fn start(log: &str) -> Self {
        let folder = Directory::new();
        let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let (log_port, proxy_port) = (free_port(), free_port());
        let list: Vec<String> = ports.iter().map(u16::to_string).collect();
        let mut child = fermata(&["cluster", "up", "--ports", &list.join(",")])
            .args(["--log", log, "--log-port", &log_port.to_string()])
            .args(has_nginx().then(|| format!("--proxy={proxy_port}")))
            .arg(fixture_path("hub"))
            .env("TMPDIR", folder.path())
            // NATS reserves this size.
            .env("FERMATA_CLUSTER_BYTES_MAX", "16m")
            .env("FERMATA_PUBLISH_WAIT_MS_MAX", "60000")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("make has built it");
        let said = Arc::new(Mutex::new(String::new()));
        let (into, stderr) = (Arc::clone(&said), child.stderr.take().expect("it is piped"));
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut said = into.lock().expect("no other has panicked");
                *said += &line;
                said.push('\n');
            }
        });
        Self {
            child,
            ports,
            log_port,
            proxy_port,
            folder,
            said,
        }
    }

    fn said(&self) -> String {
        self.said.lock().expect("no other has panicked").clone()
    }

    /// Types a line and returns the output's length before it.
    fn enter(&mut self, line: &str) -> usize {
        let from = self.said().len();
        let stdin = self.child.stdin.as_mut().expect("it is piped");
        writeln!(stdin, "{line}").expect("it reads");
        from
    }

    fn wait_for(&self, from: usize, part: &str) {
        wait_until(&format!("{part:?} is said"), || {
            self.said()[from..].contains(part).then_some(())
        });
    }

    /// Waits until a server and the log are connected.
    fn wait_connected(&self, from: usize, number: usize) {
        wait_until(&format!("server {number} is connected"), || {
            let said = self.said();
            let mut lines = said[from..].lines();
            let own = format!("{number} | ");
            lines
                .any(|line| line.starts_with(&own) && line.contains("connected to the log"))
                .then_some(())
        });
    }

    fn connect(&self, number: usize) -> Connection {
        Connection::open(SocketAddr::from((
            Ipv4Addr::LOCALHOST,
            self.ports[number - 1],
        )))
    }

    fn publish(&self, number: usize, data: &str) {
        let response = self.connect(number).post("/publish/news", data);
        assert_eq!(response.status(), 200, "{}", response.text());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // On SIGTERM the command stops the processes that it has started.
        send_signal(self.child.id(), Signal::Terminate);
        let _ = self.child.wait();
    }
}

/// Waits until the workers of a killed server have detected this and closed the port.
fn wait_closed(port: u16) {
    wait_until(&format!("nobody listens on {port}"), || {
        (!is_open(port)).then_some(())
    });
}

fn servers_share_channels_though_some_of_it_is_killed(log: &str) {
    let mut cluster = Cluster::start(log);
    for number in 1..=3 {
        cluster.wait_connected(0, number);
    }
    let mut stream = Stream::open(cluster.connect(2), "/events", None);
    cluster.publish(1, "one");
    assert_eq!(stream.next_event().data, "one");
    refuses_foreign_hosts(&cluster);
    let from = cluster.enter("kill 1");
    cluster.wait_for(from, "server 1 has ended");
    wait_closed(cluster.ports[0]);
    cluster.publish(3, "two");
    assert_eq!(stream.next_event().data, "two");
    let from = cluster.enter("start 1");
    cluster.wait_connected(from, 1);
    cluster.publish(1, "three");
    assert_eq!(stream.next_event().data, "three");
    let from = cluster.enter("kill log");
    cluster.wait_for(from, "the log has ended");
    cluster.wait_for(from, "the log of the cluster is unreachable");
    let from = cluster.enter("start log");
    for number in 1..=3 {
        cluster.wait_connected(from, number);
    }
    let from = cluster.enter("kill bridge 3");
    cluster.wait_connected(from, 3);
    cluster.publish(3, "four");
    assert_eq!(stream.next_event().data, "four");
    let from = cluster.enter("kill worker 3");
    cluster.wait_for(from, "worker 0 ended pid=");
    let from = cluster.enter("kill 9");
    cluster.wait_for(from, "9 is no number of a server");
    let from = cluster.enter("status");
    cluster.wait_for(from, "connected to the log");
    drop(stream);
    if has_nginx() {
        the_proxy_gives_clients_to_servers_that_run(&mut cluster);
    }
    send_signal(cluster.child.id(), Signal::Interrupt);
    let status = cluster.child.wait().expect("it is our child");
    assert!(status.success(), "{status}:\n{}", cluster.said());
    for port in cluster.ports.iter().chain([&cluster.log_port]) {
        wait_closed(*port);
    }
    let rest = std::fs::read_dir(cluster.folder.path()).expect("our folder");
    assert_eq!(rest.count(), 0, "its folder is removed");
}

/// A site can point its name at 127.0.0.1 (DNS rebinding); its pages could then read from these
/// servers.
fn refuses_foreign_hosts(cluster: &Cluster) {
    let proxy = has_nginx().then_some(cluster.proxy_port);
    for port in cluster.ports.iter().copied().chain(proxy) {
        let status = |lines: &str| {
            let mut connection = Connection::open(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
            connection.send(format!("GET /history/news HTTP/1.1\r\n{lines}\r\n\r\n"));
            connection.read_response().status()
        };
        assert_eq!(status("Host: evil.example"), 403, "{port}");
        let lines =
            "Host: evil.example\r\nX-Forwarded-Host: localhost\r\nForwarded: host=localhost";
        assert_eq!(status(lines), 403, "{port}");
        assert_eq!(status("Host: localhost"), 200, "{port}");
    }
}

fn has_nginx() -> bool {
    Path::new("/usr/sbin/nginx").exists()
}

fn the_proxy_gives_clients_to_servers_that_run(cluster: &mut Cluster) {
    let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, cluster.proxy_port));
    let mut stream = Stream::open(Connection::open(proxy), "/events", None);
    cluster.publish(2, "five");
    assert_eq!(stream.next_event().data, "five");
    let from = cluster.enter("kill 1");
    cluster.wait_for(from, "server 1 has ended");
    for number in 0..6 {
        let response = Connection::open(proxy).post("/publish/news", number.to_string());
        assert_eq!(response.status(), 200, "{}", response.text());
    }
    let from = cluster.enter("kill proxy");
    cluster.wait_for(from, "the proxy has ended (signal 9)");
    let from = cluster.enter("start proxy");
    cluster.enter("status");
    cluster.wait_for(from, "nginx, runs");
    wait_until("the proxy listens", || {
        is_open(cluster.proxy_port).then_some(())
    });
    let response = Connection::open(proxy).post("/publish/news", "six");
    assert_eq!(response.status(), 200, "{}", response.text());
}

/// Returns the leader of the log's three servers, according to `status`.
fn wait_leader(cluster: &mut Cluster) -> usize {
    wait_until("a server leads", || {
        let from = cluster.enter("status");
        cluster.wait_for(from, "server 3  ");
        let said = cluster.said();
        let mut lines = said[from..].lines();
        let leader = lines.find(|line| line.ends_with(", leads"))?;
        let number = leader.strip_prefix("log ")?.split(' ').next()?;
        number.parse().ok()
    })
}

#[test]
fn of_three_servers_of_nats_the_one_that_leads_is_told_and_may_be_killed() {
    if !fermata_testkit::Nats::is_there() {
        return;
    }
    let mut cluster = Cluster::start("nats3");
    for number in 1..=3 {
        cluster.wait_connected(0, number);
    }
    // While no server leads, a bridge keeps changing servers of the log.
    wait_until("all bridges are connected", || {
        let from = cluster.enter("status");
        cluster.wait_for(from, "server 3  ");
        let connected = "  connected to the log at 127.0.0.1:";
        (cluster.said()[from..].matches(connected).count() == 3).then_some(())
    });
    let mut stream = Stream::open(cluster.connect(2), "/events", None);
    cluster.publish(1, "one");
    assert_eq!(stream.next_event().data, "one");
    let first = wait_leader(&mut cluster);
    let from = cluster.enter(&format!("kill log {first}"));
    cluster.wait_for(from, &format!("the log {first} has ended (signal 9)"));
    let second = wait_leader(&mut cluster);
    assert_ne!(first, second);
    // Publishers wait for the new leader.
    cluster.publish(3, "two");
    assert_eq!(stream.next_event().data, "two");
    cluster.enter("start log");
    let from = cluster.enter("kill log 4");
    cluster.wait_for(from, "4 is no number of a server of the log");
    wait_until("all three run", || {
        let from = cluster.enter("status");
        cluster.wait_for(from, "server 3  ");
        (cluster.said()[from..].matches("nats-server, runs").count() == 3).then_some(())
    });
    send_signal(cluster.child.id(), Signal::Interrupt);
    let status = cluster.child.wait().expect("it is our child");
    assert!(status.success(), "{status}:\n{}", cluster.said());
}

/// All processes that the command has started stop, and the next run removes their folder.
#[test]
fn what_it_has_started_ends_with_it_when_it_is_killed() {
    if !fermata_testkit::Nats::is_there() {
        return;
    }
    let mut cluster = Cluster::start("nats");
    for number in 1..=3 {
        cluster.wait_connected(0, number);
    }
    send_signal(cluster.child.id(), Signal::Kill);
    cluster.child.wait().expect("it is our child");
    let proxy = has_nginx().then_some(&cluster.proxy_port);
    for port in cluster.ports.iter().chain([&cluster.log_port]).chain(proxy) {
        wait_closed(*port);
    }
    let rest = || {
        fs::read_dir(cluster.folder.path())
            .expect("our folder")
            .count()
    };
    assert_eq!(rest(), 1);
    // This run fails because its port is in use, but only after it has removed the folder.
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let mut command = fermata(&[
        "cluster",
        "up",
        "--cluster",
        "nats://HOST",
        "--proxy",
        &port,
    ]);
    command
        .arg(fixture_path("hub"))
        .env("TMPDIR", cluster.folder.path());
    let (is_done, _, said) = run(&mut command);
    assert!(!is_done);
    assert!(
        said.contains(&format!("--proxy {port}: Address already in use")) || !has_nginx(),
        "{said}"
    );
    assert_eq!(rest(), 0);
}

#[test]
fn servers_share_channels_in_nats() {
    if fermata_testkit::Nats::is_there() {
        servers_share_channels_though_some_of_it_is_killed("nats");
    }
}

#[test]
fn servers_share_channels_in_redis() {
    if fermata_testkit::Redis::is_there() {
        servers_share_channels_though_some_of_it_is_killed("redis");
    }
}

/// Regression: earlier versions wrote the output to a file of unlimited size.
#[test]
fn what_a_log_writes_and_writes_is_kept_nowhere() {
    let folder = Directory::new();
    let log = folder.path().join("redis-server");
    // The output is larger than the maximum size of a file in this test; the last part of it is
    // shown.
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && exit\nyes | head -c 20000000\nsleep 1\necho no room left\nexit 3\n";
    fs::write(&log, script).expect("the folder is writable");
    fs::set_permissions(&log, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut child = fermata(&["cluster", "up", "--log", "redis"])
        .args(["--ports", &free_port().to_string()])
        .arg(fixture_path("hub"))
        .env("TMPDIR", folder.path())
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("make has built it");
    let said = BufReader::new(child.stderr.take().expect("it is piped"));
    let line = said
        .lines()
        .map_while(Result::ok)
        .find(|line| line.contains("the log has ended"));
    assert_eq!(
        line.as_deref(),
        Some("the log has ended (exit code 3): no room left; start log brings it back")
    );
    let found = files_below(folder.path());
    assert!(found.iter().all(|it| it.1 < 1 << 20), "{found:?}");
    assert!(send_signal(child.id(), Signal::Interrupt));
    child.wait().expect("it is our child");
}

/// Returns the files with their sizes.
fn files_below(folder: &Path) -> Vec<(PathBuf, u64)> {
    let entries = fs::read_dir(folder).expect("it is there").flatten();
    entries
        .flat_map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => files_below(&entry.path()),
            Ok(metadata) => vec![(entry.path(), metadata.len())],
            Err(_) => Vec::new(),
        })
        .collect()
}

#[test]
fn a_log_that_is_not_installed_is_named() {
    let mut command = fermata(&["cluster", "up", "--log", "redis"]);
    let folder = Directory::new();
    let (is_done, _, said) = run(command
        .arg(fixture_path("hub"))
        .env("FERMATA_PHP", php())
        .env("PATH", folder.path()));
    assert!(!is_done);
    assert!(said.contains("redis-server is not installed"), "{said}");
}

/// A test that another listener on the port is not mistaken for the log.
#[test]
fn a_port_that_is_taken_or_named_twice_is_told() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    for (arguments, expected) in [
        (
            ["--log-port", &port],
            format!("--log-port {port}: Address already in use"),
        ),
        (
            ["--ports", "8080,8081,8080"],
            "--ports names 8080 twice".to_owned(),
        ),
        (
            ["--proxy", "8081"],
            "--proxy and --ports both name 8081".to_owned(),
        ),
    ] {
        let mut command = fermata(&["cluster", "up"]);
        let (is_done, _, said) = run(command.args(arguments).arg(fixture_path("hub")));
        assert!(!is_done);
        assert!(said.contains(&expected), "{said}");
    }
}

/// Returns the path of PHP, for a command that runs without PATH.
fn php() -> String {
    let mut which = std::process::Command::new("sh");
    let (_, path, _) = run(which.args(["-c", "command -v \"${FERMATA_PHP:-php}\""]));
    path.trim().to_owned()
}
