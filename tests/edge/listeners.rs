//! Listeners of the edge other than TCP: Unix sockets, and TLS with a folder of certificates.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use fermata_testkit::{Directory, deadline, free_port, wait_until};

use crate::origin::{Origin, text};
use crate::own::Own;

fn origin() -> (Origin, String) {
    let origin = Origin::start();
    origin.on("x", |_| text("by the socket"));
    let route = format!("* 127.0.0.1:{}", origin.port());
    (origin, route)
}

#[test]
fn a_unix_socket_is_for_those_that_its_address_names() {
    let (_origin, route) = origin();
    let folder = Directory::new();
    let path = folder.join("edge.sock");
    let owner = std::fs::metadata(folder.path()).expect("a folder");
    let listen = format!(
        "{}?mode=606&user={}&group={}",
        path.display(),
        owner.uid(),
        owner.gid()
    );
    let own = Own::start_in(folder, &["--listen-unix", &listen, "--route", &route]);
    let metadata = std::fs::metadata(&path).expect("a socket");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o606);
    let mut client = UnixStream::connect(&path).expect("it listens");
    client.set_read_timeout(Some(deadline())).expect("a socket");
    client
        .write_all(b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.ends_with("by the socket"), "{answer}");
    drop(own);
    assert!(!path.exists(), "it goes with the edge");
}

#[test]
fn a_peer_without_an_address_gives_backends_none() {
    for (rule, expected) in [
        (None, None),
        (Some("append"), Some("192.0.2.7")),
        (Some(""), Some("192.0.2.7")),
    ] {
        let (origin, route) = origin();
        let folder = Directory::new();
        let path = folder.join("edge.sock");
        let listen = path.display().to_string();
        let mut arguments = vec!["--listen-unix", &listen, "--route", &route];
        arguments.extend(rule.iter().flat_map(|rule| ["--x-forwarded-for", rule]));
        let _own = Own::start_in(folder, &arguments);
        let mut client = UnixStream::connect(&path).expect("it listens");
        client.set_read_timeout(Some(deadline())).expect("a socket");
        client
            .write_all(
                b"GET /x HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\n\
                Connection: close\r\n\r\n",
            )
            .expect("sent");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let seen = origin.seen("x");
        let told = seen[0].header("x-forwarded-for");
        assert_eq!(told.as_deref(), expected, "{rule:?}");
    }
}

/// Creates a self-signed certificate for a name.
fn make(folder: &Path, file: &str, name: &str) -> bool {
    let at = |ending: &str| {
        folder
            .join(format!("{file}.{ending}"))
            .display()
            .to_string()
    };
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt"]);
    command.args(["ec_paramgen_curve:P-256", "-nodes", "-days", "30"]);
    command.args(["-subj", &format!("/CN={name}")]);
    command.args(["-addext", &format!("subjectAltName=DNS:{name}")]);
    command.args(["-keyout", &at("key"), "-out", &at("crt")]);
    let made = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    made.is_ok_and(|status| status.success())
}

