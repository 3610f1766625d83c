//! `fermata dev` and `fermata routes`: a server that restarts when its files change.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use fermata_testkit::{
    Directory, Signal, free_port, install, is_running, send_signal, wait_until, workspace_root,
};

use super::{fermata, run};

/// A server whose response is in a separate file.
const SERVER: &str = r#"<?php
use Fermata\{Channel, Event, Hold, Request, Response, Server};
require __DIR__ . '/answer.php';
$server = new Server('http://127.0.0.1:1');
$server->get('/', fn (): Response => Response::html('<body>' . answer() . '</body>'));
$server->get('/books/{id}', function (Request $request): Response {
    dump(['id' => $request->route('id'), 'isbn' => null, 'note' => '']);
    throw new RuntimeException('no such book');
});
$met = [];
$server->get('/meet/{name}', function (Request $request) use (&$met): Response {
    $met[$name = $request->route('name')] = true;
    dump("dumped by $name");
    while (count($met) < 2) {
        Fermata\delay(0.01);
    }
    Fermata\all(fn () => dump("by a task of $name"));
    return Response::html('<body>met');
});
$server->get('/pid', fn (): Response => Response::text((string) posix_getppid()));
$server->get('/events', fn (Request $request) => Hold::sse('news')->since($request->lastEventId()));
$server->post('/events', function (Request $request): Response {
    Channel::get('news')->publish(new Event($request->body()));
    return Response::accepted();
});
$server->get('/env', fn (): Response => Response::text((string) file_get_contents(__DIR__ . '/.env')));
$server->static('/files', __DIR__ . '/files');
$server->run();
"#;

struct Dev {
    child: Child,
    port: u16,
    folder: Directory,
    said: Arc<Mutex<String>>,
}

impl Dev {
    fn start(options: &[&str], answer: &str) -> Self {
        let folder = Directory::new();
        fs::create_dir(folder.join("files")).expect("a folder");
        folder.write("server.php", SERVER);
        folder.write("answer.php", answer);
        folder.write(".env", "A=1");
        folder.write("files/index.html", "<body>a page</body>");
        folder.write("files/style.css", "body {}");
        let port = free_port();
        let listen = format!("http://127.0.0.1:{port}");
        let mut child = fermata(&["dev", "--listen", &listen])
            .args(options)
            .arg(folder.join("server.php"))
            // A killed command cannot remove its temporary files.
            .env("TMPDIR", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("make has built it");
        let said = Arc::new(Mutex::new(String::new()));
        let (into, stderr) = (Arc::clone(&said), child.stderr.take().expect("it is piped"));
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut said = into.lock().expect("no other has panicked");
                *said += &line;
                said.push('\n');
            }
        });
        Dev {
            child,
            port,
            folder,
            said,
        }
    }

    fn ready(options: &[&str]) -> Self {
        let dev = Self::start(options, &answers("one"));
        dev.wait_for_page("one");
        dev
    }

    fn ask(&self, arguments: &[&str], path: &str) -> String {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let mut command = std::process::Command::new("curl");
        command.args(["--silent", "--max-time", "20"]);
        run(command.args(arguments).arg(url)).1
    }

    fn get(&self, path: &str) -> String {
        self.ask(&[], path)
    }

    fn wait_for_page(&self, text: &str) {
        let part = format!("<body>{text}");
        wait_until(&format!("the page says {text}"), || {
            self.get("/").contains(&part).then_some(())
        });
    }

    fn wait_for_said(&self, part: &str) {
        wait_until(&format!("{part:?} is said"), || {
            let said = self.said.lock().expect("no other has panicked");
            said.contains(part).then_some(())
        });
    }

    /// Returns the first event that a page receives.
    fn state(&self) -> String {
        let events = self.ask(&["--max-time", "2"], "/.fermata/reload");
        let data = events.lines().find_map(|line| line.strip_prefix("data: "));
        data.unwrap_or_default().to_owned()
    }

    fn server(&self) -> u32 {
        // No process accepts requests for a moment while one server replaces another.
        wait_until("it answers", || self.get("/pid").parse().ok())
    }

    fn write(&self, name: &str, text: &str) {
        self.folder.write(name, text);
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        send_signal(self.child.id(), Signal::Terminate);
        let _ = self.child.wait();
    }
}

