//! A running `fermata hub` and its clients.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use fermata_pusher::{App, auth};
use fermata_testkit::websocket::Socket;
use fermata_testkit::{
    Connection, Directory, Listening, Response, Server, Signal, command_path, send_signal,
    workspace_root,
};
use serde_json::{Value, json};

/// The application of all tests.
pub const APPLICATION: &str = "1:app-key:0123456789abcdef";

/// Number of workers, large enough that two clients are mostly connected to different workers.
pub const WORKERS: &str = "3";

/// The server process.
enum Runs {
    /// `fermata hub`.
    Alone(Listening),
    /// An application with the hub next to its own routes.
    Beside(Server),
}

pub struct Hub {
    runs: Runs,
    pub app: App,
}

fn program() -> Command {
    let mut command = Command::new(command_path());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Hub {
    /// Starts a hub, with the application of all tests unless `arguments` contain one.
    pub fn start(arguments: &[&str]) -> Hub {
        Hub::start_with(arguments, &[])
    }

    /// Starts a hub with additional environment variables.
    pub fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Hub {
        let mut command = program();
        command.envs(environment.iter().copied());
        command.arg("hub");
        if !arguments.contains(&"--config") {
            command.args(["--app", APPLICATION]);
        }
        command.args(arguments).args(["--workers", WORKERS]);
        Hub::wait(|port| {
            let listen = format!("127.0.0.1:{port}");
            command.args(["--listen", &listen]).spawn()
        })
    }

    /// Starts a hub with the application of all tests and these lines in its file.
    pub fn configured(lines: &str) -> Hub {
        let mut parts = APPLICATION.split(':');
        let mut next = || parts.next().expect("three parts");
        let (id, key, secret) = (next(), next(), next());
        let app = format!("[[app]]\nid = \"{id}\"\nkey = \"{key}\"\nsecret = \"{secret}\"\n");
        let folder = Directory::new();
        let file = folder.write("hub.toml", format!("{lines}\n{app}"));
        // The file is read before the hub listens.
        Hub::start(&["--config", file.to_str().expect("text")])
    }

    /// Starts a hub with Reverb's environment variables.
    pub fn start_as_reverb() -> Hub {
        let mut command = program();
        let mut parts = APPLICATION.split(':');
        for name in ["REVERB_APP_ID", "REVERB_APP_KEY", "REVERB_APP_SECRET"] {
            command.env(name, parts.next().expect("three parts"));
        }
        command.env("REVERB_SERVER_HOST", "127.0.0.1");
        command.arg("hub");
        Hub::wait(|port| command.env("REVERB_SERVER_PORT", port.to_string()).spawn())
    }

    /// Starts a script of `tests/fixtures` that serves the same application.
    pub fn beside(fixture: &str) -> Hub {
        let script = workspace_root().join("tests/fixtures").join(fixture);
        Hub::of(Runs::Beside(Server::builder(script).workers(3).start()))
    }

    fn wait(start: impl FnMut(u16) -> std::io::Result<Child>) -> Hub {
        Hub::of(Runs::Alone(Listening::start(start)))
    }

    fn of(runs: Runs) -> Hub {
        let mut parts = APPLICATION.split(':');
        let mut next = || parts.next().expect("three parts");
        let app = App::new(next(), next(), next()).expect("an application");
        Hub { runs, app }
    }

    pub fn address(&self) -> SocketAddr {
        match &self.runs {
            Runs::Alone(process) => process.address(),
            Runs::Beside(server) => server.address(),
        }
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.address())
    }

    /// Kills the hub, as if the machine had failed.
    pub fn kill(self) {
        let pids = self.workers();
        match self.runs {
            Runs::Alone(process) => process.kill(),
            Runs::Beside(_) => panic!("its server is a program's"),
        }
        // Kill the workers too: they could still send messages before they detect that their master
        // has exited.
        for pid in pids {
            send_signal(pid, Signal::Kill);
        }
    }

    /// Returns the process ids of the workers.
    pub fn workers(&self) -> Vec<u32> {
        match &self.runs {
            Runs::Alone(process) => process.children(),
            Runs::Beside(server) => server.worker_pids().into_values().collect(),
        }
    }

    /// Returns a client whose connection is established.
    pub fn client(&self) -> Client {
        let path = format!("/app/{}?protocol=7&client=test&version=1", self.app.key);
        let mut socket = Socket::open(self.connect(), &path);
        let frame = json_of(&socket.next_text());
        assert_eq!(frame["event"], "pusher:connection_established", "{frame}");
        let id = data_of(&frame)["socket_id"]
            .as_str()
            .expect("an id")
            .to_owned();
        Client { socket, id }
    }

    /// Sends a signed request to the HTTP API.
    pub fn ask(&self, method: &str, path: &str, more: &[(&str, &str)], body: &str) -> (u16, Value) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_s = now.expect("after 1970").as_secs().to_string();
        let mut query: Vec<(String, String)> = [
            ("auth_key", self.app.key.as_str()),
            ("auth_timestamp", &now_s),
            ("auth_version", "1.0"),
        ]
        .iter()
        .chain(more)
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
        if !body.is_empty() {
            query.push(("body_md5".to_owned(), auth::body_md5(body.as_bytes())));
        }
        let text = auth::request_text(method, path, &query);
        let signature = auth::sign(&self.app, text.as_bytes());
        query.push(("auth_signature".to_owned(), signature));
        let query: Vec<String> = query
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let target = format!("{path}?{}", query.join("&"));
        let response: Response = self
            .connect()
            .request(method, &target, &[], body.as_bytes());
        (response.status(), json_of(response.text()))
    }

    /// Publishes an event.
    pub fn publish(&self, channel: &str, name: &str, data: &str) {
        let body = json!({"name": name, "channel": channel, "data": data}).to_string();
        let (status, answer) = self.ask("POST", "/apps/1/events", &[], &body);
        assert_eq!(status, 200, "{answer}");
    }
}

