//! The `fermata` commands `new`, `serve` and `doctor`, as users run them.

mod cluster;
mod dev;
mod folder;

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;

use fermata_testkit::{
    Directory, Signal, command_path, deadline, extension_path, free_port, is_running, send_signal,
    wait_until,
};
use serde_json::Value;

fn fermata(arguments: &[&str]) -> Command {
    let mut command = Command::new(command_path());
    command
        .args(arguments)
        .env("FERMATA_EXTENSION", extension_path())
        .stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> (bool, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("make has built it");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.success(), text(stdout), text(stderr))
}

#[test]
fn no_internal_command_is_suggested() {
    for typed in ["server", "serv", "chil", "child", "line"] {
        let (succeeded, _, said) = run(&mut fermata(&[typed, "x"]));
        assert!(!succeeded);
        for word in [".below", ".access-lines", "serve-lines"] {
            assert!(!said.contains(word), "{typed}: {said}");
        }
    }
    let (_, _, said) = run(&mut fermata(&["server"]));
    assert!(said.contains("'serve'"), "{said}");
}

fn is_open(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// A server started with `serve`; killed when the test ends.
struct Served {
    child: Child,
    port: u16,
}

impl Served {
    fn start(program: &Path) -> Self {
        Self::start_with(program, &[])
    }

    /// Starts the server with additional environment variables.
    fn start_with(program: &Path, variables: &[(&str, &Path)]) -> Self {
        let port = free_port();
        let listen = format!("http://127.0.0.1:{port}");
        let child = fermata(&["serve", "--listen", &listen, "--workers", "2"])
            .envs(variables.iter().copied())
            .arg(program)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("make has built it");
        let mut served = Served { child, port };
        wait_until("the server answers", || {
            let ended = served.child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "{ended:?}");
            // A bound port may not accept requests yet.
            (!served.curl(&[], "/").is_empty()).then_some(())
        });
        served
    }

    fn curl(&self, arguments: &[&str], path: &str) -> String {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let mut command = Command::new("curl");
        command.args(["--silent", "--max-time", "20"]);
        run(command.args(arguments).arg(url)).1
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        send_signal(self.child.id(), Signal::Terminate);
        let _ = self.child.wait();
    }
}

fn made(kind: &str) -> (Directory, std::path::PathBuf) {
    let directory = Directory::new();
    let folder = directory.join("project");
    let name = folder.display().to_string();
    let (is_made, said, error) = run(&mut fermata(&["new", kind, &name]));
    assert!(is_made, "{error}");
    assert!(
        said.contains(&format!("fermata serve {name}/server.php")),
        "{said}"
    );
    (directory, folder)
}