fn answers(text: &str) -> String {
    format!("<?php\nfunction answer(): string {{ return '{text}'; }}\n")
}

#[test]
fn changed_files_take_effect_and_one_burst_is_one_start() {
    let dev = Dev::ready(&[]);
    dev.wait_for_said("GET     /books/{id}");
    dev.write("answer.php", &answers("two"));
    dev.wait_for_page("two");
    dev.wait_for_said("answer.php");
    let first = dev.server();
    for round in 0..20 {
        dev.write("answer.php", &answers(&format!("burst {round}")));
        dev.write("other.php", "<?php\n");
    }
    dev.wait_for_page("burst 19");
    assert_ne!(dev.server(), first);
    let said = wait_until("the last start is said", || {
        let said = dev.said.lock().expect("no other has panicked").clone();
        (said.matches("ready at ").count() >= 3).then_some(said)
    });
    let starts = said.matches("ready at ").count();
    // One start each for the first start, the change and the burst. On a slow machine the burst may
    // cause several starts, but not twenty.
    assert!((3..=8).contains(&starts), "{said}");
    // Backup files of editors, and files that the script does not load, change nothing.
    let pid = dev.server();
    dev.write("answer.php~", "<?php\n");
    dev.write("app.log", "a line");
    fs::create_dir(dev.folder.join("vendor")).expect("a folder");
    dev.write("vendor/a.php", "<?php\n");
    dev.write(".env", "A=2");
    wait_until(".env is read again", || (dev.server() != pid).then_some(()));
    assert_eq!(dev.get("/env"), "A=2");
    let said = dev.said.lock().expect("no other has panicked").clone();
    assert!(
        !said.contains("app.log") && !said.contains("vendor"),
        "{said}"
    );
}

/// A site can point its name at 127.0.0.1 (DNS rebinding); its pages could then read from this
/// server.
#[test]
fn pages_of_other_sites_read_nothing() {
    let dev = Dev::ready(&[]);
    let ask = |host: &str| {
        let header = format!("Host: {host}");
        dev.ask(
            &["--header", &header, "--write-out", " %{http_code}"],
            "/books/1",
        )
    };
    let refused = ask("evil.example:80");
    assert!(refused.ends_with(" 403"), "{refused}");
    assert!(
        refused.contains("FERMATA_ALLOWED_HOSTS=evil.example") && !refused.contains("no such book"),
        "{refused}"
    );
    for host in ["localhost", "app.localhost:8080", "127.0.0.1", "[::1]:80"] {
        let page = ask(host);
        assert!(
            page.contains("no such book") && page.ends_with(" 500"),
            "{host}: {page}"
        );
    }
    // Error pages are shared on screens and in reports.
    let secrets = [
        "--header",
        "Cookie: session=s3cret",
        "--header",
        "Authorization: Bearer s3cret",
    ];
    let page = dev.ask(&secrets, "/books/1");
    assert!(
        page.contains("no such book") && !page.contains("s3cret"),
        "{page}"
    );
}

#[test]
fn a_folder_that_is_made_later_is_watched() {
    let dev = Dev::ready(&[]);
    fs::create_dir_all(dev.folder.join("src/deep")).expect("a folder");
    dev.write("src/deep/part.php", &answers("deep"));
    dev.write(
        "answer.php",
        "<?php require __DIR__ . '/src/deep/part.php';\n",
    );
    dev.wait_for_page("deep");
    dev.write("src/deep/part.php", &answers("deeper"));
    dev.wait_for_page("deeper");
}

#[test]
fn polling_sees_the_same() {
    let dev = Dev::ready(&["--poll"]);
    // Two versions of the same size within one clock tick cannot be distinguished.
    dev.write("answer.php", &answers("polled"));
    dev.wait_for_page("polled");
}