pub struct Client {
    pub socket: Socket,
    pub id: String,
}

impl Client {
    pub fn send_event(&mut self, event: &str, data: &Value) {
        self.socket
            .text(&json!({"event": event, "data": data}).to_string());
    }

    /// Sends an event to the other subscribers of a channel.
    pub fn send_event_on(&mut self, event: &str, channel: &str, data: &Value) {
        self.socket
            .text(&json!({"event": event, "channel": channel, "data": data}).to_string());
    }

    /// Signs a user in.
    pub fn sign_in(&mut self, hub: &Hub, user: &str) {
        let data = json!({"id": user}).to_string();
        let auth = auth::user(&hub.app, &self.id, &data);
        self.send_event("pusher:signin", &json!({"auth": auth, "user_data": data}));
        let frame = self.next();
        assert_eq!(frame["event"], "pusher:signin_success", "{frame}");
    }

    /// Requests a subscription, as this user of a presence channel, without waiting for the
    /// response.
    pub fn ask_to_subscribe(&mut self, hub: &Hub, channel: &str, user: Option<&str>) {
        let data =
            user.map(|user| json!({"user_id": user, "user_info": {"name": user}}).to_string());
        let auth = auth::subscription(&hub.app, &self.id, channel, data.as_deref());
        self.send_event(
            "pusher:subscribe",
            &json!({"channel": channel, "auth": auth, "channel_data": data}),
        );
    }

    /// Requests a subscription and returns the data of the response.
    pub fn subscribe(&mut self, hub: &Hub, channel: &str, user: Option<&str>) -> Value {
        self.ask_to_subscribe(hub, channel, user);
        let frame = self.next();
        assert_eq!(
            frame["event"], "pusher_internal:subscription_succeeded",
            "{frame}"
        );
        data_of(&frame)
    }

    /// Returns the next message.
    pub fn next(&mut self) -> Value {
        json_of(&self.socket.next_text())
    }
}

pub fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns the data of a message, which is JSON in a string.
pub fn data_of(frame: &Value) -> Value {
    json_of(frame["data"].as_str().expect("data is a string"))
}
