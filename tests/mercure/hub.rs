//! A running `fermata hub`, configured like the Mercure hub, and its clients.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use fermata_testkit::sse::Stream;
use fermata_testkit::{
    Connection, Directory, Listening, Response, Signal, command_path, send_signal,
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

pub const SECRET: &str = "!ChangeThisMercureHubJWTSecretKey!";

/// Number of workers, large enough that two clients are mostly connected to different workers.
pub const WORKERS: &str = "3";

pub const PATH: &str = "/.well-known/mercure";

pub struct Hub {
    process: Listening,
    /// Contains the control socket.
    _directory: Directory,
}

pub fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_secs()
}

/// Returns a token with these claims.
pub fn sign(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    encode(&Header::new(Algorithm::HS256), claims, &key).expect("a token")
}

/// Returns a token that allows private updates of these topics.
pub fn reader(topics: &[&str]) -> String {
    sign(&json!({"mercure": {"subscribe": topics}, "exp": now_s() + 36_000}))
}

/// Returns a token that allows publishing to these topics.
pub fn publisher(topics: &[&str]) -> String {
    sign(&json!({"mercure": {"publish": topics}}))
}

/// Percent-encodes a value of a form or query.
pub fn escape(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

impl Hub {
    /// Starts a hub with the environment of the Mercure hub and these directives.
    pub fn start(directives: &str) -> Hub {
        Hub::start_with(directives, &[])
    }

    pub fn start_with(directives: &str, arguments: &[&str]) -> Hub {
        Hub::start_as(directives, arguments, &[])
    }

    /// Starts a hub with additional arguments and variables.
    pub fn start_as(directives: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Hub {
        Hub::run(Directory::new(), |directory, command, port| {
            // A previous hub may have left a socket.
            let control = directory.join(&format!("control-{port}"));
            command
                .arg("--control")
                .arg(format!("unix:{}", control.display()))
                .args(arguments)
                .env("MERCURE_PUBLISHER_JWT_KEY", SECRET)
                .env("MERCURE_SUBSCRIBER_JWT_KEY", SECRET)
                .env("MERCURE_EXTRA_DIRECTIVES", directives)
                .envs(variables.iter().copied())
                .env("SERVER_NAME", format!("http://localhost:{port}"));
        })
    }

    /// Starts a hub configured only by the table `[mercure]` of a file.
    pub fn configured(table: &str) -> Hub {
        let directory = Directory::new();
        let config = directory.write("hub.toml", format!("[mercure]\n{table}"));
        Hub::run(directory, |_, command, port| {
            command
                .arg("--config")
                .arg(&config)
                .args(["--listen", &format!("127.0.0.1:{port}")]);
        })
    }

    /// Starts a hub; `set` adds arguments and variables for a port.
    fn run(directory: Directory, set: impl Fn(&Directory, &mut Command, u16)) -> Hub {
        let process = Listening::start(|port| {
            let mut command = Command::new(command_path());
            command
                .args(["hub", "--workers", WORKERS])
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            set(&directory, &mut command, port);
            command.spawn()
        });
        Hub {
            process,
            _directory: directory,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.process.address()
    }

    pub fn connect(&self) -> Connection {
        self.process.connect()
    }

    /// Returns the process ids of the workers.
    pub fn workers(&self) -> Vec<u32> {
        self.process.children()
    }

    /// Kills the hub, as if the machine had failed.
    pub fn kill(self) {
        let pids = self.workers();
        self.process.kill();
        for pid in pids {
            send_signal(pid, Signal::Kill);
        }
    }

    /// Returns the path that subscribes to these topics.
    pub fn path(topics: &[&str], token: Option<&str>) -> String {
        let topics = topics
            .iter()
            .map(|topic| format!("topic={}", escape(topic)));
        let token = token.map(|token| format!("authorization={token}"));
        let query: Vec<String> = topics.chain(token).collect();
        format!("{PATH}?{}", query.join("&"))
    }

    pub fn subscribe(&self, topics: &[&str], token: Option<&str>) -> Stream {
        Stream::open(self.connect(), &Hub::path(topics, token), None)
    }

    /// Publishes and returns the response.
    pub fn try_publish(&self, token: &str, fields: &[(&str, &str)]) -> Response {
        let form: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", escape(value)))
            .collect();
        let bearer = format!("Bearer {token}");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        self.connect()
            .request("POST", PATH, &headers, form.join("&").as_bytes())
    }

    /// Publishes and returns the update's id.
    pub fn publish(&self, fields: &[(&str, &str)]) -> String {
        let response = self.try_publish(&publisher(&["*"]), fields);
        assert_eq!(response.status(), 200, "{}", response.text());
        let kind = response.header("content-type").unwrap_or_default();
        assert!(kind.starts_with("text/plain"), "{kind}");
        response.text().to_owned()
    }
}
