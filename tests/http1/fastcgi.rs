//! PHP-FPM behind routes of an application: `Server::fastcgi()`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fermata_testkit::sse::Stream;
use fermata_testkit::websocket::Socket;
use fermata_testkit::{
    Builder, Connection, Server, Signal, install, is_running, send_signal, wait_until,
};
use fermata_tests::disk::with_disk;
use fermata_tests::{fixture, json, stats};

/// Larger than all buffers between a script and a client that does not read.
const ENDLESS_BYTES: usize = 64 * 1024 * 1024;

const SCRIPTS: &[(&str, &str)] = &[
    (
        "index.php",
        "header('X-Front: yes'); echo json_encode($_SERVER);",
    ),
    ("page.php", "echo json_encode($_SERVER);"),
    ("sub/index.php", "echo 'the folder';"),
    (
        "echo.php",
        "header('X-Length: ' . ($_SERVER['CONTENT_LENGTH'] ?? 'none')); echo md5(file_get_contents('php://input'));",
    ),
    (
        "upload.php",
        "echo json_encode([$_POST, $_FILES['file']['name'], $_FILES['file']['size'], md5_file($_FILES['file']['tmp_name'])]);",
    ),
    (
        "status.php",
        "http_response_code(418); header('X-A: 1'); header('X-A: 2', false); setcookie('a', 'b'); setcookie('c', 'd'); echo 'teapot';",
    ),
    ("moved.php", "header('Location: /elsewhere');"),
    ("empty.php", "http_response_code(204);"),
    ("large.php", "echo str_repeat('0123456789abcdef', 200_000);"),
    (
        "stream.php",
        "echo 'one'; flush(); while (!file_exists($_GET['until'])) { usleep(5_000); clearstatcache(); } echo 'two';",
    ),
    (
        "sleep.php",
        "touch($_GET['at'] ?? '/dev/null'); usleep((int) $_GET['ms'] * 1000); echo getmypid();",
    ),
    (
        "until.php",
        "touch($_GET['at']); while (!file_exists($_GET['until'])) { usleep(5_000); clearstatcache(); } echo 'late';",
    ),
    (
        "hops.php",
        "header('TE: trailers'); header('Keep-Alive: timeout=5'); header('Trailer: X-A'); header('X-End: yes'); echo 'hops';",
    ),
    (
        "endless.php",
        "register_shutdown_function(fn () => file_put_contents($_GET['log'], $GLOBALS['sent'])); $sent = 0; ignore_user_abort(false); \
        while ($sent < 64 * 1024 * 1024) { echo str_repeat('x', 65536); flush(); $sent += 65536; file_put_contents($_GET['log'] . '.now', (string) $sent); }",
    ),
    (
        "huge.php",
        "header('Content-Length: 100000000'); for ($i = 0; $i < 100; $i++) { echo str_repeat(chr(97 + $i % 26), 1_000_000); }",
    ),
    ("errors.php", "error_log('logged'); echo 'done';"),
    ("short.php", "header('Content-Length: 100'); echo 'short';"),
    (
        "dies.php",
        "echo str_repeat('x', 100_000); flush(); exec('kill -9 ' . getmypid());",
    ),
    ("dies_at_once.php", "exec('kill -9 ' . getmypid());"),
    ("pid.php", "echo getmypid();"),
    (".hidden.php", "echo 'hidden';"),
];

struct Fpm(Child);

