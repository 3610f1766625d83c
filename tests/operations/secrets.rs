//! Secrets of applications and operators never appear in Fermata's output.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;

use fermata_testkit::{Directory, Php, command_path, free_port};
use fermata_tests::fixture;

/// A secret that must not appear anywhere, and its unique part.
const SECRET: &str = "PLANTED-hunter2";
const MARK: &str = "hunter2";

#[track_caller]
fn check(what: &str, text: &str) {
    if let Some(line) = text.lines().find(|line| line.contains(MARK)) {
        panic!("{what}: {line}");
    }
}

/// Returns the output of a command that must exit by itself.
fn printed(arguments: &[&str]) -> String {
    let output = Command::new(command_path())
        .args(arguments)
        .env_remove("GRIP_URL")
        .stdin(Stdio::null())
        .output()
        .expect("it can be started");
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn the_log_of_a_server_masks_them() {
    for format in ["text", "json"] {
        let edge = format!("http://127.0.0.1:{}?key={SECRET}", free_port());
        let builder = fixture("secrets")
            .setting("log_format", format)
            .setting("log_level", "debug")
            .setting("grip_url", edge)
            .workers(1);
        let access = builder.directory().join("access.log");
        let server = builder
            .setting("access_log", access.display())
            .setting("access_log_format", "combined")
            .start();
        let from = server.log().len();
        for (path, status) in [("/throws", 500), ("/warns", 200), ("/database", 500)] {
            let target = format!("{path}?token={SECRET}");
            let headers = [
                ("Authorization", format!("Bearer {SECRET}")),
                ("Cookie", format!("session={SECRET}")),
            ];
            let headers = headers.each_ref().map(|(name, value)| (*name, &**value));
            let response = server.connect().request("GET", &target, &headers, b"");
            assert_eq!(response.status(), status, "{path}");
            check(path, response.text());
        }
        let mut connection = server.connect();
        connection.send(format!(
            "GET /?key={SECRET} HTTP/9.9\r\nX: {SECRET}\r\n\r\n"
        ));
        assert_eq!(connection.read_response().status(), 505);
        server.log().wait_for(from, "redis://app:***@db:6379");
        server.log().wait_for(from, "access_token=***&page=2");
        server.log().wait_for(from, "Authorization: ***");
        assert_eq!(server.connect().get("/fatal").status(), 500);
        server.log().wait_for(from, "Allowed memory size");
        check("log", &server.log().text());
        fermata_testkit::wait_until("the access log is written", || {
            let text = std::fs::read_to_string(&access).unwrap_or_default();
            text.contains("/warns").then(|| check("access log", &text))
        });
    }
}

#[test]
fn what_php_says_of_its_settings_masks_them() {
    let ini = format!("fermata.grip_url=http://localhost:5561?key={SECRET}");
    for arguments in [["--ri", "fermata"], ["-r", "phpinfo();"]] {
        let output = Php::new(std::slice::from_ref(&ini)).args(arguments).run();
        assert!(output.stdout.contains("grip_url"), "{}", output.stderr);
        check(arguments[0], &output.stdout);
        check(arguments[0], &output.stderr);
    }
    for wrong in ["localhost?key=", "ftp://u:"] {
        let exited = fixture("secrets")
            .setting("grip_url", format!("{wrong}{SECRET}@:/"))
            .start_refused();
        check(wrong, &exited.log.text());
    }
}

/// A server that exits by itself.
const PROGRAM: &str = r#"<?php
chdir(__DIR__);
$master = getmypid();
$server = new Fermata\Server();
$server->get('/', fn () => Fermata\Response::noContent());
$server->every(0.01, fn () => posix_kill($master, 15));
$server->run();
"#;

/// Returns all settings of the extension, as php.ini spells them.
fn settings() -> Vec<String> {
    let all = "echo implode(' ', array_keys(ini_get_all('fermata')));";
    let output = Php::new(&[]).args(["-r", all]).run();
    let names: Vec<String> = output
        .stdout
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    assert!(names.len() > 50, "{names:?} {}", output.stderr);
    names
}

fn variable(setting: &str) -> String {
    setting.replace('.', "_").to_uppercase()
}

#[test]
fn a_secret_in_any_setting_is_in_nothing_that_is_printed() {
    let folder = Directory::new();
    let program = folder.write("server.php", PROGRAM);
    let names = settings();
    let values = [
        format!("http://app:{SECRET}@127.0.0.1:1/?key={SECRET}&verify-key={SECRET}"),
        format!("nats://{SECRET}@127.0.0.1:1"),
        format!("redis://:{SECRET}@127.0.0.1:1/0"),
    ];
    for (number, value) in values.iter().enumerate() {
        let line = |name: &String| format!("{name}=\"{value}\"");
        let ini: Vec<String> = names.iter().map(line).collect();
        let mut with_environment = Php::new(&[]);
        let mut doctor = Command::new(command_path());
        doctor.args(["doctor", "--json"]).stdin(Stdio::null());
        for name in &names {
            with_environment = with_environment.env(&variable(name), value);
            doctor.env(variable(name), value);
        }
        for php in [Php::new(&ini), with_environment] {
            let output = php.args(["--ri", "fermata"]).run();
            // Every setting is shown as ***, except `io`, which the test harness sets.
            let shown = output.stdout.matches("***").count();
            assert!(shown + 1 >= names.len(), "{}", output.stdout);
            check("--ri", &output.stdout);
            check("--ri", &output.stderr);
        }
        let output = doctor.output().expect("it can be started");
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        assert!(!text.is_empty(), "doctor says something");
        check("doctor", &String::from_utf8_lossy(&text));
        // Settings that contain neither an address nor a path are all rejected in the same way.
        let places = ["url", "cluster", "control", "listen", "log", "path", "tls"];
        let tried = |name: &&String| number == 0 || places.iter().any(|it| name.contains(it));
        for name in names.iter().filter(tried) {
            let mut ini = vec![
                "fermata.listen=http://127.0.0.1:0".to_owned(),
                "fermata.workers=1".to_owned(),
                "fermata.drain_timeout_ms=1000".to_owned(),
                "fermata.log_level=debug".to_owned(),
            ];
            ini.retain(|it| !it.starts_with(&format!("{name}=")));
            ini.push(line(name));
            let starter = ["timeout".to_owned(), "120".to_owned()];
            let output = Php::behind(&starter, &ini).arg(&program).run();
            assert!(output.code != Some(124), "{name} does not end");
            assert!(!output.stderr.is_empty(), "{name}: {output:?}");
            check(name, &output.stdout);
            check(name, &output.stderr);
        }
    }
}

#[test]
fn the_command_masks_them() {
    let folder = Directory::new();
    let file = folder.join("edge.toml");
    let key = format!("control_key = \"{SECRET}\"\nsig_key = \"{SECRET}\"\nlisten = 7\n");
    std::fs::write(&file, key).expect("a writable folder");
    let file = file.display().to_string();
    let (port, nowhere) = (free_port(), free_port());
    let spec = format!("http://127.0.0.1:{nowhere}?key={SECRET}");
    let with_password = format!("http://app:{SECRET}@127.0.0.1:{port}/");
    let route = format!("* http://app:{SECRET}@127.0.0.1:1/?key={SECRET}");
    for arguments in [
        &["edge", "--config", &*file][..],
        &[
            "edge",
            "--control-key",
            SECRET,
            "--route",
            &route,
            "--listen",
            "nowhere",
        ],
        &["publish", "channel", "text", "--spec", &spec],
        &[
            "publish",
            "channel",
            "text",
            "--spec",
            &with_password,
            "--key",
            SECRET,
        ],
        &["stats", "--control", &with_password],
        &["doctor", "--listen", &with_password],
    ] {
        let text = printed(arguments);
        assert!(!text.is_empty(), "{arguments:?}");
        check(&arguments.join(" "), &text);
    }
}

/// Starts a NATS server that rejects every client, and echoes the client's bytes in its error.
fn repeating_nats() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    // The thread runs until the test process exits.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            let info = r#"INFO {"server_id":"x","version":"2.10.0","proto":1,"auth_required":true,"max_payload":1048576,"nonce":"abc","jetstream":true,"headers":true}"#;
            let _ = stream.write_all(format!("{info}\r\n").as_bytes());
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            let line = line.trim_end().replace('\'', "");
            let _ =
                stream.write_all(format!("-ERR 'Authorization Violation: {line}'\r\n").as_bytes());
        }
    });
    port
}

