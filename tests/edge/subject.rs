//! The server under test: Debian's Pushpin with its zurl, or `fermata edge`, both from one
//! `pushpin.conf`.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fermata_testkit::{Directory, command_path, deadline, free_port};

use crate::client::Client;
use crate::origin::{Origin, Request, ok};

/// Pause between two checks that the server is up.
const PAUSE: Duration = Duration::from_millis(50);
/// Time-out of one check. A request that is sent before all processes of the server run never gets
/// a response.
const TRY: Duration = Duration::from_secs(2);
/// The key of Grip-Sig.
pub const SIG_KEY: &str = "a secret for tests";
/// Maximum size of the part of each log that is printed when cases fail.
const LOG_BYTES_SHOWN: usize = 8_000;
const INTERNAL: &str = "/usr/lib/pushpin/internal.conf";

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Pushpin,
    Fermata,
}

/// A running server. Dropping it stops its processes and removes its files.
pub struct Subject {
    pub kind: Kind,
    /// The port for clients.
    pub port: u16,
    /// The port for publishers over HTTP.
    pub control: u16,
    /// The port for publishers over ZeroMQ.
    pub pull: u16,
    pub sub: u16,
    pub rep: u16,
    origin: Origin,
    folder: Directory,
    children: Vec<Child>,
}

/// The routes of all cases, by host. `{origin}` is the backend's port, `{closed}` a port without
/// listener.
const ROUTES: &str = "\
plain.test 127.0.0.1:{origin}
debug.test,debug 127.0.0.1:{origin}
dead.test 127.0.0.1:{closed}
dead-debug.test,debug 127.0.0.1:{closed}
failover.test 127.0.0.1:{closed} 127.0.0.1:{origin}
over.test 127.0.0.1:{origin},over_http
one.test 127.0.0.1:{origin},over_http,one_event
prefix.test,prefix=pre- 127.0.0.1:{origin}
sub.test 127.0.0.1:{origin},sub=implicit
aco.test,aco 127.0.0.1:{origin}
basic.test,aco,jsonp_mode=basic 127.0.0.1:{origin}
host.test,as_host=other.test:81 127.0.0.1:{origin}
target-host.test 127.0.0.1:{origin},host=target.test
cut.test,path_beg=/cut,path_rem=4 127.0.0.1:{origin}
replace.test,path_beg=/replace/,replace_beg=/ 127.0.0.1:{origin}
header.test,header=X-Added:yes,header=X-Removed: 127.0.0.1:{origin}
orig.test,orig_headers 127.0.0.1:{origin}
nogrip.test,no_grip 127.0.0.1:{origin}
sig.test,sig_iss=issuer,sig_key=other 127.0.0.1:{origin}
sockjs.test,sockjs=/sockjs,sockjs_as_path=/{sockjs} 127.0.0.1:{origin}
sockjs-own.test,path_beg=/sockjs_ends_as_its_backend_says,sockjs=/sockjs_ends_as_its_backend_says 127.0.0.1:{origin}
sockjs-own.test,path_beg=/sockjs_passes_a_refusal_on,sockjs=/sockjs_passes_a_refusal_on 127.0.0.1:{origin}
sockjs-own.test,path_beg=/sockjs_gets_what_is_published,sockjs=/sockjs_gets_what_is_published 127.0.0.1:{origin}
sockjs-own.test,path_beg=/sockjs_tells_that_its_client_has_left,sockjs=/sockjs_tells_that_its_client_has_left 127.0.0.1:{origin}
sockjs-over.test,path_beg=/sockjs_reaches_backends_over_http,sockjs=/sockjs_reaches_backends_over_http 127.0.0.1:{origin},over_http
sockjs-test.test,sockjs=/s,sockjs_as_path=/ws test
zhttp.test zhttpreq/ipc://{folder}/zhttp
held.zhttp.test zhttp/ipc://{folder}/held
upload.zhttp.test zhttp/ipc://{folder}/upload
download.zhttp.test zhttp/ipc://{folder}/download
socket.zhttp.test zhttp/ipc://{folder}/socket
wrong.zhttp.test zhttp/ipc://{folder}/wrong
built-in.test test
report.test,id=report 127.0.0.1:{origin}
path.test,path_beg=/a 127.0.0.1:{closed}
path.test,path_beg=/path_is_chosen_by_its_longest_start 127.0.0.1:{origin}
";

