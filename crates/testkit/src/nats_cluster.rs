//! Three real nats-servers that are one JetStream: a log that outlives any one of its servers.
//!
//! Each reaches each other one through a [`Relay`] of its own, so one may be cut off from the others while its clients still
//! reach it.

use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{Directory, Nats, Relay, Signal, ask_nats, free_port, send_signal, wait_until};

/// How many they are: the fewest of which one may fail.
const SERVERS: usize = 3;

/// See the module; they are killed when dropped.
pub struct NatsCluster {
    directory: Directory,
    servers: Vec<Server>,
    /// From which to which, and what is between them.
    routes: Vec<(usize, usize, Relay)>,
}

struct Server {
    port: u16,
    route_port: u16,
    child: Option<Child>,
}

impl NatsCluster {
    /// `None` where nats-server is not installed. It takes some seconds until JetStream answers.
    pub fn start() -> Option<NatsCluster> {
        if !Nats::is_there() {
            return None;
        }
        let servers: Vec<Server> = (0..SERVERS)
            .map(|_| Server {
                port: free_port(),
                route_port: free_port(),
                child: None,
            })
            .collect();
        let pairs = (0..SERVERS).flat_map(|from| (0..SERVERS).map(move |to| (from, to)));
        let routes = pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| (from, to, Relay::to("nats-route", servers[to].route_port)))
            .collect();
        let mut cluster = NatsCluster {
            directory: Directory::new(),
            servers,
            routes,
        };
        for at in 0..SERVERS {
            cluster.begin(at);
        }
        Some(cluster)
    }

    /// All servers as the setting `cluster` has them, beginning with one.
    pub fn url(&self, first: usize) -> String {
        let servers = (0..SERVERS).map(|at| self.url_of((first + at) % SERVERS));
        servers.collect::<Vec<_>>().join(",")
    }

    /// One server alone.
    pub fn url_of(&self, at: usize) -> String {
        format!("nats://127.0.0.1:{}", self.port_of(at))
    }

    /// The port of 127.0.0.1 at which one server listens to clients.
    pub fn port_of(&self, at: usize) -> u16 {
        self.servers[at].port
    }

    /// Which server leads a stream.
    ///
    /// # Panics
    /// Panics when there is no such stream.
    pub fn leader(&self, stream: &str) -> usize {
        let subject = format!("$JS.API.STREAM.INFO.{stream}");
        wait_until("a server leads the stream", || {
            let answer = ask_nats(self.servers[0].port, &subject, "");
            assert!(!answer.contains("\"code\":404"), "{answer}");
            (0..SERVERS).find(|at| answer.contains(&format!("\"leader\":\"{}\"", name_of(*at))))
        })
    }

    /// A server neither reaches the others nor is reached by them; clients reach it. Connections stay open, as where packets are
    /// lost.
    pub fn isolate(&self, at: usize) {
        self.routes_of(at).for_each(Relay::hold);
    }

    /// All reach each other again.
    pub fn heal(&self) {
        self.routes.iter().for_each(|(_, _, relay)| relay.heal());
    }

    fn routes_of(&self, at: usize) -> impl Iterator<Item = &Relay> {
        let routes = self.routes.iter();
        routes
            .filter(move |(from, to, _)| *from == at || *to == at)
            .map(|(_, _, relay)| relay)
    }

    /// As if its machine had failed: with SIGKILL.
    pub fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.servers[at].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// What it had stays.
    pub fn restart(&mut self, at: usize) {
        self.kill(at);
        self.begin(at);
    }

    /// It answers nobody until [`NatsCluster::resume`], and its connections stay.
    pub fn pause(&self, at: usize) {
        self.signal(at, Signal::Stop);
    }

    /// It goes on.
    pub fn resume(&self, at: usize) {
        self.signal(at, Signal::Continue);
    }

    /// All servers run, and reach each other.
    pub fn mend(&mut self) {
        self.heal();
        for at in 0..SERVERS {
            match self.servers[at].child {
                Some(_) => self.resume(at),
                None => self.begin(at),
            }
        }
    }

    /// Whether the servers' own files have the same messages of a stream, which they do a moment after they reach each other
    /// again. Where they never do, it is a fault of theirs.
    pub fn has_equal_copies(&self, stream: &str) -> bool {
        let copies: Vec<_> = (0..SERVERS)
            .map(|at| {
                let path = format!("{}/jetstream/$G/streams/{stream}/msgs", name_of(at));
                let entries = fs::read_dir(self.directory.path().join(path));
                let entries = entries.into_iter().flatten().flatten();
                let mut blocks: Vec<_> = entries
                    .map(|it| it.path())
                    .filter(|it| it.extension().is_some_and(|it| it == "blk"))
                    .map(|it| (it.file_name().map(ToOwned::to_owned), fs::read(it).ok()))
                    .collect();
                blocks.sort();
                blocks
            })
            .collect();
        copies
            .iter()
            .all(|copy| !copy.is_empty() && *copy == copies[0])
    }

    fn signal(&self, at: usize, signal: Signal) {
        let child = self.servers[at].child.as_ref().expect("it runs");
        assert!(send_signal(child.id(), signal));
    }

    fn begin(&mut self, at: usize) {
        let name = name_of(at);
        let routes: Vec<String> = (self.routes.iter())
            .filter(|(from, _, _)| *from == at)
            .map(|(_, _, relay)| format!("\"nats-route://{}\"", relay.address()))
            .collect();
        let Server {
            port, route_port, ..
        } = self.servers[at];
        // Servers tell each other where the others are, which would lead past the relays: where nobody listens.
        let settings = format!(
            "server_name: {name}\nlisten: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\" }}\n\
             cluster {{\n  name: test\n  listen: \"127.0.0.1:{route_port}\"\n  advertise: \"127.0.0.1:1\"\n  \
             no_advertise: true\n  routes: [{}]\n}}\n",
            self.directory.path().join(&name).display(),
            routes.join(", "),
        );
        let path = self.directory.path().join(format!("{name}.conf"));
        fs::write(&path, settings).expect("the folder is writable");
        let log = fs::File::create(self.directory.path().join(format!("{name}.log")));
        let child = Command::new("nats-server")
            .arg("-c")
            .arg(path)
            .stdout(Stdio::null())
            .stderr(log.expect("the folder is writable"))
            .spawn()
            .expect("it can be started");
        let child = self.servers[at].child.insert(child);
        wait_until("nats-server listens", || {
            let ended = child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "nats-server has ended: {ended:?}");
            let address = ([127, 0, 0, 1], port).into();
            let stream = TcpStream::connect_timeout(&address, Duration::from_secs(1));
            stream.is_ok().then_some(())
        });
    }
}

impl Drop for NatsCluster {
    fn drop(&mut self) {
        for at in 0..SERVERS {
            self.kill(at);
        }
    }
}

/// What a server calls itself.
fn name_of(at: usize) -> String {
    format!("n{at}")
}
