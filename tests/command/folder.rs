//! `fermata serve FOLDER`: PHP-FPM with the edge in front of it, as one command.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;

use fermata_testkit::{
    Directory, Signal, free_port, install, is_running, send_signal, wait_until, workspace_root,
};

use super::{fermata, run};

/// A front controller that returns facts about the request, holds clients, and publishes to them.
const INDEX: &str = r#"<?php
spl_autoload_register(function (string $class) {
    require getenv('LIBRARY') . str_replace(['Fermata\\', '\\'], ['/', '/'], $class) . '.php';
});
switch ($_SERVER['REQUEST_URI']) {
    case '/hold':
        header('Content-Type: text/event-stream');
        header('Grip-Hold: stream');
        header('Grip-Channel: news');
        exit("data: welcome\n\n");
    case '/publish':
        (new Fermata\Grip\Publisher())->publish('news', Fermata\Grip\Item::event('published'));
        exit('told');
    case '/error':
        file_put_contents('php://stderr', "written by the script\n");
        throw new Exception('thrown by the script');
    case '/user-error':
        trigger_error('given up by the script', E_USER_ERROR);
    case '/upload':
        session_start();
        $to = sys_get_temp_dir() . '/uploaded-' . getmypid();
        move_uploaded_file($_FILES['photo']['tmp_name'], $to) or exit('not moved');
        $_SESSION['md5'] = md5_file($to);
        unlink($to);
        header('Location: /uploaded');
        exit;
    case '/uploaded':
        session_start();
        exit($_SERVER['REQUEST_METHOD'] . ' ' . ($_SESSION['md5'] ?? 'no session'));
    case '/pid':
        exit((string) posix_getppid());
}
header('Content-Type: text/plain');
echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '-', ' ', $_SERVER['QUERY_STRING'];
"#;

struct Application {
    child: Child,
    port: u16,
    folder: Directory,
    /// The folder of the application's sockets.
    place: Directory,
}

impl Application {
    /// Starts the application; returns `None` if PHP-FPM is not installed.
    fn start() -> Option<Self> {
        Self::start_by("serve")
    }

    fn start_by(subcommand: &str) -> Option<Self> {
        let folders = ["/usr/sbin", "/usr/local/sbin"];
        let is_fpm = |name: &str| name.starts_with("php-fpm");
        let has_fpm = folders.iter().any(|folder| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries
                .into_iter()
                .any(|entry| entry.file_name().to_str().is_some_and(is_fpm))
        });
        if !has_fpm {
            install::skipped("php-fpm is not installed");
            return None;
        }
        let folder = Directory::new();
        for name in ["admin", "data", "files"] {
            fs::create_dir(folder.join(name)).expect("a folder");
        }
        folder.write("index.php", INDEX);
        folder.write(
            "other.php",
            "<?php echo 'other ', $_SERVER['PATH_INFO'] ?? '-';",
        );
        folder.write("admin/index.php", "<?php echo 'admin';");
        folder.write("data/page.txt", "secret");
        folder.write(
            "data/.htaccess",
            "<IfModule mod_authz_core.c>\n Require all denied\n</IfModule>\n",
        );
        folder.write("page.php", "<?php echo '<body>one</body>';");
        folder.write("files/style.css", "body {}");
        folder.write("files/page.inc", "<?php /* source */");
        folder.write(".env", "PASSWORD=secret");
        let (port, place) = (free_port(), Directory::new());
        let mut command = fermata(&[subcommand, "--listen", &format!("http://127.0.0.1:{port}")]);
        if fs::metadata("/proc/self").expect("Linux").uid() == 0 {
            command.args(["--user", "root"]);
        }
        let child = command
            .args(["--children", "2"])
            .arg(folder.path())
            .env("TMPDIR", place.path())
            .env("LIBRARY", workspace_root().join("php/src"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(place.join("log")).expect("a file"))
            .spawn()
            .expect("make has built it");
        let mut application = Application {
            child,
            port,
            folder,
            place,
        };
        wait_until("it answers", || {
            let ended = application.child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "{ended:?}");
            (!application.get("/pid").is_empty()).then_some(())
        });
        Some(application)
    }

    /// Sends a request and returns the status and other values.
    fn ask(&self, arguments: &[&str], path: &str) -> String {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let mut command = std::process::Command::new("curl");
        command.args(["--silent", "--max-time", "20", "--path-as-is"]);
        run(command.args(arguments).arg(url)).1
    }

    fn get(&self, path: &str) -> String {
        self.ask(&[], path)
    }

    fn status(&self, path: &str) -> String {
        let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
        self.ask(&status, path)
    }

    /// Returns the process id of PHP-FPM's master.
    fn fpm(&self) -> Option<u32> {
        let pid = self.get("/pid").parse().ok();
        // Children of a killed master still respond for a moment, but their parent has then
        // changed.
        pid.filter(|pid| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline"));
            line.is_ok_and(|line| line.contains("php-fpm"))
        })
    }

    /// Returns the process id of the edge's master.
    fn edge(&self) -> u32 {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.expect("the kernel tells of children");
        let is_edge = |pid: &&str| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.contains("\0edge\0")
        };
        let found = children.split_whitespace().find(is_edge);
        found.and_then(|pid| pid.parse().ok()).expect("it runs")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.join("log")).expect("a log")
    }

    fn has_left_nothing(&self) -> bool {
        let entries = fs::read_dir(self.place.path()).into_iter().flatten();
        entries.flatten().all(|entry| entry.file_name() == "log")
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        send_signal(self.child.id(), Signal::Terminate);
        let _ = self.child.wait();
    }
}

