//! pusher-js, Laravel Echo and Pusher's library for backends, unmodified.

use std::process::Command;

use fermata_testkit::install::{install_node, install_python, installed, shown, skipped, works};
use fermata_testkit::workspace_root;

use serde_json::json;

use crate::hub::{APPLICATION, Hub, data_of};

/// The libraries talk through the hub, where there are any, by this transport of pusher-js.
pub fn talk(hub: &Hub, transport: &str) {
    let Some(said) = run_script(hub, "talk.mjs", transport) else {
        return;
    };
    assert_eq!(said.lines().count(), 7, "{said}");
}

/// What a script says that speaks by the libraries of Node; `None` where they are not.
fn run_script(hub: &Hub, script: &str, transport: &str) -> Option<String> {
    if !works("node", &["--version"]) || !works("npm", &["--version"]) {
        skipped("node or npm is not installed");
        return None;
    }
    let scripts = workspace_root().join("tests/pusher/clients");
    let folder = installed("pusher-node");
    std::fs::create_dir_all(&folder).expect("a folder in target/");
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(scripts.join(name), folder.join(name)).expect("a file of ours");
    }
    if !install_node(&folder) {
        return None;
    }
    let output = Command::new("node")
        .arg(scripts.join(script))
        .arg(&folder)
        .args([&hub.address().port().to_string(), APPLICATION, transport])
        .output()
        .expect("it was tried before");
    assert!(output.status.success(), "{}", shown(&output));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_libraries_of_pages_and_backends_talk() {
    talk(&Hub::start(&[]), "ws");
}

#[test]
fn pages_without_websockets_talk_by_streams() {
    talk(&Hub::start(&[]), "xhr_streaming");
}

#[test]
fn pages_without_websockets_talk_by_polling() {
    talk(&Hub::start(&[]), "xhr_polling");
}

#[test]
fn a_page_whose_websockets_do_not_get_through_falls_back() {
    if let Some(said) = run_script(&Hub::start(&[]), "fallback.mjs", "served") {
        assert_eq!(said, "besideASlowSocket ok\nwithoutSockets ok\n");
    }
}

#[test]
fn a_page_that_is_refused_sockjs_goes_on_with_its_websocket() {
    let hub = Hub::configured("sockjs = false");
    if let Some(said) = run_script(&hub, "fallback.mjs", "refused") {
        assert_eq!(said, "alone ok\nbesideASlowSocket ok\n");
    }
}

#[test]
fn the_library_of_python_publishes_and_asks() {
    if !works("python3", &["-m", "pip", "--version"]) {
        return skipped("python3 or pip is not installed");
    }
    let folder = installed("pusher-python");
    if !install_python(&folder, &folder.join("pusher"), &["pusher==3.3.4"]) {
        return;
    }
    let hub = Hub::start(&[]);
    let mut ann = hub.client();
    ann.subscribe(&hub, "presence-room", Some("ann"));
    let mut news = hub.client();
    news.subscribe(&hub, "news", None);
    let output = Command::new("python3")
        .arg(workspace_root().join("tests/pusher/clients/talk.py"))
        .arg(&folder)
        .args([&hub.address().port().to_string(), APPLICATION])
        .output()
        .expect("it was tried before");
    assert!(output.status.success(), "{}", shown(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said, "published\nasked\nrefused\n");
    let text = |text: &str| json!({ "text": text });
    for expected in [text("é"), text("two"), json!({"at": 1}), json!({"at": 2})] {
        let event = news.next();
        assert_eq!(
            (&event["event"], data_of(&event)),
            (&json!("item"), expected)
        );
    }
}

#[test]
fn the_environment_of_reverb_is_enough() {
    let hub = Hub::start_as_reverb();
    let (status, answer) = hub.ask("GET", "/apps/1/channels", &[], "");
    assert_eq!(
        (status, answer.to_string()),
        (200, "{\"channels\":{}}".to_owned())
    );
    assert_eq!(hub.connect().get("/up").text(), "{\"health\":\"OK\"}");
}
