//! Targets that are folders of files.

use fermata_testkit::Directory;

use crate::client::Client;
use crate::origin::{Origin, text};
use crate::own::Own;

const PAGE: &str = "<!doctype html>\n<title>page</title>\n";

/// Creates a folder with a file in it, and one file next to it.
fn folder() -> Directory {
    let folder = Directory::new();
    for name in ["site", "site/sub", "site/.git"] {
        std::fs::create_dir(folder.join(name)).expect("a folder");
    }
    folder.write("site/page.html", PAGE);
    folder.write("site/page.html.br", "packed");
    folder.write("site/index.html", "the index");
    folder.write("site/sub/index.html", "the index of sub");
    for name in ["index.php", "index.php.br", "index.php~", "old.inc.bak"] {
        folder.write(&format!("site/{name}"), "<?php secret();");
    }
    folder.write("site/.git/config", "hidden");
    folder.write("secret.txt", "secret");
    std::os::unix::fs::symlink("../secret.txt", folder.join("site/link.txt")).expect("a link");
    folder
}

#[test]
fn files_are_served_with_all_that_belongs_to_them() {
    let folder = folder();
    let site = folder.join("site").display().to_string();
    let routes = [
        format!("* file/{site},cache=60"),
        format!("*,path_beg=/static/,replace_beg=/ file/{site},index="),
    ];
    let own = Own::start(&["--route", &routes[0], "--route", &routes[1]]);
    let page = own.get("/page.html");
    assert_eq!((page.status, page.text()), (200, PAGE));
    assert_eq!(
        page.header("content-type").as_deref(),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(
        page.header("cache-control").as_deref(),
        Some("public, max-age=60")
    );
    let etag = page.header("etag").expect("a tag");
    let ask = |method: &str, target: &str, headers: &[(&str, &str)]| {
        own.client().request(method, target, headers, b"")
    };
    let again = ask("GET", "/page.html", &[("If-None-Match", &etag)]);
    assert_eq!((again.status, again.text()), (304, ""));
    let part = ask("GET", "/page.html", &[("Range", "bytes=2-8")]);
    assert_eq!((part.status, part.text()), (206, "doctype"));
    let packed = ask("GET", "/page.html", &[("Accept-Encoding", "gzip, br")]);
    assert_eq!(packed.header("content-encoding").as_deref(), Some("br"));
    assert_eq!(packed.text(), "packed");
    let head = ask("HEAD", "/page.html", &[]);
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some(PAGE.len().to_string()));
    assert_eq!(own.get("/").text(), "the index");
    assert_eq!(own.get("/sub/").text(), "the index of sub");
    let moved = own.get("/sub?q=1");
    assert_eq!(moved.status, 308);
    assert_eq!(moved.header("location").as_deref(), Some("/sub/?q=1"));
    let linked = Own::start(&["--route", &format!("* file/{site},links")]);
    assert_eq!(linked.get("/link.txt").text(), "secret");
    assert_eq!(linked.get("/../secret.txt").status, 400);
    for (target, status) in [
        ("/none", 404),
        ("/index.php", 404),
        ("/index.php.br", 404),
        ("/index.php~", 404),
        ("/old.inc.bak", 404),
        ("/link.txt", 404),
        ("/.git/config", 404),
        ("/sub%2fpage.html", 404),
        ("/static/page.html", 200),
        ("/static/", 404),
    ] {
        assert_eq!(own.get(target).status, status, "{target}");
    }
    for target in [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/sub/..%2f..%2fsecret.txt",
    ] {
        assert_eq!(ask("GET", target, &[]).status, 400, "{target}");
    }
    let posted = ask("POST", "/page.html", &[]);
    assert_eq!(posted.status, 405);
    assert_eq!(posted.header("allow").as_deref(), Some("GET, HEAD"));
}

#[test]
fn what_is_no_file_is_for_the_next_target() {
    let (folder, origin) = (folder(), Origin::start());
    for name in ["none", "index.php", "page.html", "sub"] {
        origin.on(name, |request| {
            text(&format!("{} of the program", request.method))
        });
    }
    let site = folder.join("site").display().to_string();
    let route = format!("* file/{site} 127.0.0.1:{}", origin.port());
    let own = Own::start(&["--route", &route]);
    assert_eq!(own.get("/page.html").text(), PAGE);
    for path in ["/none", "/index.php", "/sub/none"] {
        assert_eq!(own.get(path).text(), "GET of the program", "{path}");
    }
    let posted = own.client().request("POST", "/page.html", &[], b"body");
    assert_eq!(posted.text(), "POST of the program");
    // A missing file does not mark the folder as down.
    let metric = format!("fermata_edge_target_up{{route=\"*,*,*,*\",target=\"file/{site}\"}}");
    assert_eq!(own.figure(&metric), Some(1));
}

#[test]
fn a_script_is_no_file() {
    let (folder, origin) = (folder(), Origin::start());
    origin.on("page.html", |_| text("of the program"));
    let site = folder.join("site").display().to_string();
    let routes = [
        format!("*,aco,jsonp_cb=cb file/{site} 127.0.0.1:{}", origin.port()),
        format!("alone.test,aco,jsonp_cb=cb file/{site}"),
    ];
    let own = Own::start(&["--route", &routes[0], "--route", &routes[1]]);
    assert_eq!(own.get("/page.html").text(), PAGE);
    for (host, expected) in [("localhost", "of the program"), ("alone.test", "JSON-P")] {
        let script = Client::open(own.port, host).get("/page.html?cb=f");
        let text = script.text();
        assert!(text.contains("f(") && text.contains(expected), "{text}");
    }
}

#[test]
fn a_folder_that_is_not_there_is_told() {
    let folder = Directory::new();
    folder.write(
        "routes",
        "a.test file//nowhere/at/all\nb.test file/relative\n* test\n",
    );
    let own = Own::start_in(folder, &["--routes", "routes"]);
    own.wait_for_log("file cannot be read");
    own.wait_for_log("is no target");
}
