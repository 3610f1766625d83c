//! Third-party clients, unmodified: `eventsource` for Node, `symfony/mercure` as used by backends,
//! and a Python client.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use fermata_testkit::install::{install_node, install_python, installed, shown, skipped, works};
use fermata_testkit::workspace_root;

use crate::hub::{Hub, SECRET, reader};

/// The path of `symfony/mercure` in Debian's packages.
const SYMFONY: &str = "/usr/share/php/Symfony/Component/Mercure/autoload.php";

fn scripts() -> std::path::PathBuf {
    workspace_root().join("tests/mercure/clients")
}

#[test]
fn event_sources_of_node_hear_what_symfony_publishes() {
    if !works("node", &["--version"]) || !works("npm", &["--version"]) {
        return skipped("node or npm is not installed");
    }
    if !works("php", &["--version"]) || !Path::new(SYMFONY).exists() {
        return skipped("php-symfony-mercure is not installed");
    }
    let hub = Hub::start("");
    let folder = installed("mercure-node");
    std::fs::create_dir_all(&folder).expect("a folder in target/");
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(scripts().join(name), folder.join(name)).expect("a file of ours");
    }
    if !install_node(&folder) {
        return;
    }
    let url = format!(
        "http://127.0.0.1:{}/.well-known/mercure",
        hub.address().port()
    );
    let mut page = Command::new("node")
        .arg(scripts().join("listen.mjs"))
        .arg(&folder)
        .args([&url, &reader(&["https://example.com/books/{id}"])])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was tried before");
    let mut lines = BufReader::new(page.stdout.take().expect("it is piped")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert_eq!(next(), "open");
    let output = Command::new("php")
        .arg(scripts().join("publish.php"))
        .args([SYMFONY, &url, SECRET])
        .output()
        .expect("it was tried before");
    assert!(output.status.success(), "{}", shown(&output));
    let ids = String::from_utf8_lossy(&output.stdout).into_owned();
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!(ids.len(), 3);
    for (at, text) in ["message public", "added private", "message last"]
        .iter()
        .enumerate()
    {
        assert_eq!(next(), format!("{text} {}", ids[at]));
    }
    assert!(page.wait().expect("it ends").success());
}

#[test]
fn the_libraries_of_python_publish_and_hear() {
    if !works("python3", &["-m", "pip", "--version"]) {
        return skipped("python3 or pip is not installed");
    }
    let folder = installed("mercure-python");
    // With pinned dependencies, so that a new release cannot break the test.
    let packages = [
        "pymercure==0.0.1.0",
        "mercure-publisher==0.1.0",
        "requests==2.34.2",
        "sseclient-py==1.9.0",
        "httpx==0.28.1",
        "PyJWT==2.15.1",
        "redis==8.1.0",
    ];
    if !install_python(&folder, &folder.join("pymercure"), &packages) {
        return;
    }
    let hub = Hub::start("anonymous");
    let url = format!(
        "http://127.0.0.1:{}/.well-known/mercure",
        hub.address().port()
    );
    let output = Command::new("python3")
        .arg(scripts().join("talk.py"))
        .args([&url, SECRET])
        .env("PYTHONPATH", &folder)
        .output()
        .expect("it was tried before");
    assert!(output.status.success(), "{}", shown(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "heard\n");
}
