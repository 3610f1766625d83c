//! Clients of other people, unmodified: `eventsource` for Node, and `symfony/mercure` as backends have it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use fermata_testkit::install::{install_node, installed, shown, skipped, works};
use fermata_testkit::workspace_root;

use crate::hub::{Hub, SECRET, reader};

/// Where Debian's packages of PHP libraries are.
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
    install_node(&folder);
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
