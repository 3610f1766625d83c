//! An application with `pusher()` and `mercure()` on two servers, and pages of both that move
//! between the servers: pusher-js and Node's `eventsource`, unmodified.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use fermata_testkit::install::{install_node, installed, skipped, works};
use fermata_testkit::sse::Stream;
use fermata_testkit::websocket::Socket;
use fermata_testkit::{LogServer, Server, over_each_log, wait_until, workspace_root};
use serde_json::{Value, json};

use crate::node::{node_of, wait_ready};

over_each_log!(
    pages_of_both_servers_get_everything_under_ids_of_both,
    ids_of_either_door_are_taken_by_the_other_server,
);

const PAGES: [&str; 4] = [
    "fixed-pusher",
    "fixed-mercure",
    "moving-pusher",
    "moving-mercure",
];

fn servers(log: &LogServer) -> [Server; 2] {
    let servers = [(); 2].map(|()| node_of("doors", log).start());
    for server in &servers {
        wait_ready(server, 200);
    }
    servers
}

/// Publishes an event "item" from a handler and returns its id.
fn publish(server: &Server, data: &str) -> String {
    let response = server.connect().post("/publish?name=item", data);
    assert_eq!(response.status(), 200, "{}", response.text());
    response.text().to_owned()
}

/// Publishes the event with `mercure_publish()` and returns its id.
fn update(server: &Server, data: &str) -> String {
    let response = server.connect().post("/update?name=item", data);
    assert_eq!(response.status(), 200, "{}", response.text());
    response.text().to_owned()
}

/// The pages and their received events; killed when dropped.
struct Pages {
    child: Child,
    input: ChildStdin,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Pages {
    /// Opens the pages; `None` if Node or its registry is unavailable.
    fn open(servers: &[Server; 2]) -> Option<Pages> {
        if !works("node", &["--version"]) || !works("npm", &["--version"]) {
            skipped("node or npm is not installed");
            return None;
        }
        let folders = [
            libraries("pusher", "pusher-node")?,
            libraries("mercure", "mercure-node")?,
        ];
        let mut child = Command::new("node")
            .arg(workspace_root().join("tests/cluster/clients/pages.mjs"))
            .args(folders)
            .args(servers.each_ref().map(|it| it.address().port().to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was tried before");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (into, stdout) = (Arc::clone(&lines), child.stdout.take().expect("a pipe"));
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                into.lock().expect("nobody panics with it").push(line);
            }
        });
        let input = child.stdin.take().expect("a pipe");
        let pages = Pages {
            child,
            input,
            lines,
        };
        pages.wait_listening(1);
        Some(pages)
    }

    /// Connects the moving pages to another server, or to none.
    fn lead(&mut self, to: &str) {
        writeln!(self.input, "{to}").expect("it reads");
    }

    fn of(&self, page: &str) -> Vec<String> {
        let lines = self.lines.lock().expect("nobody panics with it");
        let own = lines.iter().filter_map(|line| line.strip_prefix(page));
        own.map(|line| line.trim_start().to_owned()).collect()
    }

    /// Waits until the moving pages have subscribed `times` times.
    fn wait_listening(&self, times: usize) {
        wait_until("all pages listen", || {
            let count = |page: &str| self.of(page).iter().filter(|it| *it == "listens").count();
            let is_there =
                |page: &&str| count(page) >= if page.starts_with("m") { times } else { 1 };
            PAGES.iter().all(is_there).then_some(())
        });
    }