#[test]
fn credentials_that_the_log_of_a_cluster_repeats_are_masked() {
    let port = repeating_nats();
    for credentials in [format!("app:{SECRET}"), SECRET.to_owned()] {
        let url = format!("nats://{credentials}@127.0.0.1:{port}");
        let server = fixture("secrets")
            .setting("cluster", url)
            .setting("log_level", "debug")
            .workers(1)
            .start();
        server.log().wait_for(0, "Authorization Violation: CONNECT");
        check(&credentials, &server.log().text());
    }
}

/// Values with a secret, most of which are invalid TOML or of the wrong type.
const SPELLINGS: [&str; 25] = [
    "SECRET",
    "SECRET # and more",
    "'SECRET",
    "\"SECRET",
    "'SECRET'x",
    "\"SECRET\" \"SECRET\"",
    "\"SECRET\\q\"",
    "\"SECRET\\uD800\"",
    "\"SECRET\u{7}\"",
    "'''SECRET",
    "\"\"\"SECRET",
    "[\"SECRET\"",
    "[\"SECRET\"]",
    "[\"SECRET\", 1]",
    "[[\"SECRET\"]]",
    "{ a = \"SECRET\" }",
    "{ a = \"SECRET\"",
    "1SECRET",
    "0xSECRET",
    "1979-05-27SECRET",
    "trueSECRET",
    "\"a\"\n\"SECRET\"",
    "\"a\"\nSECRET",
    "\"http://user:SECRET@host/\"",
    "\"https://host:SECRET/\"",
];