impl Drop for Fpm {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Returns a server with a folder of scripts.
fn site() -> Builder {
    site_of(fixture("fastcgi").workers(1))
}

fn site_of(builder: Builder) -> Builder {
    let folder = builder.directory();
    for (name, code) in SCRIPTS {
        folder.write(&format!("root/{name}"), format!("<?php {code}"));
    }
    folder.write("root/style.css", "body { margin: 0 }\n");
    folder.write("secret.php", "<?php echo 'secret';");
    let path = folder.path().to_owned();
    builder.env("FOLDER", path)
}

/// Starts PHP-FPM in the folder; returns `None` if it is not installed.
fn fpm(builder: &Builder, children: usize) -> Option<Fpm> {
    let folder = builder.directory();
    let programs = ["8.2", "8.3", "8.4"].map(|version| format!("/usr/sbin/php-fpm{version}"));
    let program = programs
        .iter()
        .find(|path| std::path::Path::new(path).exists());
    let Some(program) = program else {
        install::skipped("php-fpm is not installed");
        return None;
    };
    let name = folder.path().display();
    folder.write(
        "fpm.conf",
        format!(
            "[global]\nerror_log = {name}/fpm.log\n[www]\nlisten = {name}/fpm.sock\nuser = root\ngroup = root\n\
            pm = static\npm.max_children = {children}\nclear_env = no\nphp_admin_value[output_buffering] = 0\n\
            php_admin_value[upload_max_filesize] = 30M\nphp_admin_value[post_max_size] = 30M\n"
        ),
    );
    let child = Command::new(program)
        .args(["-F", "-R", "-n", "-y"])
        .arg(folder.join("fpm.conf"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it was looked at before");
    let fpm = Fpm(child);
    wait_until("PHP-FPM listens", || {
        UnixStream::connect(folder.join("fpm.sock")).ok()
    });
    Some(fpm)
}

/// Starts PHP-FPM with this number of children, and the server.
fn both(children: usize) -> Option<(Fpm, Server)> {
    let builder = site();
    let fpm = fpm(&builder, children)?;
    Some((fpm, builder.start()))
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 7 % 251) as u8).collect()
}

fn md5(server: &Server, body: &[u8]) -> String {
    server.directory().write("body", body);
    let output = Command::new("md5sum")
        .arg(server.directory().join("body"))
        .output();
    let text = output.expect("md5sum is there").stdout;
    String::from_utf8_lossy(&text[..32]).into_owned()
}

#[test]
fn scripts_files_and_routes_are_served_side_by_side() {
    let Some((_fpm, server)) = both(2) else {
        return;
    };
    let mut connection = server.connect();
    assert_eq!(connection.get("/own").text(), "own");
    assert_eq!(connection.get("/style.css").text(), "body { margin: 0 }\n");
    let page = json(&connection.get("/page.php/in/fo?x=%2F"));
    let root = server.directory().join("root").display().to_string();
    for (name, value) in [
        ("SCRIPT_FILENAME", format!("{root}/page.php")),
        ("SCRIPT_NAME", "/page.php".to_owned()),
        ("PATH_INFO", "/in/fo".to_owned()),
        ("QUERY_STRING", "x=%2F".to_owned()),
        ("REQUEST_URI", "/page.php/in/fo?x=%2F".to_owned()),
        ("DOCUMENT_ROOT", root.clone()),
        ("REMOTE_ADDR", "127.0.0.1".to_owned()),
        ("SERVER_PORT", server.address().port().to_string()),
        ("SERVER_PROTOCOL", "HTTP/1.1".to_owned()),
        ("REQUEST_METHOD", "GET".to_owned()),
    ] {
        assert_eq!(page[name], value, "{name}");
    }
    assert_eq!(page.get("HTTPS"), None);
    let front = connection.get("/blog/a%20post");
    assert_eq!(front.header("x-front"), Some("yes"));
    assert_eq!(json(&front)["DOCUMENT_URI"], "/blog/a post");
    assert_eq!(connection.get("/").header("x-front"), Some("yes"));
    assert_eq!(connection.get("/sub/").text(), "the folder");
    let folder = connection.get("/sub?a=b");
    assert_eq!(
        (folder.status(), folder.header("location")),
        (301, Some("/sub/?a=b"))
    );
    let old = json(&connection.get("/old/page.php/rest"));
    assert_eq!(
        (&old["SCRIPT_NAME"], &old["PATH_INFO"]),
        (&"/old/page.php".into(), &"/rest".into())
    );
    assert_eq!(old["SCRIPT_FILENAME"], format!("{root}/page.php"));
    assert_eq!(connection.get("/old/nothing").status(), 404);
    // A held client and a WebSocket are connected at the same time.
    let _events = Stream::open(server.connect(), "/events", None);
    let mut socket = Socket::open(server.connect(), "/echo");
    socket.text("hello");
    assert_eq!(socket.next_text(), "hello");
}

#[test]
fn answers_are_passed_on_as_the_script_gives_them() {
    let Some((_fpm, server)) = both(2) else {
        return;
    };
    let mut connection = server.connect();
    let status = connection.get("/status.php");
    assert_eq!((status.status(), status.text()), (418, "teapot"));
    for name in ["set-cookie", "x-a"] {
        let lines = status.head.headers.iter().filter(|(it, _)| it == name);
        assert_eq!(lines.count(), 2, "{name}");
    }
    let moved = connection.get("/moved.php");
    assert_eq!(
        (moved.status(), moved.header("location")),
        (302, Some("/elsewhere"))
    );
    assert_eq!(connection.get("/empty.php").status(), 204);
    let large = connection.get("/large.php");
    assert_eq!(large.body, b"0123456789abcdef".repeat(200_000));
    connection.send("HEAD /large.php HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = connection.try_read_response(true).expect("a head");
    assert_eq!((head.status(), head.body.len()), (200, 0));
    let hops = connection.get("/hops.php");
    assert_eq!((hops.text(), hops.header("x-end")), ("hops", Some("yes")));
    for name in ["te", "keep-alive", "trailer"] {
        assert_eq!(hops.header(name), None, "{name}");
    }
    assert_eq!(connection.get("/errors.php").text(), "done");
    server.log().wait_for(0, "FastCGI: PHP message: logged");
}

#[test]
fn bodies_of_several_megabytes_arrive() {
    for streams in ["0", "1"] {
        let builder = site().env("STREAM", streams);
        let Some(_fpm) = fpm(&builder, 2) else { return };
        let server = builder.start();
        for len in [0, 10, 300_000, 20_000_000] {
            let body = bytes(len);
            let mut connection = server.connect();
            let answer = connection.post("/echo.php", &body);
            assert_eq!(answer.text(), md5(&server, &body), "{len}");
            if len > 0 {
                let length = answer.header("x-length").expect("it is told");
                assert_eq!(length, len.to_string());
            }
            // The connection stays usable.
            assert_eq!(connection.get("/own").text(), "own");
        }
        // A chunked body without Content-Length.
        let mut connection = server.connect();
        connection.send("POST /echo.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        let body = bytes(1_000_000);
        for piece in body.chunks(100_000) {
            connection.send(format!("{:x}\r\n", piece.len()));
            connection.send(piece);
            connection.send("\r\n");
        }
        connection.send("0\r\n\r\n");
        let answer = connection.read_response();
        assert_eq!(answer.header("x-length"), Some("1000000"));
        assert_eq!(answer.text(), md5(&server, &body));
        assert_eq!(connection.get("/own").text(), "own");
        let file = bytes(5_000_000);
        server.directory().write("file.bin", &file);
        let form = format!("file=@{}", server.directory().join("file.bin").display());
        for protocol in ["--http1.1", "--http2-prior-knowledge"] {
            let output = Command::new("curl")
                .args(["-sS", protocol, "-F", &form, "-F", "a=b"])
                .arg(format!("http://{}/upload.php", server.address()))
                .output()
                .expect("curl is there");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let expected = format!(
                "[{{\"a\":\"b\"}},\"file.bin\",5000000,\"{}\"]",
                md5(&server, &file)
            );
            assert_eq!(said, expected, "{protocol}");
        }
    }
}

#[test]
fn a_script_is_not_asked_twice_nor_its_source_sent() {
    let Some((_fpm, server)) = both(2) else {
        return;
    };
    let mut connection = server.connect();
    for path in [
        "/../secret.php",
        "/%2e%2e/secret.php",
        "/sub/%2e%2e/%2e%2e/secret.php",
        "/..%2fsecret.php",
        "/%2e%2e%5csecret.php",
        "/page.php%00.css",
        "/.hidden.php",
    ] {
        let answer = connection.get(path);
        let text = answer.text();
        assert!(
            !text.contains("secret'") && !text.contains("<?php") && text != "secret",
            "{path}: {text}"
        );
        assert_ne!(text, "hidden", "{path}");
        if answer.status() == 400 {
            connection = server.connect();
        }
    }
}

#[test]
fn what_a_client_must_not_say_does_not_reach_the_script() {
    let Some((_fpm, server)) = both(2) else {
        return;
    };
    let mut connection = server.connect();
    connection.send(
        "GET /page.php HTTP/1.1\r\nHost: example.com:81\r\nProxy: http://evil\r\nX_Under: evil\r\nX-Plain: good\r\n\
        Connection: keep-alive, x-hop\r\nX-Hop: evil\r\nX-Forwarded-For: 1.2.3.4\r\nCookie: a=1\r\nCookie: b=2\r\n\r\n",
    );
    let page = json(&connection.read_response());
    for name in [
        "HTTP_PROXY",
        "HTTP_X_UNDER",
        "HTTP_X_HOP",
        "HTTP_CONNECTION",
    ] {
        assert_eq!(page.get(name), None, "{name}");
    }
    for (name, value) in [
        ("HTTP_X_PLAIN", "good"),
        ("HTTP_HOST", "example.com:81"),
        ("SERVER_NAME", "example.com"),
        ("HTTP_COOKIE", "a=1; b=2"),
        ("REMOTE_ADDR", "127.0.0.1"),
    ] {
        assert_eq!(page[name], value, "{name}");
    }
}

#[test]
fn what_a_script_flushes_reaches_the_client_at_once() {
    let Some((_fpm, server)) = both(2) else {
        return;
    };
    let until = server.directory().join("until");
    let mut connection = server.connect();
    let target = format!("/stream.php?until={}", until.display());
    connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    // The head and "one" arrive while the script is still running.
    assert_eq!(connection.peek_status(), 200);
    connection.wait_for_bytes(100);
    std::fs::write(&until, "").expect("it is writable");
    assert_eq!(connection.read_response().text(), "onetwo");
}

#[test]
fn a_client_that_does_not_read_holds_back_the_script_without_a_spool() {
    let builder = site().setting("response_spool_bytes_max", 0);
    let Some(_fpm) = fpm(&builder, 2) else { return };
    let server = builder.start();
    let log = server.directory().join("endless");
    let mut connection = server.connect();
    connection.send(format!(
        "GET /endless.php?log={} HTTP/1.1\r\nHost: a\r\n\r\n",
        log.display()
    ));
    let now = server.directory().join("endless.now");
    let read = || std::fs::read_to_string(&now).ok()?.parse::<usize>().ok();
    let mut before = 0;
    let stands = wait_until("the script stands still", || {
        std::thread::sleep(Duration::from_millis(300));
        let sent = read()?;
        let is_still = sent == before && sent > 0;
        before = sent;
        is_still.then_some(sent)
    });
    assert!(stands < ENDLESS_BYTES / 2, "{stands} bytes are in buffers");
    assert_eq!(server.connect().get("/own").text(), "own");
    // When the client disconnects, the script is aborted.
    drop(connection);
    let sent = wait_until("the script ends", || {
        std::fs::read_to_string(&log).ok()?.parse::<usize>().ok()
    });
    assert!(sent < ENDLESS_BYTES, "{sent}");
}

#[test]
fn requests_wait_for_a_connection_and_no_longer_than_they_may() {
    let builder = site()
        .env("CONNECTIONS", "1")
        .env("QUEUE", "2")
        .env("TIMEOUT", "1.5");
    let Some(_fpm) = fpm(&builder, 1) else { return };
    let server = builder.start();
    let at = server.directory().join("at");
    let mut first = server.connect();
    first.send(format!(
        "GET /sleep.php?ms=700&at={} HTTP/1.1\r\nHost: a\r\n\r\n",
        at.display()
    ));
    wait_until("the script runs", || at.exists().then_some(()));
    let mut waiting: Vec<_> = (0..2)
        .map(|_| {
            let mut connection = server.connect();
            connection.send("GET /pid.php HTTP/1.1\r\nHost: a\r\n\r\n");
            connection
        })
        .collect();
    let mut refused = server.connect();
    wait_until("the queue is full", || {
        (refused.get("/pid.php").status() == 503).then_some(())
    });
    server.log().wait_for(0, "(queue)");
    assert_eq!(first.read_response().status(), 200);
    for connection in &mut waiting {
        assert_eq!(connection.read_response().status(), 200);
    }
    // Longer than the time-out.
    assert_eq!(server.connect().get("/sleep.php?ms=5000").status(), 504);
    server.log().wait_for(0, "silent for 1.5 seconds (timeout)");
}

#[test]
fn a_php_fpm_that_fails_is_told_by_its_cause() {
    let builder = site();
    let Some(fpm) = fpm(&builder, 2) else { return };
    let server = builder.start();
    let mut connection = server.connect();
    assert_eq!(connection.get("/dies_at_once.php").status(), 502);
    server.log().wait_for(0, "fpm.sock: the connection has");
    let mut cut = server.connect();
    cut.send("GET /dies.php HTTP/1.1\r\nHost: a\r\n\r\n");
    let (bytes, _) = cut.read_to_end();
    assert!(
        // With the sizes of the chunks and the head.
        !bytes.ends_with(b"0\r\n\r\n") && bytes.len() > 100_000,
        "{} bytes",
        bytes.len()
    );
    server
        .log()
        .wait_for(0, "the connection has ended within the response");
    let mut short = server.connect();
    short.send("GET /short.php HTTP/1.1\r\nHost: a\r\n\r\n");
    let (bytes, _) = short.read_to_end();
    assert!(bytes.ends_with(b"short"));
    server.log().wait_for(0, "before its announced length");
    drop(fpm);
    assert_eq!(server.connect().get("/page.php").status(), 502);
    server.log().wait_for(0, "check that PHP-FPM runs");
    assert_eq!(server.connect().get("/own").text(), "own");
}

#[test]
fn a_peer_that_does_not_speak_fastcgi_is_a_502() {
    let builder = site();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let server = builder.env("SOCKET", &address).start();
    let peer = std::thread::spawn(move || {
        for answer in [
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            b"\x01\x06\x00\x01\x00\x05\x00\x00Stat",
        ] {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut bytes = [0; 65_536];
            let _ = stream.read(&mut bytes);
            let _ = stream.write_all(answer);
        }
    });
    let mut connection = server.connect();
    assert_eq!(connection.get("/a").status(), 502);
    server.log().wait_for(0, "does not speak FastCGI");
    assert_eq!(connection.get("/b").status(), 502);
    peer.join().expect("it has served two");
    assert_eq!(connection.get("/c").status(), 502);
    server.log().wait_for(0, "no connection");
}

#[test]
fn a_queue_that_is_full_at_the_socket_is_waited_for() {
    let builder = site().env("TIMEOUT", "1");
    let path = builder.directory().join("fpm.sock");
    // No process accepts: connections fill the backlog, then a request waits for room until its
    // time-out.
    let _listener = UnixListener::bind(&path).expect("a socket");
    let server = builder.start();
    let mut connection = server.connect();
    assert_eq!(connection.get("/a").status(), 504);
    server.log().wait_for(0, "(timeout)");
}

#[test]
fn connections_are_kept_where_the_program_says_so() {
    let builder = site().env("KEEP", "30");
    let Some(fpm) = fpm(&builder, 1) else { return };
    let server = builder.start();
    let mut connection = server.connect();
    for _ in 0..20 {
        assert_eq!(connection.get("/pid.php").status(), 200);
        assert_eq!(
            connection.post("/echo.php", "four").header("x-length"),
            Some("4")
        );
    }
    // The child has exited and the connection is closed, so the server opens a new one.
    assert_eq!(connection.get("/dies_at_once.php").status(), 502);
    assert_eq!(
        wait_until("another child", || {
            let answer = server.connect().get("/pid.php");
            (answer.status() == 200).then_some(answer.status())
        }),
        200
    );
    drop(fpm);
}

#[test]
fn http_2_carries_large_answers_and_clients_that_leave() {
    // The limit is smaller than the output of the endless script, so that the script still runs when its client disconnects.
    let builder = site().setting("response_spool_bytes_max", "8m");
    let Some(_fpm) = fpm(&builder, 1) else { return };
    let server = builder.start();
    let curl = |path: &str, more: &[&str]| {
        Command::new("curl")
            .args(["-sS", "--http2-prior-knowledge"])
            .args(more)
            .arg(format!("http://{}{path}", server.address()))
            .output()
            .expect("curl is there")
    };
    let large = curl("/large.php", &[]);
    assert_eq!(large.stdout, b"0123456789abcdef".repeat(200_000));
    let page: serde_json::Value =
        serde_json::from_slice(&curl("/page.php", &[]).stdout).expect("JSON");
    assert_eq!(page["SERVER_PROTOCOL"], "HTTP/2.0");
    assert_eq!(page["HTTP_HOST"], server.address().to_string());
    // The client disconnects while the only child works for it. The response is dropped, and the child is free again.
    let log = server.directory().join("left");
    let target = format!("/endless.php?log={}", log.display());
    let left = curl(&target, &["--max-time", "1", "--limit-rate", "10k"]);
    assert!(!left.status.success());
    let sent = wait_until("the script ends", || {
        std::fs::read_to_string(&log).ok()?.parse::<usize>().ok()
    });
    assert!(sent < ENDLESS_BYTES, "{sent}");
    assert_eq!(server.connect().get("/sub/").text(), "the folder");
}

/// Maximum duration until a request is rejected when the queue is full.
const REFUSED_WITHIN: Duration = Duration::from_millis(100);

#[test]
fn a_client_that_leaves_the_queue_leaves_its_place() {
    let builder = site().env("CONNECTIONS", "1").env("QUEUE", "1");
    let Some(_fpm) = fpm(&builder, 1) else {
        return;
    };
    let server = builder.start();
    let at = server.directory().join("at");
    let mut first = server.connect();
    let target = format!("/sleep.php?ms=1500&at={}", at.display());
    first.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    wait_until("the script runs", || at.exists().then_some(()));
    for _ in 0..3 {
        // The server may detect the disconnect only after it has rejected this request, which it does immediately.
        let _waiting = wait_until("there is a place in the queue", || {
            let mut waiting = server.connect();
            waiting.send("GET /pid.php HTTP/1.1\r\nHost: a\r\n\r\n");
            (!waiting.has_data(REFUSED_WITHIN)).then_some(waiting)
        });
        assert!(!first.has_data(Duration::ZERO), "it has left its place");
        wait_until("the queue is full", || {
            (server.connect().get("/pid.php").status() == 503).then_some(())
        });
    }
    assert_eq!(first.read_response().status(), 200);
}

#[test]
fn a_server_that_stops_waits_for_what_php_fpm_has_begun() {
    let Some((_fpm, mut server)) = both(2) else {
        return;
    };
    let at = server.directory().join("at");
    let until = server.directory().join("until");
    let (running, go) = (at.display().to_string(), until.display().to_string());
    let mut silent = server.connect();
    silent.send(format!(
        "GET /until.php?at={running}&until={go} HTTP/1.1\r\nHost: a\r\n\r\n"
    ));
    let mut begun = server.connect();
    begun.send(format!(
        "GET /stream.php?until={go} HTTP/1.1\r\nHost: a\r\n\r\n"
    ));
    wait_until("the script runs", || at.exists().then_some(()));
    assert_eq!(begun.peek_status(), 200);
    server.signal(Signal::Terminate);
    let address = server.address();
    wait_until("the server takes no more clients", || {
        Connection::try_open(address).is_err().then_some(())
    });
    std::fs::write(&until, "").expect("it is writable");
    assert_eq!(begun.read_response().text(), "onetwo");
    assert_eq!(silent.read_response().text(), "late");
    assert!(server.wait_exit().success());
}

#[test]
fn figures_tell_how_requests_for_php_fpm_have_ended() {
    let builder = site()
        .control()
        .env("CONNECTIONS", "1")
        .env("QUEUE", "1")
        .env("TIMEOUT", "1.5");
    let Some(_fpm) = fpm(&builder, 1) else { return };
    let server = builder.start();
    let mut connection = server.connect();
    assert_eq!(connection.get("/page.php").status(), 200);
    assert_eq!(connection.post("/echo.php", "a body").status(), 200);
    assert_eq!(connection.get("/dies_at_once.php").status(), 502);
    let at = server.directory().join("at");
    let mut first = server.connect();
    first.send(format!(
        "GET /sleep.php?ms=1000&at={} HTTP/1.1\r\nHost: a\r\n\r\n",
        at.display()
    ));
    wait_until("the script runs", || at.exists().then_some(()));
    let mut waiting = server.connect();
    waiting.send("GET /pid.php HTTP/1.1\r\nHost: a\r\n\r\n");
    let open = |running: u64, queued: u64| {
        wait_until("requests are counted while they are open", || {
            let now = stats(&server)["total"]["fastcgi_open"].clone();
            (now == serde_json::json!({"running": running, "queued": queued})).then_some(())
        });
    };
    open(1, 1);
    assert_eq!(server.connect().get("/pid.php").status(), 503);
    assert_eq!(first.read_response().status(), 200);
    assert_eq!(waiting.read_response().status(), 200);
    let mut left = server.connect();
    left.send("GET /sleep.php?ms=1000 HTTP/1.1\r\nHost: a\r\n\r\n");
    open(1, 0);
    drop(left);
    open(0, 0);
    assert_eq!(server.connect().get("/sleep.php?ms=9000").status(), 504);
    let expected = serde_json::json!(
        {"answered": 4, "queue_full": 1, "failed": 1, "timeout": 1, "left": 1}
    );
    let total = wait_until("how they have ended is counted", || {
        let total = stats(&server)["total"].clone();
        (total["fastcgi_requests"] == expected).then_some(total)
    });
    let ms = |phase: &str| total["fastcgi_ms"][phase].as_u64().expect("a number");
    assert!(ms("queued") > 0 && ms("running") >= 2_500, "{total}");
}

/// Opens connections that send a request and do not read.
fn silent_clients(server: &Server, count: usize, path: &str) -> Vec<Connection> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let clients = (0..count).map(|_| {
        let mut connection = server.connect();
        connection.send(&request);
        connection
    });
    clients.collect()
}

/// Returns the number of bytes that the files of a folder which a process has open occupy, including unlinked files. Parts of a
/// file that were read are holes.
fn spooled(pid: u32, folder: &Path) -> u64 {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let files = entries
        .flatten()
        .filter(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(folder)));
    files
        .filter_map(|entry| Some(fs::metadata(entry.path()).ok()?.blocks() * 512))
        .sum()
}

/// Returns a server that spools responses to a separate folder.
fn with_spool() -> (Builder, PathBuf) {
    let builder = site();
    let folder = builder.directory().join("spool");
    fs::create_dir(&folder).expect("the test's directory is new");
    let path = folder.display().to_string();
    (builder.setting("upload_directory", path), folder)
}

#[test]
fn silent_clients_hold_no_child_of_php_fpm() {
    for silent in [8, 80] {
        let builder = site().control();
        let Some(_fpm) = fpm(&builder, 4) else { return };
        let server = builder.start();
        let mut clients = silent_clients(&server, silent, "/large.php");
        // Every response was produced before this one, because PHP-FPM handles requests in order.
        assert_eq!(server.connect().get("/pid.php").status(), 200);
        wait_until("no child works for them", || {
            let open = &stats(&server)["total"]["fastcgi_open"];
            (open["running"] == 0 && open["queued"] == 0).then_some(())
        });
        let last = clients.pop().expect("there are some").read_response();
        assert!(last.body == b"0123456789abcdef".repeat(200_000));
    }
}

#[test]
fn a_response_of_100_megabytes_arrives_whole_when_its_client_reads_late() {
    let (builder, folder) = with_spool();
    let Some(_fpm) = fpm(&builder, 1) else { return };
    let server = builder.start();
    let pid = server.worker_pids()[&0];
    let mut late = silent_clients(&server, 1, "/huge.php").remove(0);
    assert_eq!(server.connect().get("/pid.php").status(), 200);
    assert!(spooled(pid, &folder) > 90_000_000);
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
    let response = late.read_response();
    let is_whole = (0..100).all(|at| {
        let piece = &response.body[at * 1_000_000..][..1_000_000];
        piece.iter().all(|&byte| byte == b'a' + (at % 26) as u8)
    });
    assert!(response.body.len() == 100_000_000 && is_whole);
    wait_until("the file is closed", || {
        (spooled(pid, &folder) == 0).then_some(())
    });
}

#[test]
fn a_response_larger_than_the_spool_goes_on_when_its_client_reads() {
    let (builder, folder) = with_spool();
    let builder = builder.setting("response_spool_bytes_max", "4m");
    let Some(_fpm) = fpm(&builder, 2) else { return };
    let server = builder.start();
    let pid = server.worker_pids()[&0];
    let mut late = silent_clients(&server, 1, "/huge.php").remove(0);
    wait_until("the spool is full", || {
        (spooled(pid, &folder) > 4_000_000).then_some(())
    });
    assert_eq!(server.connect().get("/pid.php").status(), 200);
    assert!(spooled(pid, &folder) <= 4 * 1024 * 1024);
    assert_eq!(late.read_response().body.len(), 100_000_000);
}

#[test]
fn one_address_holds_no_more_children_than_it_may() {
    let builder = site()
        .setting("response_spool_bytes_max", "1m")
        .setting("response_waits_per_address_max", 2);
    let Some(_fpm) = fpm(&builder, 3) else { return };
    let server = builder.start();
    let _clients = silent_clients(&server, 8, "/huge.php");
    assert_eq!(server.connect().get("/pid.php").status(), 200);
    server
        .log()
        .wait_for(0, "client cut off: 127.0.0.1 reads more than 2 responses");
}

#[test]
fn clients_of_one_address_that_read_hold_as_many_children_as_there_are() {
    let builder = site()
        .setting("response_spool_bytes_max", "1m")
        .setting("response_waits_per_address_max", 2);
    let Some(_fpm) = fpm(&builder, 3) else { return };
    let server = builder.start();
    let mut clients = silent_clients(&server, 3, "/huge.php");
    let mut read = 0;
    while read < 90_000_000 {
        read += 2_000_000;
        for client in &mut clients {
            client.wait_for_bytes(read);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    for client in &mut clients {
        assert_eq!(client.read_response().body.len(), 100_000_000);
    }
    let log = server.log().text();
    assert!(!log.contains("client cut off"), "{log}");
}

#[test]
fn a_killed_server_leaves_no_response_behind() {
    let (builder, folder) = with_spool();
    let Some(_fpm) = fpm(&builder, 2) else { return };
    let server = builder.start();
    let pid = server.worker_pids()[&0];
    let _late = silent_clients(&server, 2, "/huge.php");
    wait_until("responses wait in files", || {
        (spooled(pid, &folder) > 10_000_000).then_some(())
    });
    server.signal(Signal::Kill);
    send_signal(pid, Signal::Kill);
    wait_until("it is gone", || (!is_running(pid)).then_some(()));
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
}

#[test]
fn php_fpm_waits_for_its_client_when_the_disk_is_full() {
    let Some((builder, disk)) = with_disk("fastcgi") else {
        return;
    };
    let builder = site_of(builder).setting("upload_directory", disk.display());
    let Some(_fpm) = fpm(&builder, 2) else { return };
    let server = builder.start();
    let pids = server.worker_pids();
    let mut late = silent_clients(&server, 1, "/huge.php").remove(0);
    server
        .log()
        .wait_for(0, "FastCGI: a response cannot be stored: No space left");
    assert_eq!(server.connect().get("/pid.php").status(), 200);
    assert_eq!(late.read_response().body.len(), 100_000_000);
    assert_eq!(server.connect().get("/own").text(), "own");
    assert_eq!(server.worker_pids(), pids, "no worker was replaced");
}
