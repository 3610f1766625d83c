//! Headers of a client as applications behind the edge receive them: PHP under FPM and under its own server, and Python's WSGI.
//! Each maps header names to variables differently, so the test sends the stripped headers in every spelling.

use std::process::{Command, Stdio};

use fermata_testkit::install::{skipped, works};
use fermata_testkit::{Directory, free_port, wait_until};

use crate::client::Client;
use crate::components::Running;
use crate::origin::{Origin, ok};
use crate::own::Own;
use crate::php_fpm;

const PHP: &str = "<?php echo json_encode(array_filter($_SERVER, fn ($name) => str_starts_with($name, 'HTTP_'), ARRAY_FILTER_USE_KEY));\n";

const PYTHON: &str = "\
import json, sys
from wsgiref.simple_server import make_server
def app(environ, start_response):
    start_response('200 OK', [('Content-Type', 'application/json')])
    found = {name: value for name, value in environ.items() if name.startswith('HTTP_')}
    return [json.dumps(found).encode()]
make_server('127.0.0.1', int(sys.argv[1]), app).serve_forever()
";

/// Headers that clients cannot set.
const NAMES: [&str; 14] = [
    "Grip-Sig",
    "Grip-Feature",
    "Grip-Last",
    "Grip-Session-Id",
    "Meta-User",
    "Connection-Id",
    "Content-Bytes-Replayed",
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Forwarded-Proto",
    "X-Real-IP",
    "Proxy",
];
const FORGED: &str = "forged";

/// Returns a name, and the spellings that applications map to the same variable.
fn spellings(name: &str) -> [String; 4] {
    let mut is_first = false;
    let mixed = name.chars().map(|c| match c {
        '-' => {
            is_first = !is_first;
            if is_first { '_' } else { '-' }
        }
        c => c,
    });
    [
        name.to_owned(),
        name.replace('-', "_"),
        name.to_ascii_uppercase().replace('-', "_"),
        mixed.collect(),
    ]
}

/// Returns the headers that the application of this host received.
fn asked(port: u16, host: &str, headers: &[(&str, &str)]) -> serde_json::Value {
    let path = if host == "fpm.test" { "/echo.php" } else { "/" };
    let answer = Client::open(port, host).request("GET", path, headers, b"");
    assert_eq!(answer.status, 200, "{host}");
    serde_json::from_str(answer.text()).expect("JSON")
}

#[test]
fn programs_hear_of_a_client_what_the_edge_says() {
    let folder = Directory::new();
    let Some(_fpm) = php_fpm::start(&folder) else {
        return skipped("php-fpm is not installed");
    };
    if !works("python3", &["--version"]) || !works("php", &["--version"]) {
        return skipped("python3 or php is not installed");
    }
    folder.write("echo.php", PHP);
    folder.write("index.php", PHP);
    folder.write("app.py", PYTHON);
    let (python, php, name) = (
        free_port(),
        free_port(),
        folder.path().display().to_string(),
    );
    let mut running = Running::default();
    let mut command = Command::new("python3");
    command.arg(folder.join("app.py")).arg(python.to_string());
    running.start(&mut command, &folder.join("python.out"));
    let mut command = Command::new("php");
    command.args(["-n", "-S", &format!("127.0.0.1:{php}"), "-t", &name]);
    command.stdin(Stdio::null());
    running.start(&mut command, &folder.join("php.out"));
    for port in [python, php] {
        wait_until("a program listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
    }
    let routes = [
        format!("fpm.test,over_http fastcgi/{name}/fpm.sock,root={name}"),
        format!("php.test 127.0.0.1:{php},over_http"),
        format!("python.test 127.0.0.1:{python},over_http"),
    ];
    folder.write(
        "routes",
        routes.join("\n").replace(",over_http fastcgi", " fastcgi"),
    );
    let own = Own::start_in(folder, &["--sig-key", "secret"]);
    for host in ["fpm.test", "php.test", "python.test"] {
        for name in NAMES {
            // The edge strips `Meta-*` only from clients whose WebSocket it forwards as requests.
            if host == "fpm.test"
                && ["Meta-User", "Connection-Id", "Content-Bytes-Replayed"].contains(&name)
            {
                continue;
            }
            for name in spellings(name) {
                let got = asked(own.port, host, &[(&name, FORGED), ("X-Own", "kept")]);
                assert!(!got.to_string().contains(FORGED), "{host}, {name}: {got}");
                assert_eq!(got["HTTP_X_OWN"], "kept", "{host}");
                assert_eq!(got["HTTP_X_FORWARDED_FOR"], "127.0.0.1", "{host}");
                assert!(got["HTTP_GRIP_SIG"].is_string(), "{host}");
            }
        }
    }
}

/// Starts a backend that returns the value of one header.
fn telling(name: &'static str) -> Origin {
    let origin = Origin::start();
    origin.on("x", move |request| {
        ok(
            &[],
            request.header(name).unwrap_or_else(|| "none".to_owned()),
        )
    });
    origin
}

#[test]
fn a_proxy_in_front_is_believed_where_a_setting_says_so() {
    let origin = telling("x-forwarded-host");
    let route = format!("* 127.0.0.1:{}", origin.port());
    for (setting, expected) in [("false", "none"), ("true", "shop.example")] {
        let own = Own::start(&["--route", &route, "--accept-forwarded", setting]);
        for (name, expected) in [("X-Forwarded-Host", expected), ("X_Forwarded_Host", "none")] {
            let headers = [(name, "shop.example")];
            let answer = own.client().request("GET", "/x", &headers, b"");
            assert_eq!(answer.text(), expected, "{setting} {name}");
        }
    }
}

#[test]
fn every_request_names_one_host() {
    let origin = telling("host");
    let port = origin.port();
    let routes = [
        format!("* 127.0.0.1:{port}"),
        format!("own.test,header=Host:other.test 127.0.0.1:{port}"),
        format!(
            "own-zhttp.test,header=host:other.test,as_host=c.test 127.0.0.1:{port},host=d.test"
        ),
    ];
    let arguments: Vec<&str> = routes.iter().flat_map(|it| ["--route", it]).collect();
    let own = Own::start(&arguments);
    for (host, expected) in [
        ("a.test", "a.test"),
        ("own.test", "other.test"),
        ("own-zhttp.test", "d.test"),
    ] {
        let answer = Client::open(own.port, host).get("/x");
        assert_eq!(answer.text(), expected, "{host}");
    }
    let mut client = own.client();
    client.raw(b"GET /x HTTP/1.0\r\n\r\n");
    assert_eq!(
        client.read_answer(false).text(),
        format!("127.0.0.1:{port}")
    );
}