#[test]
fn a_new_chat_holds_clients_and_passes_messages_on() {
    let (_directory, folder) = made("chat");
    let server = Served::start(&folder.join("server.php"));
    assert!(server.curl(&[], "/").contains("<title>Chat</title>"));
    let bob = "/rooms/lobby/events?name=Bob";
    let last_id = wait_until("an id comes", || {
        let events = server.curl(&["--max-time", "3"], bob);
        let id = events.lines().find_map(|line| line.strip_prefix("id: "))?;
        Some(id.to_owned())
    });
    let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    let post = |body: &str| {
        let arguments = [&status[..], &["--data", body]].concat();
        server.curl(&arguments, "/rooms/lobby/messages")
    };
    assert_eq!(post(r#"{"name":"Ada","text":"Hello"}"#), "202");
    assert_eq!(post("{}"), "400");
    // A client with the id before the message receives it immediately.
    let header = format!("Last-Event-ID: {last_id}");
    wait_until("the message comes", || {
        let events = server.curl(&["--max-time", "3", "--header", &header], bob);
        events.contains(r#""text":"Hello""#).then_some(())
    });
    wait_until("Bob has left", || {
        (server.curl(&[], "/rooms/lobby/members") == "[]").then_some(())
    });
}

#[test]
fn a_new_api_passes_its_own_test() {
    let (_directory, folder) = made("api");
    let server = Served::start(&folder.join("server.php"));
    let mut test = Command::new("sh");
    test.arg(folder.join("test.sh"))
        .arg(format!("http://127.0.0.1:{}", server.port));
    let (is_good, said, error) = run(&mut test);
    assert!(is_good, "{error}");
    assert_eq!(said, "all as expected\n");
}

#[test]
fn a_new_dashboard_is_told_the_load() {
    let (_directory, folder) = made("live");
    let server = Served::start(&folder.join("server.php"));
    assert!(server.curl(&[], "/").contains("EventSource('/events')"));
    wait_until("the load arrives", || {
        let events = server.curl(&["--max-time", "3"], "/events");
        events.contains("\"load\":").then_some(())
    });
}

#[test]
fn a_folder_with_files_is_left_alone() {
    let directory = Directory::new();
    directory.write("kept", "mine");
    let name = directory.path().display().to_string();
    let (is_made, _, error) = run(&mut fermata(&["new", "chat", &name]));
    assert!(!is_made && error.contains("is not empty"), "{error}");
    assert!(!directory.join("server.php").exists());
}

#[test]
fn serve_becomes_the_server() {
    let (_directory, folder) = made("api");
    let mut server = Served::start(&folder.join("server.php"));
    let pid = server.child.id();
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("it runs");
    assert!(name.starts_with("php"), "{name}");
    send_signal(pid, Signal::Terminate);
    let status = server.child.wait().expect("it is our child");
    assert!(status.success(), "{status}");
    assert!(!is_open(server.port));
}

/// Returns the process id that the server at this socket reports.
fn pid_of_server(socket: &Path) -> Option<u64> {
    let control = format!("unix:{}", socket.display());
    let (is_done, json, _) = run(&mut fermata(&["stats", "--json", "--control", &control]));
    is_done.then(|| {
        let figures: Value = serde_json::from_str(&json).expect("it prints JSON");
        figures["pid"].as_u64().expect("a pid")
    })
}

#[test]
fn serve_gives_a_server_a_control_socket_of_its_own() {
    let (_directory, folder) = made("api");
    let program = folder.join("server.php");
    let runtime = Directory::new();
    let sockets = runtime.join("sockets");
    let private = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::create_dir(&sockets).expect("it is ours");
    std::fs::set_permissions(&sockets, private(0o700)).expect("it is ours");
    let variables = [("XDG_RUNTIME_DIR", sockets.as_path())];
    let count = || std::fs::read_dir(&sockets).expect("it is there").count();

    let mut killed = Served::start_with(&program, &variables);
    let pid = killed.child.id();
    let socket = sockets.join(format!("fermata-{pid}.control"));
    assert_eq!(pid_of_server(&socket), Some(u64::from(pid)));
    let mode = std::fs::metadata(&socket).expect("it is there").mode();
    assert_eq!(mode & 0o777, 0o600);
    killed.child.kill().expect("it is our child");
    killed.child.wait().expect("it is our child");
    // Do not run its destructor: its process id may belong to another process now.
    std::mem::forget(killed);
    assert_eq!(count(), 1, "it could not remove it");

    // The next server removes the socket of the killed one, and removes its own socket when it
    // stops.
    let mut server = Served::start_with(&program, &variables);
    assert_eq!(count(), 1);
    assert!(!socket.exists());
    send_signal(server.child.id(), Signal::Terminate);
    server.child.wait().expect("it is our child");
    assert_eq!(count(), 0);

    // A path given by name is used, but not a folder that other users can write to.
    let named = runtime.join("named.sock");
    let control = format!("unix:{}", named.display());
    let server = Served::start_with(
        &program,
        &[variables[0], ("FERMATA_CONTROL", Path::new(&control))],
    );
    assert_eq!(pid_of_server(&named), Some(u64::from(server.child.id())));
    assert_eq!(count(), 0);
    std::fs::set_permissions(&sockets, private(0o777)).expect("it is ours");
    let _server = Served::start_with(&program, &variables);
    assert_eq!(count(), 0);
}

/// On a terminal, simulated by `script`, every request is printed, and the printing process exits
/// with the server.
#[test]
fn a_terminal_shows_requests() {
    let (_directory, folder) = made("api");
    let port = free_port();
    let program = folder.join("server.php");
    let mut child = Command::new("script")
        .args(["--quiet", "--flush", "--return", "--command"])
        .arg(format!(
            "exec {} serve --listen http://127.0.0.1:{port} {}",
            command_path().display(),
            program.display()
        ))
        .arg("/dev/null")
        .env("FERMATA_EXTENSION", extension_path())
        .env_remove("FERMATA_ACCESS_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script belongs to every Linux");
    let mut screen = child.stdout.take().expect("it is piped");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = screen.read(&mut bytes) {
            if sender.send(bytes[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    let mut shown = String::new();
    let mut wait_for = |part: &str| {
        while !shown.contains(part) {
            let more = receiver.recv_timeout(deadline());
            let more = more.unwrap_or_else(|_| panic!("no {part:?} in {shown:?}"));
            shown += &String::from_utf8_lossy(&more);
        }
        shown.clone()
    };
    let banner = wait_for("pid ");
    assert!(banner.contains("opcache on"), "{banner}");
    let url = format!("http://127.0.0.1:{port}/notes/0");
    wait_until("the server answers", || {
        let mut curl = Command::new("curl");
        let (is_good, ..) = run(curl.args(["--silent", "--max-time", "20", &url]));
        is_good.then_some(())
    });
    wait_for("\x1b[33m404\x1b[0m GET     /notes/0 ");
    let banner = wait_for(", pid ");
    let pid = banner.split(", pid ").nth(1).expect("it was waited for");
    let pid: String = pid.chars().take_while(char::is_ascii_digit).collect();
    let pid: u32 = pid.parse().expect("a number");
    send_signal(pid, Signal::Terminate);
    wait_for("stopped");
    assert!(child.wait().expect("it is our child").success());
    wait_until("the server has ended", || (!is_running(pid)).then_some(()));
}

#[test]
fn what_serve_cannot_run_is_named() {
    let directory = Directory::new();
    directory.write("server.php", "<?php\n");
    directory.write("no.so", "no extension");
    let program = directory.join("server.php").display().to_string();
    let no_extension = directory.join("no.so").display().to_string();
    for (arguments, expected) in [
        (&["serve", "nowhere.php"][..], "nowhere.php: no such file"),
        (
            &["serve", "--php", "no-such-php", &program],
            "install PHP, or name one by --php",
        ),
        (&["serve", "--php", "true", &program], "is no PHP"),
        (
            &["serve", "--extension", "/nowhere.so", &program],
            "--extension /nowhere.so: no such file",
        ),
        (&["serve", "--extension", &no_extension, &program], "no.so"),
        (
            &["serve", "--listen", "127.0.0.1:8080", &program],
            "--listen is \"127.0.0.1:8080\": that is not an address",
        ),
        (
            &["serve", "--workers", "4000000000", &program],
            "--workers is \"4000000000\": that is",
        ),
    ] {
        let (is_good, _, error) = run(&mut fermata(arguments));
        assert!(
            !is_good && error.contains(expected),
            "{arguments:?}: {error}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn doctor_judges_what_it_finds() {
    let port = free_port();
    let listen = format!("http://127.0.0.1:{port}");
    let directory = Directory::new();
    directory.write("history", "something else");
    directory.write("certificate", "no certificate");
    let check = |command: &mut Command, name: &str| -> Value {
        let (_, said, error) = run(command.args(["--json", "--listen", &listen]));
        let checks: Vec<Value> = serde_json::from_str(&said).expect(&error);
        let found = checks.iter().find(|it| it["name"] == name);
        found
            .unwrap_or_else(|| panic!("no {name} in {said}"))
            .clone()
    };
    for name in ["kernel", "php", "extension", "descriptors", "port", "clock"] {
        assert_ne!(
            check(&mut fermata(&["doctor"]), name)["verdict"],
            "bad",
            "{name}"
        );
    }
    let history = directory.join("history");
    let found = check(
        fermata(&["doctor"]).env("FERMATA_HISTORY_PATH", &history),
        "history",
    );
    assert_eq!(found["verdict"], "warning", "{found}");
    let certificate = directory.join("certificate");
    let mut command = fermata(&["doctor"]);
    command.env("FERMATA_TLS_CERTIFICATE", &certificate);
    command.env("FERMATA_TLS_KEY", &certificate);
    let found = check(&mut command, "certificates");
    assert_eq!(found["verdict"], "bad", "{found}");
    let found = check(&mut fermata(&["doctor", "--php", "no-such-php"]), "php");
    assert_eq!(found["verdict"], "bad", "{found}");
    assert!(
        found["advice"]
            .as_str()
            .is_some_and(|it| it.contains("--php"))
    );
    let (is_good, said, _) = run(&mut fermata(&["doctor", "--php", "no-such-php"]));
    assert!(!is_good && said.contains("BAD   php"), "{said}");
}

#[test]
fn shells_and_man_know_every_command() {
    let (is_good, bash, error) = run(&mut fermata(&["completions", "bash"]));
    assert!(is_good && bash.contains("serve"), "{error}");
    let directory = Directory::new();
    let folder = directory.path().display().to_string();
    assert!(run(&mut fermata(&["man", &folder])).0);
    let page = std::fs::read_to_string(directory.join("fermata-doctor.1")).expect("it is written");
    assert!(page.contains("commands that fix problems"), "{page}");
    let (is_good, _, error) = run(&mut fermata(&["man", "/nowhere"]));
    assert!(!is_good && error.contains("/nowhere"), "{error}");
}