#[test]
fn a_mistake_is_shown_while_the_old_program_answers() {
    let dev = Dev::ready(&[]);
    let pid = dev.server();
    dev.write(
        "answer.php",
        "<?php\nfunction answer(): string {\n    return 'x'\n}\n",
    );
    dev.wait_for_said("answer.php:4");
    dev.wait_for_said("the previous version keeps serving");
    dev.wait_for_page("one");
    assert_eq!(dev.server(), pid);
    let state = wait_until("pages are told", || {
        Some(dev.state()).filter(|it| it.contains("syntax error"))
    });
    assert!(state.contains("return 'x'"), "{state}");
    // Not only syntax errors: also failures before run().
    dev.write(
        "answer.php",
        "<?php\nthrow new LogicException('not yet');\n",
    );
    dev.wait_for_said("LogicException: not yet");
    assert_eq!(dev.server(), pid);
    dev.write("answer.php", &answers("mended"));
    dev.wait_for_page("mended");
    wait_until("the failure is gone", || {
        dev.state().contains("\"failure\":null").then_some(())
    });
}

/// A file that the script reaches run() without, like a controller that a framework loads on
/// demand.
#[test]
fn a_mistake_in_what_a_request_would_load_is_shown_while_the_old_program_answers() {
    let dev = Dev::ready(&[]);
    dev.write("later.php", "<?php\nreturn 'loaded';\n");
    dev.wait_for_said("/later.php");
    let pid = dev.server();
    dev.write("later.php", "<?php\nreturn 'loaded'\nreturn 1;\n");
    dev.wait_for_said("later.php:3");
    wait_until("pages are told", || {
        dev.state().contains("syntax error").then_some(())
    });
    // The error persists when another file changes.
    dev.write("other.php", "<?php\nreturn 1;\n");
    wait_until("it is said again", || {
        let said = dev.said.lock().expect("no other has panicked");
        (said.matches("later.php:3").count() >= 2).then_some(())
    });
    assert_eq!(dev.server(), pid);
    dev.write("later.php", "<?php\nreturn 'mended';\n");
    wait_until("the failure is gone", || {
        dev.state().contains("\"failure\":null").then_some(())
    });
    assert_ne!(dev.server(), pid);
    // Environment variables that the command sets for its server are not reported as mistakes.
    let said = dev.said.lock().expect("no other has panicked");
    assert!(!said.contains("is not a setting"), "{said}");
}

/// Symfony and Laravel print startup exceptions without a usable file name and with wrapped lines.
#[test]
fn a_mistake_that_the_program_prints_in_its_own_words_has_its_source() {
    let dev = Dev::ready(&[]);
    let pid = dev.server();
    dev.write("broken.php", "<?php\n\nreturn 'no' 'value';\n");
    dev.write(
        "answer.php",
        r#"<?php
try {
    throw new LogicException('of before');
} catch (LogicException) {
}
try {
    require __DIR__ . '/broken.php';
} catch (Throwable $error) {
    fwrite(STDERR, "In broken.php line 3:\n\n  " . wordwrap($error->getMessage(), 12, "  \n  ") . "\n");
    exit(1);
}
"#,
    );
    dev.wait_for_said("broken.php:3");
    dev.wait_for_said("return 'no' 'value';");
    wait_until("pages are told", || {
        let state = dev.state();
        (state.contains("ParseError: syntax error") && state.contains("broken.php")).then_some(())
    });
    assert_eq!(dev.server(), pid);
}

#[test]
fn what_has_been_compiled_is_kept_from_one_start_to_the_next() {
    let dev = Dev::ready(&[]);
    let age = |days: u64| {
        let file = fs::File::options()
            .append(true)
            .open(dev.folder.join("old.php"));
        let time = SystemTime::now() - Duration::from_secs(days * 86_400);
        file.and_then(|it| it.set_modified(time))
            .expect("it is there");
    };
    dev.write("old.php", &answers("old"));
    age(2);
    dev.write("answer.php", "<?php require __DIR__ . '/old.php';\n");
    dev.wait_for_page("old");
    let mut find = std::process::Command::new("find");
    let (_, found, _) = run(find.arg(dev.folder.path()).args(["-name", "old.php.bin"]));
    assert!(found.contains("/opcache/"), "{found}");
    // A modification time that is newer or older than the stored one marks a file as changed.
    dev.write("old.php", &answers("older"));
    age(3);
    dev.write(
        "answer.php",
        "<?php require __DIR__ . '/old.php'; // Again\n",
    );
    dev.wait_for_page("older");
}