#[test]
fn mistakes_in_a_file_show_no_secret() {
    let app = "[[app]]\nid = '1'\nkey = 'k'\n";
    let hook = format!("{app}secret = 's'\n[[app.webhook]]\n");
    let hub = [
        "secret = ".to_owned(),
        "app = ".to_owned(),
        "[app]\nsecret = ".to_owned(),
        format!("{app}secret = "),
        // A duplicate key, and a misspelled key.
        format!("{app}secret = 's'\nsecret = "),
        format!("{app}secrets = "),
        format!("{hook}url = "),
        "[mercure]\npublisher_key = ".to_owned(),
        "[mercure]\npublisher_algorithm = 'RS256'\npublisher_key = ".to_owned(),
        "[mercure]\nsubscriber_jwks_url = ".to_owned(),
    ];
    let edge = [
        "control_key = ",
        "sig_key = ",
        "upstream_key = ",
        "sig_key = 'a'\nsig_key = ",
    ];
    let edge = edge.map(str::to_owned);
    let folder = Directory::new();
    for (command, settings) in [("hub", &hub[..]), ("edge", &edge)] {
        for setting in settings {
            for spelling in SPELLINGS {
                let text = format!("{setting}{}\n", spelling.replace("SECRET", SECRET));
                let file = folder.write("file.toml", &text);
                let file = file.display().to_string();
                // Addresses for documentation (RFC 5737) cannot be bound.
                let told = printed(&[command, "--config", &file, "--listen", "192.0.2.1:1"]);
                assert!(!told.is_empty(), "{text}");
                check(&text, &told);
            }
        }
    }
}
