//! Databases for a single test. Each is in the test's directory, listens on a Unix socket, and is
//! stopped with the test.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fermata_testkit::install::works;
use fermata_testkit::{Directory, Signal, free_port, send_signal, wait_until, workspace_root};

/// Number of tries to start a service that needs a free port, because another process may take the
/// port.
const STARTS_MAX: usize = 3;
/// The interpreter that Debian's packages support.
const PYTHON: &str = "/usr/bin/python3";
/// The start of RabbitMQ uses both processors for a few seconds, and they may be busy.
const RABBITMQ_STARTS_WITHIN: Duration = Duration::from_secs(180);
const RABBITMQ: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// A running database.
pub struct Service {
    child: Child,
    /// Path of the service's Unix socket; empty if it only listens on a port.
    pub socket: PathBuf,
    /// Port of the service on 127.0.0.1; 0 if it only listens on a socket.
    pub port: u16,
    /// Name server of the service, if it needs one. Such a service has a separate process group.
    names: Option<Child>,
    _directory: Directory,
}

impl Service {
    fn start(name: &str, mut command: Command, socket: PathBuf, directory: Directory) -> Service {
        let mut child = spawn(name, &mut command);
        wait_until(name, || {
            if let Ok(Some(status)) = child.try_wait() {
                panic!("{name} ended: {status}: {command:?}");
            }
            UnixStream::connect(&socket).ok()
        });
        Service {
            child,
            socket,
            port: 0,
            names: None,
            _directory: directory,
        }
    }

    /// Starts an MTA that accepts all mail, see `fixtures/conversations/smtp.py`. Returns `None` if
    /// its package is missing.
    pub fn smtp() -> Option<Service> {
        if !works(PYTHON, &["-c", "import aiosmtpd"]) {
            return None;
        }
        let directory = Directory::new();
        let file = directory.join("port");
        let script = workspace_root().join("tests/fixtures/conversations/smtp.py");
        let mut child = spawn("aiosmtpd", Command::new(PYTHON).arg(script).arg(&file));
        let port = wait_until("aiosmtpd", || {
            if let Ok(Some(status)) = child.try_wait() {
                panic!("aiosmtpd ended: {status}");
            }
            std::fs::read_to_string(&file).ok()?.parse().ok()
        });
        Some(Service {
            child,
            socket: PathBuf::new(),
            port,
            names: None,
            _directory: directory,
        })
    }

    /// Starts RabbitMQ; returns `None` if it is not installed.
    pub fn rabbitmq() -> Option<Service> {
        if !Path::new(RABBITMQ).is_file() {
            return None;
        }
        (0..STARTS_MAX)
            .find_map(|_| Service::try_rabbitmq())
            .or_else(|| panic!("rabbitmq-server does not start"))
    }

