//! Webhooks about channels, received by a test backend that accepts or rejects them, responds
//! slowly or is down.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fermata_pusher::{App, auth};
use fermata_testkit::install::{skipped, works};
use fermata_testkit::{Directory, Signal, holds_until, send_signal, wait_until};
use serde_json::{Value, json};

use crate::hub::{APPLICATION, Hub, json_of};

/// Time for which the test waits to verify that no webhook arrives.
const QUIET: Duration = Duration::from_millis(1_000);

/// Reaction of a backend to a POST.
#[derive(Clone, Copy, PartialEq)]
pub enum Does {
    /// Accept the POST.
    Take,
    /// Respond with 500.
    Refuse,
    /// Read the POST and never respond.
    Hang,
}

#[derive(Default)]
struct Seen {
    /// Accepted events, in order.
    taken: Vec<Value>,
    /// Number of rejected POSTs.
    refused: usize,
    /// Number of accepted POSTs.
    posts: usize,
}

/// A test backend.
pub struct Backend {
    port: u16,
    does: Arc<Mutex<Does>>,
    seen: Arc<Mutex<Seen>>,
}

impl Backend {
    pub fn start(does: Does) -> Backend {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let (does, seen) = (Arc::new(Mutex::new(does)), Arc::default());
        let backend = Backend { port, does, seen };
        let (does, seen) = (Arc::clone(&backend.does), Arc::clone(&backend.seen));
        // The thread runs until the test process exits.
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (socket, does, seen) = (socket, Arc::clone(&does), Arc::clone(&seen));
                thread::spawn(move || serve(socket.expect("a client"), &does, &seen));
            }
        });
        backend
    }

    fn set(&self, does: Does) {
        *self.does.lock().expect("no panic") = does;
    }

    fn refused(&self) -> usize {
        self.seen.lock().expect("no panic").refused
    }

    /// Returns the channels of the accepted events with this name.
    pub fn channels(&self, name: &str) -> Vec<String> {
        let seen = self.seen.lock().expect("no panic");
        let events = seen.taken.iter().filter(|event| event["name"] == name);
        events
            .map(|event| event["channel"].as_str().expect("text").to_owned())
            .collect()
    }

    /// Waits for an event of this name and channel.
    pub fn wait_for(&self, name: &str, channel: &str) -> Value {
        wait_until(&format!("{name} of {channel}"), || {
            let seen = self.seen.lock().expect("no panic");
            let is_it = |event: &&Value| event["name"] == name && event["channel"] == channel;
            seen.taken.iter().find(is_it).cloned()
        })
    }
}

fn application() -> App {
    let mut parts = APPLICATION.split(':');
    let mut next = || parts.next().expect("three parts");
    App::new(next(), next(), next()).expect("an application")
}