    /// Returns the events that a page received up to `last`.
    fn told(&self, page: &str, last: &str) -> Vec<String> {
        wait_until(&format!("{page} is told of {last}"), || {
            let mut told = self.of(page);
            told.retain(|line| line != "listens");
            let is_last = |line: &String| line.split(' ').nth(1) == Some(last);
            told.last().is_some_and(is_last).then_some(told)
        })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the folder with the Node packages of a protocol's tests.
fn libraries(protocol: &str, name: &str) -> Option<PathBuf> {
    let folder = installed(name);
    std::fs::create_dir_all(&folder).expect("a folder in target/");
    for file in ["package.json", "package-lock.json"] {
        let from = workspace_root().join(format!("tests/{protocol}/clients/{file}"));
        std::fs::copy(from, folder.join(file)).expect("a file of ours");
    }
    install_node(&folder).then_some(folder)
}

fn pages_of_both_servers_get_everything_under_ids_of_both(log: LogServer) {
    let servers = servers(&log);
    let Some(mut pages) = Pages::open(&servers) else {
        return;
    };
    // Data, and the ids of updates.
    let mut published: Vec<(String, Option<String>)> = Vec::new();
    let mut say = |pages: &Pages, who: &[&str], is_update: bool, at: usize| {
        let data = published.len().to_string();
        let by = if is_update { update } else { publish };
        let id = by(&servers[at], &data);
        // Pages that share a connection receive the event a moment later, but before the next
        // event.
        for page in who {
            pages.told(page, &data);
        }
        published.push((data, is_update.then_some(id)));
    };
    let fixed = &PAGES[..2];
    for at in 0..10 {
        say(&pages, &PAGES, at % 3 == 0, at % 2);
    }
    // The pages move to the other server and back. They miss events published during a move.
    for (round, to) in [(1, "1"), (2, "0")] {
        pages.lead("cut");
        for at in 0..4 {
            say(&pages, fixed, false, at % 2);
        }
        pages.lead(to);
        pages.wait_listening(1 + round);
        say(&pages, &PAGES, false, 0);
        say(&pages, &PAGES, true, 1);
    }
    let (last, _) = published.last().expect("some were published");
    let told = ["fixed-mercure", "moving-mercure"].map(|page| pages.told(page, last));
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0].len(), published.len());
    for (line, (data, id)) in told[0].iter().zip(&published) {
        // A Mercure update of a channel's event has a separate id.
        match id {
            Some(id) => assert_eq!(*line, format!("item {data} {id}")),
            None => assert!(line.starts_with(&format!("item {data} ")), "{line}"),
        }
    }
    let expected = published.iter().map(|(data, _)| format!("item {data}"));
    assert_eq!(
        pages.told("fixed-pusher", last),
        expected.collect::<Vec<_>>()
    );
    // pusher-js does not request missed events.
    let expected = published
        .iter()
        .map(|(data, _)| data.parse().expect("a number"));
    let expected = expected.filter(|number: &usize| !matches!(number, 10..14 | 16..20));
    let expected = expected.map(|number| format!("item {number}"));
    assert_eq!(
        pages.told("moving-pusher", last),
        expected.collect::<Vec<_>>()
    );
}

/// Opens a Pusher connection and reads its `connection_established`.
fn pusher(server: &Server) -> Socket {
    let path = "/app/app-key?protocol=7&client=test&version=1";
    let mut socket = Socket::open(server.connect(), path);
    let frame = frame(&mut socket);
    assert_eq!(frame["event"], "pusher:connection_established");
    socket
}

fn frame(socket: &mut Socket) -> Value {
    serde_json::from_str(&socket.next_text()).expect("JSON")
}

fn subscribe(socket: &mut Socket, data: &Value) {
    socket.text(&json!({"event": "pusher:subscribe", "data": data}).to_string());
    let frame = frame(socket);
    assert_eq!(frame["event"], "pusher_internal:subscription_succeeded");
}

fn ids_of_either_door_are_taken_by_the_other_server(log: LogServer) {
    let servers = servers(&log);
    let mut live = pusher(&servers[1]);
    subscribe(&mut live, &json!({"channel": "news"}));
    let path = "/.well-known/mercure?topic=news";
    let mut updates = Stream::open(servers[0].connect(), path, None);
    let ids: Vec<String> = (0..6)
        .map(|at| publish(&servers[at % 2], &at.to_string()))
        .collect();
    for (at, id) in ids.iter().enumerate() {
        let frame = frame(&mut live);
        assert_eq!(
            (&frame["data"], &frame["id"]),
            (&json!(at.to_string()), &json!(id))
        );
    }
    let updates: Vec<Option<String>> = (0..6)
        .map(|at: usize| {
            let event = updates.next_event();
            assert_eq!(event.data, at.to_string());
            event.id
        })
        .collect();
    for server in &servers {
        let mut stream = Stream::open(server.connect(), path, updates[2].as_deref());
        let mut socket = pusher(server);
        subscribe(
            &mut socket,
            &json!({"channel": "news", "fermata:since": ids[2]}),
        );
        for at in 3..6 {
            let data = at.to_string();
            let event = stream.next_event();
            assert_eq!((&event.data, &event.id), (&data, &updates[at]));
            let frame = frame(&mut socket);
            assert_eq!(
                (&frame["data"], &frame["id"]),
                (&json!(data), &json!(ids[at]))
            );
        }
    }
}