#[test]
fn a_program_that_never_started_is_explained_in_the_browser() {
    let dev = Dev::start(&[], "<?php\nfunction answer( {\n");
    dev.wait_for_said("nothing is served");
    wait_until("the page says why", || {
        let page = dev.get("/any");
        (page.contains("syntax error") && page.contains("function answer( {")).then_some(())
    });
    dev.write("answer.php", &answers("started"));
    dev.wait_for_page("started");
}

#[test]
fn pages_get_the_script_and_other_answers_do_not() {
    let dev = Dev::ready(&[]);
    let tag = "<script src=\"/.fermata/reload.js\"";
    assert!(dev.get("/").contains(tag));
    assert!(dev.get("/files/").contains(tag));
    // A fragment requested by a script is inserted into a page that already has the reload script.
    for (uses, is_there) in [("document", true), ("iframe", true), ("empty", false)] {
        let header = format!("Sec-Fetch-Dest: {uses}");
        let html = ["--header", "Accept: text/html", "--header", &header];
        assert_eq!(dev.ask(&html, "/").contains(tag), is_there);
        assert_eq!(dev.ask(&html, "/books/7").contains(tag), is_there);
    }
    assert!(dev.get("/files/index.html").contains("<body>a page"));
    assert_eq!(dev.get("/files/style.css"), "body {}");
    assert_eq!(dev.get("/env"), "A=1");
    assert!(dev.get("/.fermata/reload.js").contains("EventSource"));
    // A stylesheet is not PHP code: pages are notified, and the server keeps running.
    let pid = dev.server();
    let before = dev.state();
    dev.write("files/style.css", "body { margin: 0 }");
    wait_until("pages are told", || (dev.state() != before).then_some(()));
    assert_eq!(dev.server(), pid);
}

#[test]
fn a_page_that_has_the_script_twice_listens_once() {
    if !install::works("node", &["--version"]) {
        install::skipped("the script is run by node");
        return;
    }
    let script = fs::read_to_string(workspace_root().join("crates/cli/src/dev/reload.js"));
    let script = script.expect("it is there");
    let program = format!(
        "let made = 0;\nglobalThis.window = globalThis;\n\
        globalThis.EventSource = class {{ constructor() {{ made++; }} addEventListener() {{}} }};\n\
        {script}\n{script}\nconsole.log(made);"
    );
    let (_, said, problem) = run(std::process::Command::new("node").args(["--eval", &program]));
    assert_eq!(said, "1\n", "{problem}");
}

#[test]
fn routes_that_are_no_utf_8_do_not_end_the_start() {
    let dev = Dev::ready(&[]);
    let route = "$server->get(\"/caf\\xe9\", fn () => Response::text(''));\n$server->run();";
    dev.write("server.php", &SERVER.replacen("$server->run();", route, 1));
    dev.write("answer.php", &answers("two"));
    dev.wait_for_page("two");
}

