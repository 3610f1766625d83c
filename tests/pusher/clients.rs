//! pusher-js, Laravel Echo and Pusher's server libraries for Node, Python and Go, unmodified.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use fermata_testkit::install::{
    install_go, install_node, install_python, installed, shown, skipped, works,
};
use fermata_testkit::{Directory, wait_until, workspace_root};

use serde_json::json;

use crate::hub::{APPLICATION, Client, Hub, data_of, json_of};
use crate::webhooks;

/// Runs the libraries against the hub with this transport of pusher-js, if they are installed.
pub fn talk(hub: &Hub, transport: &str) {
    let Some(said) = run_script(hub, "talk.mjs", transport) else {
        return;
    };
    assert_eq!(said.lines().count(), 7, "{said}");
}

/// Returns the output of a script that uses the Node libraries; `None` if they are not installed.
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

/// Returns the program with Pusher's Go library; `None` if it cannot be built.
fn go_program() -> Option<PathBuf> {
    if !works("go", &["version"]) {
        skipped("go is not installed");
        return None;
    }
    let program = installed("pusher-go");
    let source = workspace_root().join("tests/pusher/clients/go");
    install_go(&program, &source).then_some(program)
}

#[test]
fn the_library_of_go_publishes_asks_and_signs() {
    let Some(program) = go_program() else {
        return;
    };
    let hub = Hub::start(&[]);
    let mut ann = hub.client();
    ann.subscribe(&hub, "presence-room", Some("ann"));
    ann.sign_in(&hub, "ann");
    ann.send_event(
        "pusher:subscribe",
        &json!({"channel": "#server-to-user-ann"}),
    );
    ann.next();
    let (mut news, mut other, mut room) = (hub.client(), hub.client(), hub.client());
    news.subscribe(&hub, "news", None);
    other.subscribe(&hub, "news", None);
    room.subscribe(&hub, "private-encrypted-room", None);
    let mut signed_for = hub.client();
    let port = hub.address().port().to_string();
    let output = Command::new(program)
        .args(["talk", APPLICATION, &port, &signed_for.id, &other.id])
        .output()
        .expect("it was built");
    assert!(output.status.success(), "{}", shown(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    let [
        "published",
        "asked",
        private,
        encrypted,
        presence,
        user,
        "refused",
    ] = lines[..]
    else {
        panic!("{said}");
    };
    let text = |text: &str| json!({ "text": text });
    let items = |client: &mut Client, expected: &[serde_json::Value]| {
        for item in expected {
            let event = client.next();
            assert_eq!((&event["event"], &data_of(&event)), (&json!("item"), item));
        }
        // The script publishes this event and queries the channel's counts until all workers have
        // them.
        assert_eq!(client.next()["event"], "counted");
    };
    let (first, second) = (json!({"at": 1}), json!({"at": 2}));
    let but_other = text("not to the other");
    items(
        &mut news,
        &[text("é"), text("two"), but_other, first.clone(), second],
    );
    items(&mut other, &[text("é"), text("two"), first]);
    // Encrypted data is passed on unchanged.
    let secret = data_of(&room.next());
    assert!(secret["nonce"].is_string() && secret["ciphertext"].is_string());
    let to_ann = std::iter::from_fn(|| Some(ann.next())).find(|it| it["data"] != "x");
    assert_eq!(
        to_ann.map(|it| data_of(&it)),
        Some(json!({"text": "to Ann"}))
    );
    // A signature of the library authorizes a client.
    for (channel, answer) in [
        ("private-room", private),
        ("private-encrypted-room", encrypted),
        ("presence-room", presence),
    ] {
        let mut data = json_of(answer);
        data["channel"] = json!(channel);
        signed_for.send_event("pusher:subscribe", &data);
        let frame = signed_for.next();
        assert_eq!(
            frame["event"], "pusher_internal:subscription_succeeded",
            "{frame}"
        );
    }
    signed_for.send_event("pusher:signin", &json_of(user));
    assert_eq!(signed_for.next()["event"], "pusher:signin_success");
}

/// A process that is killed when dropped, and the lines it has printed.
struct Printing {
    process: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Printing {
    fn start(command: &mut Command) -> Printing {
        let mut process = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was built");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let read = Arc::clone(&lines);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                read.lock().expect("no panic").push(line);
            }
        });
        Printing { process, lines }
    }

    /// Waits for the first line for which `is_it` returns true.
    fn wait_for(&self, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        wait_until(what, || {
            let lines = self.lines.lock().expect("no panic");
            lines.iter().find(|line| is_it(line)).cloned()
        })
    }
}

impl Drop for Printing {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_library_of_go_takes_webhooks() {
    let Some(program) = go_program() else {
        return;
    };
    let backend = Printing::start(Command::new(program).args(["hooks", APPLICATION]));
    let port = backend.wait_for("its port", |_| true);
    let folder = Directory::new();
    let hub = webhooks::start(&folder, &format!("http://127.0.0.1:{port}"), "");
    let mut ann = hub.client();
    ann.subscribe(&hub, "presence-room", Some("ann"));
    ann.send_event_on("client-typing", "presence-room", &json!({"x": 1}));
    for line in [
        "channel_occupied presence-room   ",
        "member_added presence-room ann  ",
        "client_event presence-room ann client-typing {\"x\":1}",
    ] {
        backend.wait_for(line, |it| it == line);
    }
    drop(ann);
    for line in [
        "member_removed presence-room ann  ",
        "channel_vacated presence-room   ",
    ] {
        backend.wait_for(line, |it| it == line);
    }
    let lines = backend.lines.lock().expect("no panic");
    assert!(
        !lines.iter().any(|line| line.contains("nvalid")),
        "{lines:?}"
    );
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