impl Subject {
    /// Starts the server; `None` if it is not installed.
    pub fn start(kind: Kind) -> Option<Self> {
        Self::start_with(kind, "")
    }

    /// Starts the server with additional routes.
    pub fn start_with(kind: Kind, more_routes: &str) -> Option<Self> {
        if !is_installed(kind) {
            return None;
        }
        let origin = Origin::start();
        let folder = Directory::new();
        let [port, control, pull, sub, rep, closed] = [(); 6].map(|()| free_port());
        let routes = ROUTES
            .replace("{origin}", &origin.port().to_string())
            .replace("{closed}", &closed.to_string())
            .replace("{sockjs}", "sockjs_speaks_to_its_backend");
        let name = folder.path().display();
        let routes = routes.replace("{folder}", &name.to_string());
        folder.write("routes", routes + more_routes);
        folder.write(
            "pushpin.conf",
            format!(
                "[global]\ninclude={name}/internal.conf\nrundir={name}\nipc_prefix=t-\n\
                [runner]\nservices=condure,pushpin-proxy,pushpin-handler\nhttp_port=127.0.0.1:{port}\nlogdir={name}\n\
                [proxy]\nroutesfile=routes\nupdates_check=off\nstats_report_interval=1\nsig_key={SIG_KEY}\nset_x_forwarded_protocol=proto-only\n\
                sockjs_url=http://localhost/sockjs.js\nx_forwarded_for=append\n\
                [handler]\npush_in_spec=tcp://127.0.0.1:{pull}\npush_in_sub_specs=tcp://127.0.0.1:{sub}\n\
                push_in_http_addr=127.0.0.1\npush_in_http_port={control}\nstats_spec=ipc://{name}/stats\n\
                command_spec=tcp://127.0.0.1:{rep}\nmessage_rate=2500\nmessage_hwm=25000\nmessage_wait=5000\n\
                id_cache_ttl=60\nconnection_subscription_max=20\nsubscription_linger=60\n\
                stats_subscription_ttl=60\nstats_report_interval=1\nstats_format=json\nupdate_on_first_subscription=false\n",
            ),
        );
        let mut subject = Self {
            kind,
            port,
            control,
            pull,
            sub,
            rep,
            origin,
            folder,
            children: Vec::new(),
        };
        subject.start_processes();
        subject.wait_until_up();
        Some(subject)
    }

    /// The backend.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The Unix socket of the stats packets.
    pub fn stats(&self) -> PathBuf {
        self.folder.join("stats")
    }

    /// The Unix socket of ZeroMQ backends.
    pub fn zhttp(&self) -> PathBuf {
        self.folder.join("zhttp")
    }