#[test]
fn errors_have_a_page_and_requests_a_line() {
    let dev = Dev::ready(&[]);
    let page = dev.ask(&["--header", "Accept: text/html"], "/books/7?a=%3Cb%3E");
    for part in [
        "RuntimeException",
        "no such book",
        "throw new RuntimeException",
        "&#039;id&#039; =&gt; &#039;7&#039;",
        "&#039;isbn&#039; =&gt; NULL",
        "&#039;note&#039; =&gt; &#039;&#039;",
        "GET /books/7?a=%3Cb%3E (/books/{id})",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let text = dev.get("/books/7");
    assert!(text.starts_with("RuntimeException: no such book"), "{text}");
    dev.wait_for_said(" 500 GET     /books/7");
    dev.wait_for_said(" MB /books/{id}");
    dev.get("/nothing");
    dev.wait_for_said(" 404 GET     /nothing");
    let program = dev.folder.join("server.php");
    // Outside development mode, error pages contain no details.
    let plain = super::Served::start(&program);
    let answer = plain.curl(&["--header", "Accept: text/html"], "/books/7");
    assert!(!answer.contains("no such book"), "{answer}");
    assert!(!plain.curl(&[], "/").contains("reload.js"));
}

#[test]
fn a_worker_script_that_throws_has_a_page() {
    let dev = Dev::ready(&[]);
    let library = workspace_root().join("php/tests/autoload.php");
    dev.write(
        "worker.php",
        "<?php\nwhile (frankenphp_handle_request(function () {\n    if ($_GET === []) {\n        echo '<body>a worker';\n        return;\n    }\n    \
        dump('seen');\n    throw new RuntimeException('no such page');\n})) {\n}\n",
    );
    dev.write(
        "server.php",
        &format!("<?php\nrequire '{}';\n(new Fermata\\FrankenPhp\\Worker(__DIR__ . '/worker.php'))->run();\n", library.display()),
    );
    dev.wait_for_page("a worker");
    let page = dev.ask(&["--header", "Accept: text/html"], "/?x=1");
    for part in [
        "<title>Error 500",
        "no such page",
        "throw new RuntimeException",
        "GET /?x=1",
        "worker.php:7: &#039;seen&#039;",
    ] {
        assert!(page.contains(part), "{part:?} is missing in {page}");
    }
}

/// Workers of another user cannot read the command's temporary files by default.
#[test]
fn workers_of_another_user_have_the_script_and_know_of_mistakes() {
    if !fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0) {
        install::skipped("workers change their user where they are started as root");
        return;
    }
    let dev = Dev::ready(&[]);
    let user = "<?php\nputenv('FERMATA_USER=nobody');";
    let page = "'/', fn (): Response => posix_geteuid() === 0 ? Response::text('root') :";
    let program = SERVER.replacen("<?php", user, 1);
    dev.write(
        "server.php",
        &program.replacen("'/', fn (): Response =>", page, 1),
    );
    dev.write("answer.php", &answers("nobody"));
    dev.wait_for_page("nobody");
    assert!(dev.get("/.fermata/reload.js").contains("EventSource"));
    dev.write("answer.php", "<?php\nfunction answer( {\n");
    wait_until("pages are told", || {
        dev.state().contains("syntax error").then_some(())
    });
    assert_is_for(&dev, "nobody");
    // A numeric user id works, too.
    let number = run(std::process::Command::new("id").args(["-u", "daemon"])).1;
    let user = format!("<?php\nputenv('FERMATA_USER={}');", number.trim());
    dev.write(
        "server.php",
        &SERVER
            .replacen("<?php", &user, 1)
            .replacen("'/', fn (): Response =>", page, 1),
    );
    dev.write("answer.php", &answers("daemon"));
    dev.wait_for_page("daemon");
    assert_is_for(&dev, "daemon");
    assert!(dev.state().contains("\"pages\""));
}

/// Root executes code from the command's folder: workers can read it, and own nothing in it.
fn assert_is_for(dev: &Dev, user: &str) {
    let group = run(std::process::Command::new("id").args(["-g", user])).1;
    let group = group.trim().parse().expect("a number");
    let mut entries = fs::read_dir(dev.folder.path()).expect("a folder");
    let place = entries.find_map(|it| {
        let name = it.expect("an entry").file_name();
        name.to_string_lossy()
            .starts_with(".fermata-")
            .then_some(name)
    });
    let place = dev.folder.path().join(place.expect("the command is there"));
    let about = fs::metadata(&place).expect("a folder");
    assert_eq!((about.uid(), about.gid()), (0, group));
    assert_eq!(about.mode() & 0o777, 0o710);
    for entry in fs::read_dir(&place).expect("a folder") {
        let about = entry.and_then(|it| it.metadata()).expect("an entry");
        assert_eq!((about.uid(), about.gid()), (0, 0));
        // For a socket, the folder's permissions count.
        let is_socket = about.mode() & 0o170_000 == 0o140_000;
        assert!(is_socket || about.mode() & 0o022 == 0, "{about:?}");
    }
}

#[test]
fn clients_resume_by_id_after_a_restart() {
    let dev = Dev::ready(&[]);
    let id = wait_until("an id comes", || {
        let events = dev.ask(&["--max-time", "1"], "/events");
        let id = events.lines().find_map(|line| line.strip_prefix("id: "))?;
        Some(id.to_owned())
    });
    dev.ask(&["--data", "kept"], "/events");
    dev.write("answer.php", &answers("two"));
    dev.wait_for_page("two");
    let header = format!("Last-Event-ID: {id}");
    let events = dev.ask(&["--max-time", "10", "--header", &header], "/events");
    assert!(events.contains("data: kept\n"), "{events}");
    assert!(!events.contains("gap"), "{events}");
}