fn wait_for_end(pids: &[u32]) {
    wait_until("nothing runs any more", || {
        pids.iter().all(|pid| !is_running(*pid)).then_some(())
    });
}

#[test]
fn a_folder_is_served_as_an_application() {
    let Some(application) = Application::start() else {
        return;
    };
    // No development features are active.
    assert_eq!(application.get("/page.php"), "<body>one</body>");
    assert!(
        application
            .get("/.fermata/reload")
            .starts_with("GET /index.php")
    );
    for (path, expected) in [
        ("/", "GET /index.php - "),
        ("/a/page?x=1", "GET /index.php - x=1"),
        ("/index.php/a/page", "GET /index.php /a/page "),
        ("/other.php", "other -"),
        ("/other.php/info", "other /info"),
        ("/no.php", "GET /index.php - "),
        ("/admin/", "admin"),
        ("/files/", "GET /index.php - "),
        ("/files/style.css", "body {}"),
        ("/files/page.inc", "GET /index.php - "),
        ("/files/style.css/other.php", "GET /index.php - "),
        ("/.env", "GET /index.php - "),
    ] {
        assert_eq!(application.get(path), expected, "{path}");
    }
    assert_eq!(
        application.ask(&["--data", "a=b"], "/a"),
        "POST /index.php - "
    );
    let location = ["--output", "/dev/null", "--write-out", "%header{location}"];
    assert_eq!(application.status("/admin?a"), "308");
    assert_eq!(application.ask(&location, "/admin?a"), "/admin/?a");
    for path in [
        "/data/page.txt",
        "/%64ata/page.txt",
        "//data/page.txt",
        "/data",
    ] {
        assert_eq!(application.status(path), "404", "{path}");
    }
    // A changed script runs at the next request.
    application
        .folder
        .write("added.php", "<?php echo 'was added';");
    assert_eq!(application.get("/added.php"), "was added");
}

