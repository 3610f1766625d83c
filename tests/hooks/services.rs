//! Databases for one test each: in its directory, on a Unix socket, ended with it.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fermata_testkit::{Directory, wait_until};

/// A database that runs.
pub struct Service {
    child: Child,
    /// What clients connect to.
    pub socket: PathBuf,
    _directory: Directory,
}

impl Service {
    fn start(name: &str, mut command: Command, socket: PathBuf, directory: Directory) -> Service {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}; `scripts/setup.sh test` installs it"));
        wait_until(name, || {
            if let Ok(Some(status)) = child.try_wait() {
                panic!("{name} ended: {status}: {command:?}");
            }
            UnixStream::connect(&socket).ok()
        });
        Service {
            child,
            socket,
            _directory: directory,
        }
    }

    pub fn mariadb() -> Service {
        let directory = Directory::new();
        let data = format!("--datadir={}", directory.join("data").display());
        // Names of temporary tables are made of the process id, which differs only within one namespace.
        let temporary = format!("--tmpdir={}", directory.path().display());
        run(Command::new("mariadb-install-db").args([
            "--no-defaults",
            "--user=root",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
            // The kernel has a bound on these for all that run at the same time.
            "--innodb-use-native-aio=0",
            &data,
            &temporary,
        ]));
        let socket = directory.join("mysql");
        let mut command = Command::new("mariadbd");
        command.args([
            "--no-defaults",
            "--user=root",
            "--skip-networking",
            "--skip-log-bin",
            "--innodb-use-native-aio=0",
        ]);
        command
            .args([data, temporary])
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--pid-file={}", directory.join("pid").display()));
        Service::start("mariadbd", command, socket, directory)
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

    /// Clients name the directory of its socket.
    pub fn postgres() -> Service {
        let directory = Directory::new();
        let data = directory.join("data");
        let tools = postgres_tools();
        let mut command = if is_root() {
            // It refuses to run as root.
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
        command
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            .current_dir("/");
        let socket = directory.join(".s.PGSQL.5432");
        Service::start("postgres", command, socket, directory)
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
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

/// Debian has a folder for each version, and does not put them into the search path.
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