/// Sends an HTTPS request to a host name, trusting only this certificate.
fn ask(port: u16, name: &str, certificate: &Path) -> Option<String> {
    let output = Command::new("curl")
        .args(["--silent", "--max-time", "20", "--cacert"])
        .arg(certificate)
        .args(["--resolve", &format!("{name}:{port}:127.0.0.1")])
        .arg(format!("https://{name}:{port}/x"))
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn certificates_of_a_folder_are_chosen_by_name_and_read_again() {
    let (_origin, route) = origin();
    let folder = Directory::new();
    // The folder that Pushpin uses.
    let certificates = folder.join("runner/certs");
    std::fs::create_dir_all(&certificates).expect("a folder");
    let is_made = ["a.test", "b.test"]
        .iter()
        .all(|name| make(&certificates, name, name));
    if !is_made || Command::new("curl").arg("--version").output().is_err() {
        fermata_testkit::install::skipped("openssl and curl are not installed");
        return;
    }
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let own = Own::start_in(
        folder,
        &[
            "--listen-tls",
            &listen,
            "--tls-certificates",
            "runner/certs",
            "--route",
            &route,
        ],
    );
    let file = |name: &str| certificates.join(format!("{name}.crt"));
    let answer = Some("by the socket".to_owned());
    for name in ["a.test", "b.test"] {
        assert_eq!(ask(port, name, &file(name)), answer, "{name}");
    }
    assert_eq!(ask(port, "b.test", &file("a.test")), None);
    // A new and a renewed certificate.
    assert!(make(&certificates, "c.test", "c.test") && make(&certificates, "b.test", "b.test"));
    own.signal("-HUP");
    own.wait_for_log("certificates read again");
    for name in ["a.test", "b.test", "c.test"] {
        wait_until(name, || {
            (ask(port, name, &file(name)) == answer).then_some(())
        });
    }
    // An invalid certificate changes nothing: the previous one stays in use.
    std::fs::write(file("a.test"), "no certificate").expect("a file");
    own.signal("-HUP");
    own.wait_for_log("certificates stay as they were: tls_certificates: ");
    assert_eq!(ask(port, "b.test", &file("b.test")), answer);
}

#[test]
fn tls_without_certificates_does_not_start() {
    let output = Command::new(fermata_testkit::command_path())
        .args(["edge", "--control=", "--listen-tls", "127.0.0.1:0"])
        .args(["--route", "* test"])
        .current_dir(Directory::new().path())
        .output()
        .expect("our own program");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains("name one with files NAME.crt and NAME.key by tls_certificates"),
        "{said}"
    );
}

/// The engine reports errors of certificates; the message must contain the edge's setting.
#[test]
fn a_bad_certificate_is_told_by_the_name_of_its_setting() {
    let folder = Directory::new();
    for ending in ["crt", "key"] {
        folder.write(&format!("a.{ending}"), "no certificate");
    }
    let output = Command::new(fermata_testkit::command_path())
        .args(["edge", "--control=", "--listen-tls", "127.0.0.1:0"])
        .args(["--route", "* test"])
        .args(["--tls-certificates", "."])
        .current_dir(folder.path())
        .output()
        .expect("our own program");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains(": tls_certificates: ") && said.contains("a.crt"),
        "{said}"
    );
}

#[test]
fn a_bad_address_is_named_by_its_own_setting() {
    for (program, option, value, expected) in [
        (
            "edge",
            "--listen",
            "a:b:1",
            "listen is \"a:b:1\": that is not an address",
        ),
        (
            "edge",
            "--listen-tls",
            "a:b:1",
            "listen_tls is \"a:b:1\": that is not an address",
        ),
        (
            "edge",
            "--listen-unix",
            "/a?mode=x",
            "listen_unix is \"/a?mode=x\": that is ",
        ),
        (
            "edge",
            "--prometheus",
            "a:b:1",
            "prometheus is \"a:b:1\": that is not an address",
        ),
        (
            "hub",
            "--listen",
            "a:b:1",
            "listen is \"a:b:1\": that is not an address",
        ),
    ] {
        let mut command = Command::new(fermata_testkit::command_path());
        command.args([program, option, value]);
        match program {
            "edge" => command.args(["--route", "* 127.0.0.1:9"]),
            _ => command.args(["--app", "1:key:secret"]),
        };
        let output = command
            .output()
            .expect("build/fermata can be started; `make` builds it");
        assert!(!output.status.success(), "{option} {value}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("Server"), "{said}");
    }
}

#[test]
fn what_only_servers_in_php_read_is_told() {
    let (_origin, route) = origin();
    let variables = [("FERMATA_HANDLERS_MAX", "7"), ("FERMATA_RETRY_MS", "9")];
    let edge = Own::start_with(&variables, &["--route", &route]);
    wait_until("the variable is named", || {
        let log = edge.log();
        log.contains("FERMATA_HANDLERS_MAX changes nothing here")
            .then_some(())
    });
    assert!(!edge.log().contains("FERMATA_RETRY_MS"));
}