#[test]
fn pages_of_a_folder_reload_in_development() {
    let Some(application) = Application::start_by("dev") else {
        return;
    };
    let tag = "<script src=\"/.fermata/reload.js\" async></script>";
    let page = |text: &str| format!("<body>{text}{tag}</body>");
    assert_eq!(application.get("/page.php"), page("one"));
    assert!(!application.get("/").contains(tag), "it is text");
    let other_site = [
        "--header",
        "Host: evil.example",
        "--write-out",
        "%{http_code}",
    ];
    assert!(application.ask(&other_site, "/page.php").ends_with("403"));
    assert!(
        application
            .get("/.fermata/reload.js")
            .contains("EventSource")
    );
    // An open page is notified, and PHP runs the new script immediately.
    let heard = application.place.join("heard");
    let mut listener = std::process::Command::new("curl")
        .args(["--silent", "--no-buffer"])
        .arg(format!(
            "http://127.0.0.1:{}/.fermata/reload",
            application.port
        ))
        .stdout(fs::File::create(&heard).expect("a file"))
        .spawn()
        .expect("curl is there");
    let hears = |part: &str| {
        wait_until(&format!("pages hear {part}"), || {
            let text = fs::read_to_string(&heard).expect("a file");
            text.contains(part).then_some(())
        });
    };
    hears("\"pages\":0");
    application
        .folder
        .write("page.php", "<?php echo '<body>two</body>';");
    hears("\"pages\":1");
    assert_eq!(application.get("/page.php"), page("two"));
    let html = ["--header", "Accept: text/html"];
    application
        .folder
        .write("page.php", "<?php\necho 'one' 'two';");
    let broken = application.ask(&html, "/page.php");
    assert!(
        broken.contains("syntax error") && broken.contains("<b>    2  echo"),
        "{broken}"
    );
    assert!(broken.contains(tag), "{broken}");
    let thrown = application.ask(&html, "/error");
    assert_eq!(thrown.matches(tag).count(), 1, "{thrown}");
    for part in [
        "thrown by the script",
        "<summary>Trace",
        "GET /error",
        "throw new Exception(&#039;thrown",
    ] {
        assert!(thrown.contains(part), "{part:?} is missing in {thrown}");
    }
    let given_up = application.ask(&html, "/user-error");
    for part in ["given up by the script", "GET /user-error", tag] {
        assert!(given_up.contains(part), "{part:?} is missing in {given_up}");
    }
    // A fragment requested by a script is inserted into a page that already has the reload script.
    let fetched = ["--header", "Sec-Fetch-Dest: empty"];
    assert_eq!(
        application.ask(&fetched, "/page.php").matches(tag).count(),
        0
    );
    // One line per request, with status and script.
    wait_until("requests have a line", || {
        let log = application.log();
        log.contains("500 GET     /page.php").then_some(())?;
        let line = log
            .lines()
            .find(|line| line.contains("500 GET     /error"))?;
        (line.contains(" ms ") && line.ends_with(" MB /index.php")).then_some(())
    });
    let _ = listener.kill();
    let _ = listener.wait();
}

/// With a link like that of `php artisan storage:link`, uploads are sent and PHP scripts among them
/// are never run.
#[test]
fn files_behind_a_link_are_sent_and_programs_are_not_run() {
    let Some(application) = Application::start() else {
        return;
    };
    let outside = Directory::new();
    outside.write("picture.svg", "<svg/>");
    outside.write("evil.php", "<?php echo 'run';");
    outside.write("index.php", "<?php echo 'run';");
    let link = application.folder.join("storage");
    std::os::unix::fs::symlink(outside.path(), link).expect("a link");
    std::os::unix::fs::symlink("other.php", application.folder.join("inside.php")).expect("a link");
    application
        .folder
        .write("files/a.pht", "<?php /* source */");
    for (path, expected) in [
        ("/storage/picture.svg", "<svg/>"),
        ("/storage/evil.php", "GET /index.php - "),
        ("/storage/evil.php/x", "GET /index.php - "),
        ("/storage/", "GET /index.php - "),
        ("/inside.php", "other -"),
        ("/files/a.pht", "GET /index.php - "),
        ("//index.php", "GET /index.php - "),
        ("//other.php//x", "other /x"),
    ] {
        assert_eq!(application.get(path), expected, "{path}");
    }
}

#[test]
fn clients_of_a_folder_are_held_by_headers() {
    let Some(application) = Application::start() else {
        return;
    };
    thread::scope(|scope| {
        let held = scope.spawn(|| application.ask(&["--no-buffer", "--max-time", "10"], "/hold"));
        // Clients receive the events published after they are held.
        while !held.is_finished() {
            assert_eq!(application.get("/publish"), "told");
        }
        let events = held.join().expect("it asks");
        assert!(events.starts_with("data: welcome\n\n"), "{events}");
        assert!(events.contains("data: published\n\n"), "{events}");
    });
}

#[test]
fn an_error_of_a_script_is_told_once_and_may_be_read() {
    let Some(application) = Application::start() else {
        return;
    };
    assert_eq!(application.status("/error"), "500");
    let log = wait_until("the error is told", || {
        let log = application.log();
        log.contains("thrown by the script").then_some(log)
    });
    // The next response follows all other output.
    assert_eq!(application.get("/other.php"), "other -");
    for text in ["thrown by the script", "written by the script"] {
        assert_eq!(application.log().matches(text).count(), 1, "{text}: {log}");
    }
    assert!(log.contains("\nStack trace:\n#0 {main}\n"), "{log}");
}