    /// Returns the path of a Unix socket in the server's folder.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the last part of the server's logs.
    pub fn logs(&self) -> String {
        let Ok(entries) = fs::read_dir(self.folder.path()) else {
            return String::new();
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        // Each of Pushpin's programs writes its own log.
        paths.retain(|path| {
            let kind = path.extension().and_then(|it| it.to_str());
            kind.is_some_and(|kind| ["out", "err", "log"].contains(&kind))
        });
        paths.sort();
        let texts = paths.iter().filter_map(|path| {
            let text = fs::read(path).ok()?;
            let name = path.file_name()?.display();
            let from = text.len().saturating_sub(LOG_BYTES_SHOWN);
            let text = String::from_utf8_lossy(&text[from..]);
            (!text.is_empty()).then(|| format!("--- {name}\n{text}"))
        });
        texts.collect()
    }

    fn start_processes(&mut self) {
        let folder = self.folder.path();
        let log = |name: &str| {
            let file = fs::File::create(folder.join(name)).expect("a log");
            Stdio::from(file)
        };
        let config = folder.join("pushpin.conf");
        if self.kind == Kind::Fermata {
            let mut edge = Command::new(command_path());
            edge.args(["edge", "--pushpin-config"]).arg(folder);
            edge.stdout(log("edge.out")).stderr(log("edge.log"));
            self.children
                .push(edge.spawn().expect("it was tried before"));
            return;
        }
        let name = folder.display().to_string();
        let internal = fs::read_to_string(INTERNAL).expect("it was looked at before");
        self.folder
            .write("internal.conf", internal.replace("/var/run/zurl", &name));
        self.folder.write(
            "zurl.conf",
            format!(
                "[General]\nin_spec=ipc://{name}/zurl-in\nin_stream_spec=ipc://{name}/zurl-in-stream\n\
                out_spec=ipc://{name}/zurl-out\nin_req_spec=ipc://{name}/zurl-req\ndefpolicy=allow\n\
                max_open_requests=2000\nbuffer_size=200000\ntimeout=600\nin_hwm=1000\nout_hwm=1000\n",
            ),
        );
        for (program, config) in [("zurl", folder.join("zurl.conf")), ("pushpin", config)] {
            let mut command = Command::new(program);
            command.arg(format!("--config={}", config.display()));
            command
                .stdout(log(&format!("{program}.out")))
                .stderr(log(&format!("{program}.err")));
            self.children
                .push(command.spawn().expect("it was looked at before"));
        }
    }

    /// Waits until a request reaches this server's backend and its response returns.
    fn wait_until_up(&mut self) {
        // If another server listens on the port, it has a different backend.
        let name = self.folder.path().display().to_string();
        let body = name.clone();
        // An instruction without hold, which also tests the component that holds clients.
        let instruction: &[_] = match self.kind {
            Kind::Fermata => &[("Grip-Set-Meta", "a=b")],
            // A hold, because Pushpin's handler reaches condure over a separate socket, and
            // messages sent before it connects are lost.
            Kind::Pushpin => &[("Grip-Hold", "stream"), ("Grip-Channel", "up")],
        };
        let answer = move |_: &Request| ok(instruction, &body);
        self.origin.on("up", answer);
        let end = Instant::now() + deadline();
        while Instant::now() < end {
            let ended = self.children.iter_mut().find_map(|child| {
                let status = child.try_wait().ok().flatten();
                status.map(|status| format!("process {} has ended: {status}", child.id()))
            });
            assert!(ended.is_none(), "{ended:?}\n{}", self.logs());
            let is_listening = |port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
            if is_listening(self.port) && is_listening(self.control) {
                let mut client = Client::open(self.port, "plain.test");
                client.send("GET", "/up", &[], b"");
                if client.try_status(TRY) == Some(200) {
                    let text = match self.kind {
                        Kind::Fermata => client.read_answer(false).text().to_owned(),
                        Kind::Pushpin => {
                            client.read_head();
                            client.read_until(&name)
                        }
                    };
                    assert_eq!(text, name, "another edge's backend answers");
                    return;
                }
            }
            thread::sleep(PAUSE);
        }
        panic!("{:?} is not up\n{}", self.kind, self.logs());
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            // The master stops its own processes.
            let pid = child.id().to_string();
            let _ = Command::new("kill").arg(pid).status();
            let _ = child.wait();
        }
        if thread::panicking() {
            println!("{}", self.logs());
        }
    }
}

fn is_installed(kind: Kind) -> bool {
    let answers = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    match kind {
        Kind::Pushpin => {
            answers(Path::new("pushpin"), &["--version"])
                && Path::new("/usr/bin/zurl").exists()
                && Path::new(INTERNAL).exists()
        }
        Kind::Fermata => answers(&command_path(), &["edge", "--help"]),
    }
}