    fn try_rabbitmq() -> Option<Service> {
        let directory = Directory::new();
        let (port, names) = (free_port(), free_port());
        let mut command = Command::new(RABBITMQ);
        for (name, folder) in [
            ("HOME", "home"),
            ("RABBITMQ_MNESIA_BASE", "data"),
            ("RABBITMQ_LOG_BASE", "log"),
            ("RABBITMQ_PID_FILE", "pid"),
            ("RABBITMQ_CONFIG_FILE", "none"),
            ("RABBITMQ_ADVANCED_CONFIG_FILE", "none.config"),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", "plugins"),
        ] {
            command.env(name, directory.join(folder));
        }
        std::fs::create_dir(directory.join("home")).expect("a folder");
        // The parts of RabbitMQ find each other through a name server. The test starts a separate
        // name server, because the one that RabbitMQ starts is an orphan and outlives it.
        let mut keeper = Command::new("epmd");
        keeper
            .args(["-port", &names.to_string()])
            .env("ERL_EPMD_ADDRESS", "127.0.0.1");
        let keeper = spawn("epmd", &mut keeper);
        wait_until("epmd", || TcpStream::connect(("127.0.0.1", names)).ok());
        command
            .env("RABBITMQ_NODENAME", "trust@localhost")
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", port.to_string())
            .env("RABBITMQ_DIST_PORT", free_port().to_string())
            .env("ERL_EPMD_PORT", names.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "+S 1:1 -kernel inet_dist_use_interface {127,0,0,1}",
            )
            // The start script of RabbitMQ does not stop it, so use a process group.
            .process_group(0);
        let mut service = Service {
            child: spawn("rabbitmq-server", &mut command),
            socket: PathBuf::new(),
            port,
            names: Some(keeper),
            _directory: directory,
        };
        let end = Instant::now() + RABBITMQ_STARTS_WITHIN;
        while Instant::now() < end && matches!(service.child.try_wait(), Ok(None)) {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(service);
            }
            thread::sleep(Duration::from_millis(50));
        }
        None
    }

    pub fn mariadb() -> Service {
        Service::start_mariadb(0)
    }

    /// Starts MariaDB, which also listens on a port.
    pub fn mariadb_on_port() -> Service {
        Service::start_mariadb(free_port())
    }

    fn start_mariadb(port: u16) -> Service {
        let directory = Directory::new();
        let data = format!("--datadir={}", directory.join("data").display());
        // Names of temporary tables contain the process id, which is unique only within one
        // namespace.
        let temporary = format!("--tmpdir={}", directory.path().display());
        run(Command::new("mariadb-install-db").args([
            "--no-defaults",
            "--user=root",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
            // The kernel limits the number of native asynchronous operations of the machine.
            "--innodb-use-native-aio=0",
            &data,
            &temporary,
        ]));
        let socket = directory.join("mysql");
        let mut command = Command::new("mariadbd");
        command.args([
            "--no-defaults",
            "--user=root",
            "--skip-log-bin",
            "--innodb-use-native-aio=0",
        ]);
        if port == 0 {
            command.arg("--skip-networking");
        } else {
            command
                .args(["--bind-address=127.0.0.1", "--skip-name-resolve"])
                .arg(format!("--port={port}"));
        }
        command
            .args([data, temporary])
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--pid-file={}", directory.join("pid").display()));
        let mut service = Service::start("mariadbd", command, socket, directory);
        service.port = port;
        service
    }

    pub fn redis() -> Service {
        let directory = Directory::new();
        let socket = directory.join("redis");
        let mut command = Command::new("redis-server");
        command
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ])
            .arg(&socket)
            .arg("--dir")
            .arg(directory.path());
        Service::start("redis-server", command, socket, directory)
    }

    /// Starts PostgreSQL; clients connect to the directory of its socket.
    pub fn postgres() -> Service {
        Service::start_postgres(0)
    }

    /// Starts PostgreSQL, which also listens on a port.
    pub fn postgres_on_port() -> Service {
        Service::start_postgres(free_port())
    }

    fn start_postgres(port: u16) -> Service {
        let directory = Directory::new();
        let data = directory.join("data");
        let tools = postgres_tools();
        let mut command = if is_root() {
            // PostgreSQL refuses to run as root.
            run(Command::new("chown").arg("postgres").arg(directory.path()));
            let mut command = Command::new("setpriv");
            command.args([
                "--reuid=postgres",
                "--regid=postgres",
                "--clear-groups",
                "--",
            ]);
            command
        } else {
            Command::new("env")
        };
        let mut initialise = Command::new(command.get_program());
        initialise
            .args(command.get_args())
            .arg(tools.join("initdb"))
            .args(["--auth=trust", "--no-sync", "--username=postgres", "-D"])
            .arg(&data);
        run(initialise.current_dir("/"));
        command
            .arg(tools.join("postgres"))
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(directory.path());
        command.args(["-c", "fsync=off"]).current_dir("/");
        let number = if port == 0 {
            command.args(["-c", "listen_addresses="]);
            5432
        } else {
            command.args(["-c", "listen_addresses=127.0.0.1"]);
            port
        };
        command.arg("-p").arg(number.to_string());
        let socket = directory.join(&format!(".s.PGSQL.{number}"));
        let mut service = Service::start("postgres", command, socket, directory);
        service.port = port;
        service
    }

    /// Stops the process by SIGSTOP: it no longer responds, but its connections stay open.
    pub fn stop(&self) {
        assert!(send_signal(self.child.id(), Signal::Stop));
    }

    /// Kills the process, which simulates a power loss.
    pub fn kill(&mut self) {
        if let Some(mut names) = self.names.take() {
            let group = format!("-{}", self.child.id());
            let _ = quiet(Command::new("kill").args(["-KILL", "--", &group])).status();
            let _ = names.kill();
            let _ = names.wait();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

fn quiet(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
}

fn spawn(name: &str, command: &mut Command) -> Child {
    quiet(command)
        .spawn()
        .unwrap_or_else(|error| panic!("{name}: {error}; `scripts/setup.sh test` installs it"))
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}; `scripts/setup.sh test` installs it")
    });
    assert!(output.status.success(), "{command:?}: {output:?}");
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().expect("id is there");
    output.stdout == b"0\n"
}

/// Returns the folder of PostgreSQL's programs. Debian has one folder per version, outside of the
/// search path.
fn postgres_tools() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    let mut folders: Vec<PathBuf> = versions
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .filter(|folder| folder.join("initdb").is_file())
        .collect();
    folders.sort();
    folders
        .pop()
        .unwrap_or_else(|| Path::new("/usr/bin").to_path_buf())
}