#[test]
fn an_upload_a_session_and_a_redirect_are_those_of_php() {
    let Some(application) = Application::start() else {
        return;
    };
    let photo = application.folder.join("photo.bin");
    fs::write(&photo, "0123456789abcdef".repeat(60_000)).expect("a file");
    let jar = application.folder.join("jar");
    let jar = jar.to_str().expect("a plain path");
    let form = format!("photo=@{}", photo.display());
    let arguments = [
        "--location",
        "--cookie",
        jar,
        "--cookie-jar",
        jar,
        "--form",
        &form,
    ];
    let sum = run(std::process::Command::new("md5sum").arg(&photo)).1;
    let md5 = sum.split(' ').next().expect("a sum");
    // curl continues with GET, as browsers do after a 302.
    assert_eq!(application.ask(&arguments, "/upload"), format!("GET {md5}"));
    assert_eq!(application.get("/uploaded"), "GET no session");
}

#[test]
fn php_fpm_is_started_again_and_both_end_with_the_command() {
    let Some(mut application) = Application::start() else {
        return;
    };
    let first = application.fpm().expect("it answers");
    send_signal(first, Signal::Kill);
    let second = wait_until("PHP-FPM is back", || {
        application.fpm().filter(|pid| *pid != first)
    });
    // The signal stops neither PHP-FPM, nor the edge, nor the command.
    send_signal(application.child.id(), Signal::HangUp);
    wait_until("it answers after a reload", || application.fpm());
    let edge = application.edge();
    send_signal(application.child.id(), Signal::Terminate);
    let status = application.child.wait().expect("it is our child");
    assert!(status.success(), "{status}");
    wait_for_end(&[first, second, edge]);
    assert!(application.has_left_nothing());
}

#[test]
fn a_killed_edge_ends_php_fpm() {
    let Some(mut application) = Application::start() else {
        return;
    };
    let fpm = application.fpm().expect("it answers");
    send_signal(application.edge(), Signal::Kill);
    let status = application.child.wait().expect("it is our child");
    assert!(!status.success(), "{status}");
    wait_for_end(&[fpm]);
    assert!(application.has_left_nothing());
}

#[test]
fn a_killed_command_ends_php_fpm_and_the_edge() {
    let Some(mut application) = Application::start() else {
        return;
    };
    let (fpm, edge) = (application.fpm().expect("it answers"), application.edge());
    send_signal(application.child.id(), Signal::Kill);
    application.child.wait().expect("it is our child");
    wait_for_end(&[fpm, edge]);
}

#[test]
fn what_cannot_serve_a_folder_is_named() {
    let folder = Directory::new();
    let name = folder.path().display().to_string();
    for (arguments, expected) in [
        (
            &["serve", "--fpm", "/nowhere/php-fpm", &name][..],
            "--fpm /nowhere/php-fpm: no such file",
        ),
        (
            &["serve", "--fpm", "no-such-fpm", &name],
            "--fpm no-such-fpm: no such program",
        ),
        (
            &["serve", "--listen", "https://127.0.0.1:1", &name],
            "FERMATA_EDGE_LISTEN_TLS",
        ),
    ] {
        let (is_good, _, error) = run(&mut fermata(arguments));
        assert!(
            !is_good && error.contains(expected),
            "{arguments:?}: {error}"
        );
    }
}

#[test]
fn a_dry_run_says_what_would_be_started() {
    let folder = Directory::new();
    let mut command = fermata(&["serve", "--dry-run"]);
    if fs::metadata("/proc/self").expect("Linux").uid() == 0 {
        command.args(["--user", "root"]);
    }
    let (is_good, shown, error) = run(command.arg(folder.path()));
    if error.contains("there is none") {
        install::skipped("php-fpm is not installed");
        return;
    }
    assert!(is_good, "{error}");
    let root = Path::new(folder.path()).display().to_string();
    for part in [
        "pm.max_children = ",
        " edge --listen 127.0.0.1:8080 ",
        &root,
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    // The user may have named the project's folder.
    assert!(error.contains("has no index.php"), "{error}");
    let public = Path::new(folder.path()).join("public");
    fs::create_dir(&public).expect("it is ours");
    fs::write(public.join("index.php"), "").expect("it is ours");
    let (_, _, error) = run(&mut command);
    let advice = format!("serve {}", public.display());
    assert!(error.contains(&advice), "{error}");
    fs::rename(
        public.join("index.php"),
        Path::new(folder.path()).join("index.php"),
    )
    .expect("it is ours");
    let (_, _, error) = run(&mut command);
    assert!(!error.contains("index.php"), "{error}");
}
