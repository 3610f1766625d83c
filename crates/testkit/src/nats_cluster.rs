//! A JetStream cluster of three real nats-servers: a log that survives the failure of any one server.
//!
//! A separate [`Relay`] connects each server to each other one, so a test can isolate one server while clients still
//! reach it.

use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{Directory, Nats, Relay, Signal, ask_nats, free_port, send_signal, wait_until};

/// Number of servers: the minimum that tolerates one failure.
const SERVERS: usize = 3;

/// A JetStream cluster, killed when dropped.
pub struct NatsCluster {
    directory: Directory,
    servers: Vec<Server>,
    /// Relays, with the index of the source and target server.
    routes: Vec<(usize, usize, Relay)>,
}

struct Server {
    port: u16,
    route_port: u16,
    child: Option<Child>,
}

impl NatsCluster {
    /// Starts a cluster; returns `None` if nats-server is not installed. JetStream needs some seconds before it
    /// replies.
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

    /// Returns the URLs of all servers for the setting `cluster`, starting with server `first`.
    pub fn url(&self, first: usize) -> String {
        let servers = (0..SERVERS).map(|at| self.url_of((first + at) % SERVERS));
        servers.collect::<Vec<_>>().join(",")
    }

    /// Returns the URL of one server.
    pub fn url_of(&self, at: usize) -> String {
        format!("nats://127.0.0.1:{}", self.port_of(at))
    }

    /// Returns the client port of one server on 127.0.0.1.
    pub fn port_of(&self, at: usize) -> u16 {
        self.servers[at].port
    }

    /// Returns the leader of a stream.
    ///
    /// # Panics
    /// Panics if the stream does not exist.
    pub fn leader(&self, stream: &str) -> usize {
        let subject = format!("$JS.API.STREAM.INFO.{stream}");
        wait_until("a server leads the stream", || {
            let answer = ask_nats(self.servers[0].port, &subject, "");
            assert!(!answer.contains("\"code\":404"), "{answer}");
            (0..SERVERS).find(|at| answer.contains(&format!("\"leader\":\"{}\"", name_of(*at))))
        })
    }

    /// Isolates a server from the other servers, while clients still reach it. Connections stay open, as with packet loss.
    pub fn isolate(&self, at: usize) {
        self.routes_of(at).for_each(Relay::hold);
    }

    /// Reconnects all servers.
    pub fn heal(&self) {
        self.routes.iter().for_each(|(_, _, relay)| relay.heal());
    }

    fn routes_of(&self, at: usize) -> impl Iterator<Item = &Relay> {
        let routes = self.routes.iter();
        routes
            .filter(move |(from, to, _)| *from == at || *to == at)
            .map(|(_, _, relay)| relay)
    }

    /// Starts the shutdown by an operator: the server hands over leadership, accepts no more clients and closes its
    /// connections.
    pub fn begin_lame_duck(&self, at: usize) {
        let child = self.servers[at].child.as_ref().expect("it runs");
        assert!(send_signal(child.id(), Signal::User2));
    }

    /// Simulates a machine failure with SIGKILL.
    pub fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.servers[at].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Restarts a server with its data.
    pub fn restart(&mut self, at: usize) {
        self.kill(at);
        self.begin(at);
    }

    /// Stops a server until [`NatsCluster::resume`]. Its connections stay open.
    pub fn pause(&self, at: usize) {
        self.signal(at, Signal::Stop);
    }

    /// Resumes a server.
    pub fn resume(&self, at: usize) {
        self.signal(at, Signal::Continue);
    }

    /// Starts and reconnects all servers.
    pub fn mend(&mut self) {
        self.heal();
        for at in 0..SERVERS {
            match self.servers[at].child {
                Some(_) => self.resume(at),
                None => self.begin(at),
            }
        }
    }

    /// Returns true if the files of all servers contain the same messages of a stream. That is the case shortly after
    /// they reconnect, unless NATS has a bug.
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
        // Servers advertise their addresses to each other, which would bypass the relays. So they advertise a port
        // without a listener.
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

/// Returns the name of a server.
fn name_of(at: usize) -> String {
    format!("n{at}")
}
