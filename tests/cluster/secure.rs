//! Logs with TLS and passwords: which credentials are accepted, how a server reports wrong
//! credentials, and that no output contains secrets.

use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use fermata_testkit::sse::Stream;
use fermata_testkit::{
    Builder, Connection, Directory, LogServer, Nats, Php, Redis, Server, command_path, free_port,
    wait_until,
};
use fermata_tests::{fixture, publish};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use serde_json::Value;

use crate::node::{PATIENT_MS, bridge_pid, wait_ready};

/// A secret that must not appear anywhere, and its unique part.
const SECRET: &str = "PLANTED-hunter2";
const MARK: &str = "hunter2";

/// A log that requires a certificate and a password; killed when dropped.
struct Secure {
    kind: &'static str,
    /// Users of a NATS server.
    users: String,
    directory: Directory,
    port: u16,
    child: Option<Child>,
}

/// Returns an authority that signs certificates.
fn authority(directory: &Directory, name: &str) -> Issuer<'static, KeyPair> {
    let key = KeyPair::generate().expect("there is randomness");
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params
        .distinguished_name
        .push(DnType::CommonName, format!("authority {name}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).expect("it can sign");
    directory.write(&format!("{name}.crt"), certificate.pem());
    Issuer::new(params, key)
}

/// Writes a certificate for a host to NAME.crt and its key to NAME.key.
fn certificate(
    directory: &Directory,
    name: &str,
    host: &str,
    ends: i32,
    issuer: &Issuer<'static, KeyPair>,
) {
    let key = KeyPair::generate().expect("there is randomness");
    let mut params = CertificateParams::new(vec![host.to_owned()]).expect("it is a name");
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(ends, 1, 1);
    let certificate = params.signed_by(&key, issuer).expect("it can be signed");
    directory.write(&format!("{name}.crt"), certificate.pem());
    directory.write(&format!("{name}.key"), key.serialize_pem());
}

impl Secure {
    fn start(kind: &'static str) -> Option<Secure> {
        let user = format!("authorization {{ user: app, password: \"{SECRET}\" }}");
        Secure::for_users(kind, user)
    }

    fn for_users(kind: &'static str, users: String) -> Option<Secure> {
        let is_there = match kind {
            "nats" => Nats::is_there(),
            _ => Redis::is_there(),
        };
        if !is_there {
            return None;
        }
        let directory = Directory::new();
        let own = authority(&directory, "ca");
        let other = authority(&directory, "other-ca");
        certificate(&directory, "server", "127.0.0.1", 2100, &own);
        certificate(&directory, "expired", "127.0.0.1", 2021, &own);
        certificate(&directory, "elsewhere", "log.example", 2100, &own);
        certificate(&directory, "client", "client.example", 2100, &own);
        certificate(&directory, "stranger", "client.example", 2100, &other);
        directory.write("password", format!("{SECRET}\n"));
        let mut log = Secure {
            kind,
            users,
            directory,
            port: 0,
            child: None,
        };
        wait_until("the log has a port", || {
            log.port = free_port();
            log.begin("server").then_some(())
        });
        Some(log)
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// Starts the log with a certificate. Returns false if the process exited because the port is
    /// in use.
    fn begin(&mut self, certificate: &str) -> bool {
        let (port, folder) = (self.port, self.directory.path().display());
        let (command, text) = match self.kind {
            "nats" => (
                "nats-server",
                format!(
                    "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{folder}\" }}\n\
                     tls {{ cert_file: \"{folder}/{certificate}.crt\", key_file: \"{folder}/{certificate}.key\", \
                     ca_file: \"{folder}/ca.crt\", verify: true, timeout: 5 }}\n{}\n",
                    self.users
                ),
            ),
            _ => (
                "redis-server",
                format!(
                    "bind 127.0.0.1\nport 0\ntls-port {port}\ndir {folder}\nsave \"\"\nappendonly yes\n\
                     tls-cert-file {folder}/{certificate}.crt\ntls-key-file {folder}/{certificate}.key\n\
                     tls-ca-cert-file {folder}/ca.crt\ntls-auth-clients yes\n\
                     user default off\nuser app on >{SECRET} ~{{fermata}}:* &{{fermata}}:new +@all\n"
                ),
            ),
        };
        self.directory.write("log.conf", text);
        let mut server = Command::new(command);
        if self.kind == "nats" {
            server.arg("-c");
        }
        let child = server
            .arg(self.directory.join("log.conf"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it can be started");
        let child = self.child.insert(child);
        wait_until("the log listens or ends", || {
            let is_over = child.try_wait().expect("it is our child").is_some();
            let is_there = TcpStream::connect(("127.0.0.1", port)).is_ok();
            (is_over || is_there).then_some(!is_over)
        })
    }

    fn restart(&mut self, certificate: &str) {
        self.kill();
        wait_until("the log has its port again", || {
            self.begin(certificate).then_some(())
        });
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Returns the URL schemes with and without TLS.
    fn schemes(&self) -> [&'static str; 2] {
        match self.kind {
            "nats" => ["tls", "nats"],
            _ => ["rediss", "redis"],
        }
    }

    /// Returns a server that can use this log, with these credentials in the URL.
    fn node(&self, account: &str) -> Builder {
        node(&format!(
            "{}://{account}127.0.0.1:{}",
            self.schemes()[0],
            self.port
        ))
        .setting("cluster_ca", self.path("ca.crt"))
        .setting("cluster_certificate", self.path("client.crt"))
        .setting("cluster_key", self.path("client.key"))
    }

    /// Returns a server that reads user and password from a file.
    fn node_with_file(&self) -> Builder {
        self.node("")
            .setting("cluster_user", "app")
            .setting("cluster_password_file", self.path("password"))
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        self.kill();
    }
}

fn node(servers: &str) -> Builder {
    fixture("hub")
        .setting("cluster", servers)
        .setting("cluster_bytes_max", "16m")
        .setting("metrics_listen", "http://127.0.0.1:0")
        .setting("publish_wait_ms_max", PATIENT_MS)
        .setting("log_level", "debug")
        .workers(1)
}

/// Sends a request to a server's metrics address and returns the response.
fn ask(server: &Server, path: &str) -> String {
    let address = server.log().wait_map(0, "the address for metrics", |line| {
        let (_, address) = line.text.split_once("metrics and health at http://")?;
        address.trim().parse().ok()
    });
    Connection::open(address).get(path).text().to_owned()
}

#[track_caller]
fn check(what: &str, text: &str) {
    if let Some(line) = text.lines().find(|line| line.contains(MARK)) {
        panic!("{what}: {line}");
    }
}

/// Asserts that no output of a server contains the secret.
fn check_server(server: &Server) {
    check("log", &server.log().text());
    for path in ["/metrics", "/stats", "/health/ready", "/health/live"] {
        check(path, &ask(server, path));
    }
    for pid in [server.pid(), bridge_pid(server)] {
        for file in ["cmdline", "comm", "status"] {
            // The bridge may be restarting.
            let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            check(file, &String::from_utf8_lossy(&text));
        }
    }
}

fn three_servers_share_a_log_behind_tls_and_no_secret_is_shown(log: &Secure) {
    let nodes = [
        log.node_with_file().control().start(),
        log.node("")
            .setting("cluster_user", "app")
            .setting("cluster_password", SECRET)
            .start(),
        log.node(&format!("app:{SECRET}@")).start(),
    ];
    for node in &nodes {
        wait_ready(node, 200);
    }
    let mut streams = nodes
        .each_ref()
        .map(|node| Stream::open(node.connect(), "/events", None));
    // Each event is larger than a TLS record, and all events together are larger than one read.
    let large = "x".repeat(40_000);
    for (number, node) in nodes.iter().cycle().take(30).enumerate() {
        publish(node, "news", &format!("{number} {large}"));
    }
    for stream in &mut streams {
        for number in 0..30 {
            let data = stream.next_event().data;
            assert!(data == format!("{number} {large}"), "{}", &data[..20]);
        }
    }
    for node in &nodes {
        check_server(node);
    }
    let output = Command::new(command_path())
        .args(["top", "--once", "--control", &nodes[0].control()])
        .stdin(Stdio::null())
        .output()
        .expect("it can be started");
    assert!(output.status.success(), "{output:?}");
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    check("top", &String::from_utf8_lossy(&text));
}

/// Returns wrong settings with the expected messages.
fn wrong(log: &Secure) -> Vec<(&'static str, Builder, String)> {
    let [tls, plain] = log.schemes();
    let port = log.port;
    let good = || log.node_with_file();
    vec![
        (
            "authority",
            good().setting("cluster_ca", log.path("other-ca.crt")),
            "give the file of its authority in cluster_ca".to_owned(),
        ),
        (
            "no file",
            good().setting("cluster_ca", log.path("none.crt")),
            "cluster_ca: ".to_owned(),
        ),
        (
            "key",
            good().setting("cluster_key", log.path("stranger.key")),
            "cluster_key: ".to_owned(),
        ),
        (
            "stranger",
            good()
                .setting("cluster_certificate", log.path("stranger.crt"))
                .setting("cluster_key", log.path("stranger.key")),
            "give one in cluster_certificate".to_owned(),
        ),
        (
            "no certificate",
            node(&format!("{tls}://app:{SECRET}@127.0.0.1:{port}"))
                .setting("cluster_ca", log.path("ca.crt")),
            "give cluster_certificate and cluster_key".to_owned(),
        ),
        (
            "name",
            good().setting("cluster", format!("{tls}://localhost:{port}")),
            "the certificate of the server is not for localhost but for".to_owned(),
        ),
        (
            "password",
            log.node("")
                .setting("cluster_user", "app")
                .setting("cluster_password", format!("not-{SECRET}")),
            "check cluster_user and cluster_password_file".to_owned(),
        ),
        (
            "password in the address",
            log.node(&format!("app:not-{SECRET}@")),
            "check the user and password before the host in cluster".to_owned(),
        ),
        (
            "no password",
            log.node(""),
            "give cluster_user and cluster_password_file".to_owned(),
        ),
        (
            "no password file",
            good().setting("cluster_password_file", log.path("none")),
            "cluster_password_file: ".to_owned(),
        ),
        (
            "no TLS",
            node(&format!("{plain}://app:{SECRET}@127.0.0.1:{port}")),
            format!("write {tls}:// in cluster"),
        ),
    ]
}

fn what_is_wrong_is_named_and_clients_are_held(log: &Secure) {
    for (what, builder, expected) in wrong(log) {
        let server = builder.start();
        server.log().wait_for(0, &expected);
        let _held = Stream::open(server.connect(), "/events", None);
        assert_eq!(server.connect().get("/pid").status(), 200, "{what}");
        wait_until("why it is not ready", || {
            ask(&server, "/health/ready")
                .contains(&expected)
                .then_some(())
        });
        check_server(&server);
    }
}

fn tls_against_a_port_without_it_is_named(kind: &'static str) {
    let log = match kind {
        "nats" => LogServer::nats(),
        _ => LogServer::redis(),
    };
    let Some(log) = log else { return };
    let scheme = if kind == "nats" { "tls" } else { "rediss" };
    let server = node(&format!("{scheme}://127.0.0.1:{}", log.port())).start();
    server.log().wait_map(0, "what is wrong", |line| {
        let is_it = line.text.contains("the server has no TLS at this port")
            || line.text.contains("give the port at which it ");
        is_it.then_some(())
    });
    assert_eq!(server.connect().get("/pid").status(), 200);
}

/// After certificates and passwords are corrected on either side, the running server connects to
/// its log.
fn what_is_mended_needs_no_restart(mut log: Secure) {
    log.restart("expired");
    log.directory.write("password", "");
    let server = log.node_with_file().start();
    let mut stream = Stream::open(server.connect(), "/events", None);
    let file = "cluster_password_file: ";
    server.log().wait_for(0, file);
    log.directory.write("password", SECRET);
    server
        .log()
        .wait_for(0, "the certificate of the server has expired");
    log.restart("elsewhere");
    server.log().wait_for(0, "not for 127.0.0.1 but for");
    log.restart("server");
    wait_ready(&server, 200);
    // Each cause was logged once since the outage started.
    let text = server.log().text();
    assert_eq!(text.matches(file).count(), 1, "{text}");
    publish(&server, "news", "one");
    while stream.next_event().data != "one" {}
    check_server(&server);
}

/// A process that is killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_sentinel_behind_tls_names_the_master_and_shows_no_secret() {
    let Some(log) = Secure::start("redis") else {
        return;
    };
    let (port, folder) = (free_port(), log.directory.path().display());
    let text = format!(
        "bind 127.0.0.1\nport 0\ntls-port {port}\ntls-replication yes\nrequirepass {SECRET}&\n\
         tls-cert-file {folder}/server.crt\ntls-key-file {folder}/server.key\n\
         tls-ca-cert-file {folder}/ca.crt\ntls-auth-clients yes\n\
         sentinel monitor main 127.0.0.1 {} 1\nsentinel auth-user main app\nsentinel auth-pass main {SECRET}\n",
        log.port
    );
    log.directory.write("sentinel.conf", text);
    let sentinel = Command::new("redis-server")
        .arg(log.directory.join("sentinel.conf"))
        .arg("--sentinel")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it can be started");
    let _sentinel = Process(sentinel);
    wait_until("the Sentinel listens", || {
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    let node = |scheme: &str, password: &str| {
        let place = format!("{scheme}://127.0.0.1:{port}/main?sentinel_password={password}");
        let builder = log.node_with_file().setting("cluster", place);
        builder.control().start()
    };
    let server = node("rediss+sentinel", &format!("{SECRET}%26"));
    wait_ready(&server, 200);
    let mut stream = Stream::open(server.connect(), "/events", None);
    publish(&server, "news", "one");
    assert_eq!(stream.next_event().data, "one");
    check_server(&server);
    // Without the last character.
    let server = node("rediss+sentinel", SECRET);
    wait_ready(&server, 503);
    server
        .log()
        .wait_for(0, "check sentinel_username and sentinel_password");
    check_server(&server);
}

#[test]
fn phpinfo_and_the_command_do_not_show_a_password() {
    phpinfo_and_the_command_do_not_show(&format!("rediss://app:{SECRET}@127.0.0.1:1"));
    phpinfo_and_the_command_do_not_show(&format!(
        "rediss+sentinel://app:{SECRET}@127.0.0.1:1,127.0.0.1:2/main?sentinel_username=u&sentinel_password={SECRET}"
    ));
}

fn phpinfo_and_the_command_do_not_show(servers: &str) {
    let settings = [
        ("cluster", servers),
        ("cluster_password", SECRET),
        ("cluster_user", "app"),
    ];
    let mut ini = Vec::new();
    let mut php = Php::new(&[]);
    let mut doctor = Command::new(command_path());
    doctor.args(["doctor", "--json"]).stdin(Stdio::null());
    for (name, value) in settings {
        ini.push(format!("fermata.{name}=\"{value}\""));
        let variable = format!("FERMATA_{}", name.to_uppercase());
        php = php.env(&variable, value);
        doctor.env(variable, value);
    }
    let output = php.args(["--ri", "fermata"]).run();
    check("--ri with the environment", &output.stdout);
    for arguments in [["--ri", "fermata"], ["-r", "phpinfo();"]] {
        let output = Php::new(&ini).args(arguments).run();
        assert!(output.stdout.contains("cluster_password"), "{output:?}");
        check(arguments[0], &output.stdout);
        check(arguments[0], &output.stderr);
    }
    let output = doctor.output().expect("it can be started");
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    check("doctor", &String::from_utf8_lossy(&text));
}

/// The credentials are user keys only, or a token signed by the account's owner.
#[test]
fn users_of_nats_are_let_in_by_their_credentials() {
    let users: Value = serde_json::from_str(include_str!("users.json")).expect("JSON");
    let text = |name: &str| users[name].as_str().expect("it is there");
    let seed = text("seed");
    let by_key = format!(
        "authorization {{ users: [ {{ nkey: {} }} ] }}",
        text("user")
    );
    let by_token = format!(
        "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {}, {}: {} }}",
        text("operator"),
        text("system"),
        text("system"),
        text("system_jwt"),
        text("account"),
        text("account_jwt")
    );
    let whole = format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n",
        text("user_jwt")
    );
    for (accepts, credentials) in [(by_key, seed.to_owned()), (by_token, whole)] {
        let Some(log) = Secure::for_users("nats", accepts) else {
            return;
        };
        let file = log.path("user.creds");
        log.directory
            .write("user.creds", credentials.replace('J', "K"));
        let server = log.node("").setting("cluster_credentials", &file).start();
        server
            .log()
            .wait_for(0, "has a seed that is damaged; generate the file again");
        log.directory.write("user.creds", &credentials);
        wait_ready(&server, 200);
        publish(&server, "news", "one");
        let other = log.node("").start();
        other.log().wait_for(
            0,
            "the server refused the connection: 'Authorization Violation'; give cluster_user",
        );
        for (what, shown) in [("log", server.log().text()), ("log", other.log().text())] {
            assert!(
                !shown.contains(seed) && !shown.contains(text("user_jwt")),
                "{what}"
            );
        }
    }
}

#[test]
fn settings_that_contradict_each_other_end_the_start() {
    for (settings, cause) in [
        (
            &[
                ("cluster", "redis://u:PLANTED-hunter2@a"),
                ("cluster_ca", "a.crt"),
            ][..],
            "write tls:// (NATS) or rediss:// (Redis)",
        ),
        (
            &[("cluster", "tls://a"), ("cluster_certificate", "a.crt")],
            "cluster_key is not",
        ),
        (
            &[("cluster", "tls://a"), ("cluster_key", "a.key")],
            "cluster_certificate is not",
        ),
        (
            &[("cluster", "rediss://a"), ("cluster_credentials", "a")],
            "cluster is Redis",
        ),
        (
            &[
                ("cluster", "tls://a"),
                ("cluster_credentials", "a"),
                ("cluster_user", "u"),
            ],
            "leave one of the two out",
        ),
        (
            &[
                ("cluster", "tls://a"),
                ("cluster_password", SECRET),
                ("cluster_password_file", "a"),
            ],
            "leave one of the two out",
        ),
    ] {
        let mut builder = fixture("hub");
        for (name, value) in settings {
            builder = builder.setting(name, value);
        }
        let refused = builder.start_refused();
        let text = refused.log.text();
        assert!(text.contains(cause), "{text}");
        check(cause, &text);
    }
}

macro_rules! over_each_secure_log {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn nats() {
                super::Secure::start("nats").iter().for_each(super::$name);
            }

            #[test]
            fn redis() {
                super::Secure::start("redis").iter().for_each(super::$name);
            }
        }
    )+};
}

over_each_secure_log!(
    three_servers_share_a_log_behind_tls_and_no_secret_is_shown,
    what_is_wrong_is_named_and_clients_are_held,
);

mod other_ports_and_times {
    #[test]
    fn tls_against_a_plain_port_of_nats_is_named() {
        super::tls_against_a_port_without_it_is_named("nats");
    }

    #[test]
    fn tls_against_a_plain_port_of_redis_is_named() {
        super::tls_against_a_port_without_it_is_named("redis");
    }

    #[test]
    fn what_is_mended_of_nats_needs_no_restart() {
        super::Secure::start("nats")
            .into_iter()
            .for_each(super::what_is_mended_needs_no_restart);
    }

    #[test]
    fn what_is_mended_of_redis_needs_no_restart() {
        super::Secure::start("redis")
            .into_iter()
            .for_each(super::what_is_mended_needs_no_restart);
    }
}