/// Serves one connection until its client closes it.
fn serve(socket: TcpStream, does: &Mutex<Does>, seen: &Mutex<Seen>) {
    let mut reader = BufReader::new(socket);
    loop {
        let (mut length, mut signature, mut key) = (0, String::new(), String::new());
        let mut first = String::new();
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        assert_eq!(first, "POST /hook?x=1 HTTP/1.1\r\n");
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().expect("a number"),
                "x-pusher-signature" => signature = value.to_owned(),
                "x-pusher-key" => key = value.to_owned(),
                "content-type" => assert_eq!(value, "application/json"),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        assert_eq!(key, "app-key");
        assert!(auth::is_signed(&application(), &body, &signature));
        let does = *does.lock().expect("no panic");
        let answer = match does {
            Does::Take => {
                let body = json_of(std::str::from_utf8(&body).expect("text"));
                assert!(body["time_ms"].is_u64());
                let events = body["events"].as_array().expect("a list");
                let mut seen = seen.lock().expect("no panic");
                seen.taken.extend(events.iter().cloned());
                seen.posts += 1;
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
            }
            Does::Refuse => {
                seen.lock().expect("no panic").refused += 1;
                "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops"
            }
            Does::Hang => {
                seen.lock().expect("no panic").refused += 1;
                continue;
            }
        };
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Starts a hub whose application sends webhooks to this address; `more` are lines of the webhook's
/// table.
pub fn start(folder: &Directory, address: &str, more: &str) -> Hub {
    let config = config(folder, address, more);
    Hub::start(&["--config", &config.display().to_string()])
}

/// Writes the configuration file of such a hub.
pub fn config(folder: &Directory, address: &str, more: &str) -> PathBuf {
    folder.write(
        "hub.toml",
        format!(
            "[[app]]\nid = '1'\nkey = 'app-key'\nsecret = '0123456789abcdef'\nsubscription_counts = true\n\
             [[app.webhook]]\nurl = '{address}/hook?x=1'\n{more}"
        ),
    )
}

pub fn local(backend: &Backend) -> String {
    format!("http://127.0.0.1:{}", backend.port)
}

#[test]
fn a_backend_is_told_what_happens() {
    let folder = Directory::new();
    let backend = Backend::start(Does::Take);
    let hub = start(&folder, &local(&backend), "");
    let (mut ann, mut tab, mut bob) = (hub.client(), hub.client(), hub.client());
    let mut eve = hub.client();
    ann.subscribe(&hub, "presence-a", Some("ann"));
    tab.subscribe(&hub, "presence-a", Some("ann"));
    bob.subscribe(&hub, "presence-a", Some("bob"));
    ann.socket
        .text(r#"{"event":"client-typing","channel":"presence-a","data":{"x":1}}"#);
    eve.subscribe(&hub, "cache-prices", None);
    assert_eq!(
        backend.wait_for("client_event", "presence-a"),
        json!({
            "name": "client_event", "channel": "presence-a", "event": "client-typing", "data": "{\"x\":1}",
            "socket_id": ann.id, "user_id": "ann",
        })
    );
    backend.wait_for("channel_occupied", "presence-a");
    backend.wait_for("channel_occupied", "cache-prices");
    backend.wait_for("cache_miss", "cache-prices");
    let count = backend.wait_for("subscription_count", "cache-prices");
    assert_eq!(count["subscription_count"], 1);
    // A publisher's event does not count as a client event.
    hub.publish("presence-a", "client-looking", "{}");
    drop((tab, bob, eve));
    assert_eq!(
        backend.wait_for("member_removed", "presence-a")["user_id"],
        "bob"
    );
    backend.wait_for("channel_vacated", "cache-prices");
    assert_eq!(
        backend.channels("member_added"),
        ["presence-a", "presence-a"]
    );
    assert_eq!(backend.channels("member_removed"), ["presence-a"]);
    assert_eq!(backend.channels("channel_vacated"), ["cache-prices"]);
    assert_eq!(backend.channels("client_event"), ["presence-a"]);
}

#[test]
fn subscribers_are_told_how_many_they_are() {
    let folder = Directory::new();
    let backend = Backend::start(Does::Take);
    let hub = start(&folder, &local(&backend), "events = ['cache_miss']\n");
    let (mut first, mut second) = (hub.client(), hub.client());
    first.subscribe(&hub, "news", None);
    let count_of = |frame: Value| {
        assert_eq!(
            frame["event"], "pusher_internal:subscription_count",
            "{frame}"
        );
        json_of(frame["data"].as_str().expect("text"))["subscription_count"].clone()
    };
    assert_eq!(count_of(first.next()), 1);
    second.subscribe(&hub, "news", None);
    assert_eq!(count_of(first.next()), 2);
    drop(second);
    assert_eq!(count_of(first.next()), 1);
    assert_eq!(backend.channels("subscription_count"), Vec::<String>::new());
}

#[test]
fn a_backend_that_fails_and_is_slow_gets_all_when_it_returns() {
    let folder = Directory::new();
    let backend = Backend::start(Does::Refuse);
    let hub = start(
        &folder,
        &local(&backend),
        "timeout_ms = 1500\nevents = ['channel_occupied', 'member_added']\n",
    );
    let mut clients = Vec::new();
    let mut subscribe = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let mut client = hub.client();
            client.subscribe(&hub, &format!("presence-{number:03}"), Some("ann"));
            clients.push(client);
        }
    };
    subscribe(0..40);
    wait_until("it was refused", || (backend.refused() >= 2).then_some(()));
    backend.set(Does::Hang);
    let refused = backend.refused();
    subscribe(40..80);
    wait_until("it got no answer", || {
        (backend.refused() > refused).then_some(())
    });
    backend.set(Does::Take);
    for name in ["channel_occupied", "member_added"] {
        wait_until("all have come", || {
            let mut channels = Vec::new();
            // Late responses cause a repeated delivery.
            for channel in backend.channels(name) {
                if !channels.contains(&channel) {
                    channels.push(channel);
                }
            }
            // Events about users arrive in the order of the ring, even after rejections.
            assert!(name != "member_added" || channels.is_sorted());
            (channels.len() == 80).then_some(())
        });
    }
    let posts = backend.seen.lock().expect("no panic").posts;
    assert!(posts < 160, "several events share a post: {posts}");
}

#[test]
fn killed_workers_vacate_their_channels_once() {
    let folder = Directory::new();
    let backend = Backend::start(Does::Take);
    let hub = start(
        &folder,
        &local(&backend),
        "timeout_ms = 20000\nevents = ['channel_occupied', 'channel_vacated', 'member_added', 'member_removed']\n",
    );
    let mut clients = Vec::new();
    for number in 0..6 {
        let mut client = hub.client();
        client.subscribe(&hub, &format!("presence-{number}"), Some("ann"));
        clients.push(client);
    }
    for name in ["channel_occupied", "member_added"] {
        wait_until("all have come", || {
            (backend.channels(name).len() == 6).then_some(())
        });
    }
    // All workers are killed, including the one that sends webhooks.
    let killed = hub.workers();
    for worker in &killed {
        assert!(send_signal(*worker, Signal::Kill));
    }
    for name in ["channel_vacated", "member_removed"] {
        for number in 0..6 {
            backend.wait_for(name, &format!("presence-{number}"));
        }
    }
    let mut client = hub.client();
    client.subscribe(&hub, "presence-0", Some("ann"));
    wait_until("it is occupied again", || {
        (backend.channels("channel_occupied").len() == 7).then_some(())
    });
    for (name, count) in [
        ("channel_vacated", 6),
        ("channel_occupied", 7),
        ("member_added", 7),
        ("member_removed", 6),
    ] {
        wait_until("nothing is missing", || {
            (backend.channels(name).len() >= count).then_some(())
        });
        // Events that the killed worker had sent, but not recorded as sent, are sent again.
        let is_exact = name != "member_added";
        assert!(!is_exact || backend.channels(name).len() == count, "{name}");
    }
}

#[test]
fn what_is_given_up_holds_up_nothing() {
    let folder = Directory::new();
    let backend = Backend::start(Does::Refuse);
    let hub = start(
        &folder,
        &local(&backend),
        "retry_s = 0\nevents = ['channel_occupied', 'channel_vacated']\nqueue_events_max = 2\n",
    );
    let mut clients = Vec::new();
    for number in 0..5 {
        let mut client = hub.client();
        client.subscribe(&hub, &format!("given-up-{number}"), None);
        clients.push(client);
    }
    // Each event is tried once, with at most two events per POST.
    wait_until("each was tried", || (backend.refused() >= 3).then_some(()));
    let refused = backend.refused();
    holds_until("nothing is sent again", QUIET, || {
        backend.refused() <= refused + 2
    });
    backend.set(Does::Take);
    let mut client = hub.client();
    client.subscribe(&hub, "taken", None);
    backend.wait_for("channel_occupied", "taken");
    // The event counts as delivered, so `channel_vacated` follows.
    drop(clients);
    backend.wait_for("channel_vacated", "given-up-0");
}

/// A TLS backend that writes each POST to a file.
const SECURE: &str = r#"
import http.server, ssl, sys
folder = sys.argv[1]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open(folder + "/posted", "ab") as file:
            file.write(body + b"\n")
        self.send_response(204)
        self.end_headers()
    def log_message(self, *arguments):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder + "/own.crt", folder + "/own.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_backend_is_told_by_https() {
    if !works("openssl", &["version"]) || !works("python3", &["--version"]) {
        return skipped("openssl or python3 is not installed");
    }
    let folder = Directory::new();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
        .args(["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args([
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(path("own.key"))
        .arg("-out")
        .arg(path("own.crt"))
        .output()
        .expect("it was tried before");
    assert!(made.status.success(), "{made:?}");
    let mut backend = Command::new("python3")
        .args(["-c", SECURE])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was tried before");
    let mut line = String::new();
    BufReader::new(backend.stdout.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("its port");
    let _backend = Ended(backend);
    let config = folder.write(
        "hub.toml",
        format!(
            "[[app]]\nid = '1'\nkey = 'app-key'\nsecret = '0123456789abcdef'\n\
             [[app.webhook]]\nurl = 'https://localhost:{}/hook'\n",
            line.trim()
        ),
    );
    let hub = Hub::start_with(
        &["--config", &config.display().to_string()],
        &[("SSL_CERT_FILE", &path("own.crt").display().to_string())],
    );
    let mut client = hub.client();
    client.subscribe(&hub, "news", None);
    wait_until("it was told", || {
        let posted = std::fs::read_to_string(path("posted")).ok()?;
        posted.contains("channel_occupied").then_some(())
    });
}

/// Starts a backend that responds with `first`, then repeats `then` until the connection is closed.
fn hostile(first: String, then: &'static [u8], pause: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    // The thread runs until the test process exits.
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (mut socket, first) = (socket.expect("a client"), first.clone());
            thread::spawn(move || {
                let mut request = [0; 4096];
                let mut sent = socket.read(&mut request).map(|_| ());
                sent = sent.and_then(|()| socket.write_all(first.as_bytes()));
                while sent.is_ok() && !then.is_empty() {
                    sent = socket.write_all(then);
                    thread::sleep(pause);
                }
            });
        }
    });
    port
}

