//! Unmodified client libraries against the real server: messages of all sizes, subprotocols,
//! compression and a close.
//!
//! They are installed from their registries into `target/`, once. A client whose tools are missing
//! on this machine is skipped with a message.

use std::path::PathBuf;
use std::process::Command;

use fermata_testkit::install::{
    install_go, install_node, install_python, installed, shown, skipped, works,
};
use fermata_testkit::{Server, workspace_root};
use serde_json::{Value, json};

use crate::start;

/// Package versions, pinned so that a new release cannot break the test.
const PYTHON_PACKAGE: &str = "websockets==15.0.1";

/// The client's use of permessage-deflate.
#[derive(PartialEq)]
enum Compression {
    Offered,
    DependsOnVersion,
}

fn clients() -> PathBuf {
    workspace_root().join("tests/websocket/clients")
}

/// Checks without compression and with compression, unless the client's version determines the
/// compression.
#[track_caller]
fn check(start_client: &dyn Fn(&str) -> Command, compression: Compression) {
    let server: Server = start();
    for (path, compressed) in [
        ("plain", false),
        ("packed", true),
        ("packed-forgetting", true),
    ] {
        let url = format!("ws://{}/named/{path}", server.address());
        let output = start_client(&url).output().expect("it was tried before");
        assert!(output.status.success(), "{path}: {}", shown(&output));
        let mut said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let expected = json!({
            "same": true, "count": 4, "protocol": "v1", "compressed": compressed,
            "code": 4000, "wasClean": true,
        });
        if compression == Compression::DependsOnVersion {
            said["compressed"] = expected["compressed"].clone();
        }
        assert_eq!(said, expected, "{path}");
    }
}

fn node(which: &'static str, flags: &'static [&str]) {
    if !works("node", &["--version"]) || !works("npm", &["--version"]) {
        return skipped("node or npm is not installed");
    }
    let folder = workspace_root().join("tests/load/node");
    if !install_node(&folder) {
        return;
    }
    check(
        &|url| {
            let mut command = Command::new("node");
            let script = clients().join("node.cjs");
            command
                .args(flags)
                .arg(script)
                .args([url, which])
                .arg(&folder);
            command
        },
        if which == "ws" {
            Compression::Offered
        } else {
            Compression::DependsOnVersion
        },
    );
}

#[test]
fn node_ws() {
    node("ws", &[]);
}

#[test]
fn node_builtin() {
    const FLAGS: &[&str] = &["--experimental-websocket", "--no-warnings"];
    let probe = "process.exit(typeof WebSocket === 'function' ? 0 : 1)";
    if works("node", &[FLAGS, &["-e", probe]].concat()) {
        node("builtin", FLAGS);
    } else {
        skipped("this node has no WebSocket of its own");
    }
}

#[test]
fn python_websockets() {
    if !works("python3", &["--version"]) {
        return skipped("python3 is not installed");
    }
    let folder = installed("python");
    if !install_python(&folder, &folder.join("websockets"), &[PYTHON_PACKAGE]) {
        return;
    }
    check(
        &|url| {
            let mut command = Command::new("python3");
            command
                .env("PYTHONPATH", &folder)
                .arg(clients().join("client.py"))
                .arg(url);
            command
        },
        Compression::Offered,
    );
}

#[test]
fn go_coder_websocket() {
    if !works("go", &["version"]) {
        return skipped("go is not installed");
    }
    let program = installed("go-client");
    if !install_go(&program, &clients().join("go")) {
        return;
    }
    check(
        &|url| {
            let mut command = Command::new(&program);
            command.arg(url);
            command
        },
        Compression::Offered,
    );
}

#[test]
fn tokio_tungstenite() {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::tungstenite::client::IntoClientRequest;
    use tokio_tungstenite::tungstenite::protocol::CloseFrame;
    use tokio_tungstenite::tungstenite::{Bytes, Message};

    let server = start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let url = format!("ws://{}/named/packed", server.address());
        let mut request = url.into_client_request().expect("a URL");
        let offers = "v2, v1".parse().expect("a header");
        request
            .headers_mut()
            .insert("sec-websocket-protocol", offers);
        let connected = tokio_tungstenite::connect_async(request).await;
        let (mut socket, response) = connected.expect("accepted");
        assert_eq!(response.headers()["sec-websocket-protocol"], "v1");
        let large = Bytes::from(b"fermata holds this note ".repeat(8000));
        let sent = [
            Message::text("grüße 🎵"),
            Message::text(""),
            Message::text("x".repeat(70_000)),
            Message::Binary(large),
        ];
        for message in &sent {
            socket.send(message.clone()).await.expect("open");
        }
        for message in &sent {
            assert_eq!(&socket.next().await.expect("open").expect("valid"), message);
        }
        socket
            .send(Message::Ping(Bytes::from("?")))
            .await
            .expect("open");
        let pong = socket.next().await.expect("open").expect("valid");
        assert_eq!(pong, Message::Pong(Bytes::from("?")));
        let bye = CloseFrame {
            code: 4000.into(),
            reason: "bye".into(),
        };
        socket.close(Some(bye)).await.expect("open");
        let answer = socket.next().await.expect("open").expect("valid");
        assert!(matches!(answer, Message::Close(Some(close)) if u16::from(close.code) == 4000));
        assert!(socket.next().await.is_none());
    });
}
