//! Tests `fermata publish` against Debian's Pushpin, if installed: each message arrives at a held client.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout for Pushpin's processes to connect to each other, and for a message to arrive.
const PATIENCE: Duration = Duration::from_secs(30);
/// Timeout of one attempt; Pushpin never responds to a request that arrives before all its processes run.
const TRY: Duration = Duration::from_secs(2);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// A running Pushpin and its folder. Dropping the value stops the process and removes the folder.
struct Pushpin {
    child: Child,
    folder: PathBuf,
    port: u16,
    http: u16,
    pull: u16,
}

impl Pushpin {
    /// Starts Pushpin; returns `None` if it is not installed.
    fn start() -> Option<Self> {
        let internal = Path::new("/usr/lib/pushpin/internal.conf");
        let installed = Command::new("pushpin")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if !installed.is_ok_and(|status| status.success()) || !internal.exists() {
            eprintln!("not run: Debian's package pushpin is not installed");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("fermata-pushpin-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        // Bind all four ports before releasing any, so that none is assigned twice.
        let listeners = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let [port, http, pull, sub] =
            listeners.map(|listener| listener.local_addr().expect("bound").port());
        fs::write(folder.join("routes"), "* test\n").expect("a file");
        let name = folder.display();
        let config = format!(
            "[global]\ninclude={}\nrundir={name}\nipc_prefix=t-\n\
            [runner]\nservices=condure,pushpin-proxy,pushpin-handler\nhttp_port=127.0.0.1:{port}\nlogdir={name}\n\
            [proxy]\nroutesfile={name}/routes\nupdates_check=off\n\
            [handler]\npush_in_spec=tcp://127.0.0.1:{pull}\npush_in_sub_specs=tcp://127.0.0.1:{sub}\n\
            push_in_http_addr=127.0.0.1\npush_in_http_port={http}\nstats_spec=ipc://{name}/stats\ncommand_spec=ipc://{name}/command\n",
            internal.display(),
        );
        fs::write(folder.join("pushpin.conf"), config).expect("a file");
        let child = Command::new("pushpin")
            .arg(format!(
                "--config={}",
                folder.join("pushpin.conf").display()
            ))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("an installed program");
        Some(Self {
            child,
            folder,
            port,
            http,
            pull,
        })
    }

    /// Connects a client that is held on a channel, and reads its greeting line.
    fn hold(&self, channel: &str) -> BufReader<TcpStream> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(client) = self.try_hold(channel) {
                return client;
            }
            assert!(
                Instant::now() < deadline,
                "Pushpin holds nobody; see {}",
                self.folder.display()
            );
            thread::sleep(PAUSE);
        }
    }

    fn try_hold(&self, channel: &str) -> Option<BufReader<TcpStream>> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        socket.set_read_timeout(Some(TRY)).ok()?;
        write!(
            socket,
            "GET /stream?channel={channel} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        .ok()?;
        let mut client = BufReader::new(socket);
        let mut line = String::new();
        while client.read_line(&mut line).ok()? > 0 {
            if line.contains("[stream opened]") {
                let patient = client.get_ref().set_read_timeout(Some(PATIENCE));
                return patient.is_ok().then_some(client);
            }
            line.clear();
        }
        None
    }
}

impl Drop for Pushpin {
    fn drop(&mut self) {
        // On SIGTERM, Pushpin also stops its three child processes.
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn publish(words: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_fermata"))
        .arg("publish")
        .args(words)
        .env_remove("GRIP_URL")
        .output()
        .expect("our own program");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// Reads until a line that contains `part`.
fn expect(client: &mut BufReader<TcpStream>, part: &str) {
    let mut line = String::new();
    loop {
        line.clear();
        let len = client
            .read_line(&mut line)
            .unwrap_or_else(|error| panic!("no {part:?}: {error}"));
        assert!(len > 0, "the stream ended before {part:?}");
        if line.contains(part) {
            return;
        }
    }
}

#[test]
fn messages_reach_the_clients_of_pushpin() {
    let Some(pushpin) = Pushpin::start() else {
        return;
    };
    let mut client = pushpin.hold("room");
    let http = format!("http://127.0.0.1:{}", pushpin.http);
    let zmq = format!("tcp://127.0.0.1:{}", pushpin.pull);
    for (spec, content) in [
        (&http, "over http"),
        (&zmq, "over zeromq"),
        (&http, "over http again"),
    ] {
        assert_eq!(
            publish(&["--spec", spec, "room", content]),
            (true, "Published\n".to_owned())
        );
        expect(&mut client, content);
    }
    // The error contains Pushpin's own text.
    let (is_done, text) = publish(&["--spec", &format!("{http}/elsewhere"), "room", "x"]);
    assert!(
        !is_done && text.contains("refuses with 404: Not Found"),
        "{text}"
    );
    assert!(publish(&["--spec", &zmq, "--close", "room"]).0);
    expect(&mut client, "0\r\n");
}