#[test]
fn hostile_backends_hold_up_no_other_and_are_not_followed() {
    let folder = Directory::new();
    let elsewhere = TcpListener::bind("127.0.0.1:0").expect("a free port");
    elsewhere.set_nonblocking(true).expect("a socket");
    let target = elsewhere.local_addr().expect("bound");
    let (at_once, slowly) = (Duration::ZERO, Duration::from_millis(50));
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let moved =
        format!("HTTP/1.1 307 Moved\r\nLocation: http://{target}/\r\nContent-Length: 0\r\n\r\n");
    let ports = [
        hostile(moved, b"", at_once),
        hostile(chunked.to_owned(), b"5\r\nendls\r\n", at_once),
        hostile(chunked.to_owned(), b"5\r\nslowl\r\n", slowly),
        hostile("HTTP/1.1 200 OK\r\nX: ".to_owned(), b"endless", at_once),
        hostile(String::new(), b"HTTP/1.1 103 Early Hints\r\n\r\n", at_once),
        hostile(String::new(), b"x", slowly),
    ];
    let hooks: String = ports
        .iter()
        .map(|port| format!("[[app.webhook]]\nurl = 'http://127.0.0.1:{port}/'\ntimeout_ms = 500\nretry_s = 1\nqueue_events_max = 10\n"))
        .collect();
    let backend = Backend::start(Does::Take);
    let hub = start(
        &folder,
        &local(&backend),
        &format!("events = ['channel_occupied']\n{hooks}"),
    );
    let mut clients = Vec::new();
    for number in 0..30 {
        let mut client = hub.client();
        client.subscribe(&hub, &format!("news-{number}"), None);
        clients.push(client);
    }
    for number in 0..30 {
        backend.wait_for("channel_occupied", &format!("news-{number}"));
    }
    assert!(elsewhere.accept().is_err(), "no redirect is followed");
    // The worker that sends webhooks still serves clients.
    hub.publish("news-1", "told", "1");
    while clients[1].next()["event"] != "told" {}
}