#[test]
fn a_program_that_hangs_gives_way_to_one_that_is_changed() {
    let dev = Dev::ready(&[]);
    dev.write("answer.php", "<?php\nsleep(600);\n");
    // No event shows that the file is being read. An earlier change has the same effect.
    thread::sleep(Duration::from_millis(300));
    dev.write("answer.php", &answers("two"));
    dev.wait_for_page("two");
    let said = dev.said.lock().expect("no other has panicked");
    assert!(!said.contains("has not called run()"), "{said}");
}

#[test]
fn dumps_are_those_of_the_request() {
    let dev = Dev::ready(&[]);
    let names = ["ada", "bob"];
    let pages = thread::scope(|scope| {
        let dev = &dev;
        names
            .map(|name| scope.spawn(move || dev.get(&format!("/meet/{name}"))))
            .map(|page| page.join().expect("it asks"))
    });
    for ((name, other), page) in [("ada", "bob"), ("bob", "ada")].into_iter().zip(pages) {
        for text in [format!("dumped by {name}"), format!("by a task of {name}")] {
            assert!(page.contains(&text), "{text} in {page}");
        }
        assert!(!page.contains(other), "{page}");
    }
}

#[test]
fn signals_reload_and_end() {
    let mut dev = Dev::ready(&[]);
    let first = dev.server();
    send_signal(dev.child.id(), Signal::HangUp);
    wait_until("it was started anew", || {
        (dev.server() != first).then_some(())
    });
    let second = dev.server();
    // The signal does not stop the server either.
    send_signal(second, Signal::HangUp);
    dev.wait_for_page("one");
    assert_eq!(dev.server(), second);
    send_signal(dev.child.id(), Signal::Terminate);
    let status = dev.child.wait().expect("it is our child");
    assert!(status.success(), "{status}");
    assert!(!is_running(second));
}

#[test]
fn a_server_that_is_killed_comes_back_with_the_next_change() {
    let dev = Dev::ready(&[]);
    send_signal(dev.server(), Signal::Kill);
    dev.wait_for_said("nothing is served");
    dev.write("answer.php", &answers("back"));
    dev.wait_for_page("back");
}

#[test]
fn a_killed_command_ends_its_server() {
    let mut dev = Dev::ready(&[]);
    let pid = dev.server();
    send_signal(dev.child.id(), Signal::Kill);
    dev.child.wait().expect("it is our child");
    wait_until("the server has ended", || (!is_running(pid)).then_some(()));
}

#[test]
fn routes_are_listed_without_a_server() {
    let folder = Directory::new();
    folder.write("server.php", SERVER);
    folder.write("answer.php", answers("one"));
    let program = folder.join("server.php").display().to_string();
    let (is_good, text, error) = run(&mut fermata(&["routes", &program]));
    assert!(!is_good && error.contains("files"), "{text}{error}");
    fs::create_dir(folder.join("files")).expect("a folder");
    let (is_good, text, error) = run(&mut fermata(&["routes", &program]));
    assert!(is_good, "{error}");
    for part in [
        "GET     /books/{id}  ",
        "POST    /events  ",
        "files   /files  ",
        "server.php:6",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let (_, json, _) = run(&mut fermata(&["routes", "--json", &program]));
    let routes: serde_json::Value = serde_json::from_str(&json).expect("--json prints JSON");
    assert_eq!(routes[0]["path"], "/");
    let chat: PathBuf = workspace_root().join("examples/chat/server.php");
    let (is_good, text, error) = run(fermata(&["routes"]).arg(chat));
    assert!(is_good && text.contains("socket "), "{text}{error}");
    folder.write("server.php", "<?php exit(0);");
    let (is_good, _, error) = run(&mut fermata(&["routes", &program]));
    assert!(
        !is_good && error.contains("without calling run()"),
        "{error}"
    );
}
