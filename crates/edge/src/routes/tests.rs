use proptest::prelude::*;

use crate::routes::{Effect, JsonpMode, Origin, Proto, Request, Routes, is_program};

fn read(text: &str) -> (Routes, Vec<String>) {
    let (routes, problems) = Routes::read(text, |path| match path {
        "there.pem" => Ok(()),
        _ => Err(std::io::Error::other("no such file")),
    });
    (routes, problems.iter().map(ToString::to_string).collect())
}

fn clean(text: &str) -> Routes {
    let (routes, problems) = read(text);
    assert_eq!(problems, [""; 0], "{text}");
    routes
}

fn line(routes: &Routes, host: &str, path: &str, proto: Proto, is_tls: bool) -> Option<usize> {
    let request = Request {
        host,
        path: path.as_bytes(),
        proto,
        is_tls,
    };
    routes.find(&request).map(|rule| rule.line)
}

#[test]
fn seed_001_sends_everything_to_port_80() {
    let routes = clean("* localhost:80\n");
    let rule = &routes.rules()[0];
    assert_eq!(
        rule.targets[0].origin,
        Origin::Host {
            host: "localhost".into(),
            port: 80
        }
    );
    assert!(rule.targets[0].is_trusted && !rule.targets[0].is_tls);
    assert_eq!(
        line(&routes, "any.example", "/stream.php", Proto::Http, false),
        Some(1)
    );
}

#[test]
fn every_property_is_read() {
    let routes = clean(concat!(
        r#"Example.com,proto=ws,ssl=yes,path_beg=/a/,id=x,sig_iss=i,sig_key=base64:eA==,prefix=p-,orig_headers,"#,
        r#"as_host=b.example,replace_beg=/b/,debug,aco,jsonp_mode=basic,jsonp_cb=cb,jsonp_body=body,jsonp_defcb=f,"#,
        r#"session,sockjs=/s,sockjs_as_path=/t,header=A:1,header="B: 2 ",header=C:,no_grip,log_level=3 "#,
        r#"a:1,ssl,untrusted,trust_connect_host,insecure,host=h,sub=c1,sub=c2,over_http,one_event,client_cert=there.pem,client_key=there.pem "#,
        r#"[::1]:2 unix//run/x fastcgi//run/php.sock fastcgi/127.0.0.1:9000 zhttp/ipc://z,ipc_file_mode=660 zhttpreq/tcp://z:1 test"#,
    ));
    let rule = &routes.rules()[0];
    assert_eq!(
        (rule.proto, rule.is_tls, rule.path_beg.as_str()),
        (Some(Proto::Ws), Some(true), "/a/")
    );
    assert_eq!(
        (
            rule.prefix.as_str(),
            rule.sig_iss.as_deref(),
            rule.sig_key.as_deref()
        ),
        ("p-", Some("i"), Some("base64:eA=="))
    );
    assert_eq!(
        (rule.jsonp.mode, rule.jsonp.default_method()),
        (JsonpMode::Basic, "POST")
    );
    let headers = [("A", "1"), ("B", "2 "), ("C", "")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(rule.headers, headers);
    assert!(
        rule.debug && rule.auto_cross_origin && rule.session && rule.no_grip && rule.orig_headers
    );
    assert_eq!(rule.log_level, Some(3));
    let first = &rule.targets[0];
    assert!(
        first.is_tls && !first.is_trusted && first.insecure && first.over_http && first.one_event
    );
    assert_eq!(first.subscriptions, ["c1", "c2"]);
    let origins: Vec<_> = rule.targets[1..]
        .iter()
        .map(|target| target.origin.clone())
        .collect();
    assert_eq!(
        origins,
        [
            Origin::Host {
                host: "::1".into(),
                port: 2
            },
            Origin::Unix("/run/x".into()),
            Origin::FastCgiUnix("/run/php.sock".into()),
            Origin::FastCgiHost {
                host: "127.0.0.1".into(),
                port: 9000
            },
            Origin::Zhttp("ipc://z".into()),
            Origin::ZhttpReq("tcp://z:1".into()),
            Origin::Test,
        ]
    );
    assert_eq!(rule.targets[5].ipc_file_mode, Some(0o660));
}

/// Every route property on the page about Pushpin's options is accepted.
#[test]
fn properties_of_the_page_are_read() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pushpin-options.md");
    let page = std::fs::read_to_string(page).expect("the page");
    // Each property accepts at least one of these values.
    const VALUES: [&str; 6] = ["", "=http", "=yes", "=basic", "=3", "=A:b"];
    let is_read = |line: &dyn Fn(&str) -> String| {
        let mut results = VALUES.iter().map(|value| read(&line(value)));
        results.any(|(routes, warnings)| routes.rules().len() == 1 && warnings.is_empty())
    };
    let names = |title: &str| -> Vec<String> {
        let (_, table) = page.split_once(&format!("## {title}\n")).expect(title);
        let rows = table.lines().take_while(|line| !line.starts_with("## "));
        let names = rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        names.map(str::to_owned).collect()
    };
    let conditions = names("Conditions of routes");
    assert!(conditions.len() > 20, "{conditions:?}");
    for name in conditions {
        let line = |value: &str| format!("a.example,{name}{value} b:1\n");
        assert!(is_read(&line), "{name}");
    }
    let targets = names("Targets of routes");
    assert!(targets.len() > 10, "{targets:?}");
    for name in targets {
        let line = |value: &str| match &name[..] {
            "HOST:PORT" => "* a:1\n".to_owned(),
            "test" => "* test\n".to_owned(),
            name if name.ends_with("/SPEC") => format!("* {}\n", name.replace("SPEC", "ipc://a")),
            "ipc_file_mode" => format!("* zhttp/ipc://a,{name}={}\n", "660"),
            "client_cert" => "* a:1,ssl,client_cert=there.pem,client_key=there.pem\n".to_owned(),
            "client_key" => "* a:1,ssl,client_key=there.pem,client_cert=there.pem\n".to_owned(),
            name => format!("* a:1,{name}{value}\n"),
        };
        assert!(is_read(&line), "{name}");
    }
}

#[test]
fn the_most_special_rule_is_taken() {
    let routes = clean(
        "\
        * a:1\n\
        *,path_beg=/api a:2\n\
        *,path_beg=/api/v1 a:3\n\
        *,proto=ws a:4\n\
        *,ssl=yes a:5\n\
        own.example,path_beg=/x a:6\n",
    );
    for (host, path, proto, is_tls, expected) in [
        ("any", "/", Proto::Http, false, Some(1)),
        ("any", "/apis", Proto::Http, false, Some(2)),
        ("any", "/api/v1/x", Proto::Http, false, Some(3)),
        // A rule with a protocol takes precedence over one with a longer path.
        ("any", "/api/v1/x", Proto::Ws, false, Some(4)),
        ("any", "/", Proto::Http, true, Some(5)),
        // As in Pushpin, TLS in a later line takes precedence over a longer path in an earlier
        // line.
        ("any", "/api", Proto::Http, true, Some(5)),
        ("OWN.example", "/x", Proto::Http, false, Some(6)),
        // No fallback to the routes for any host.
        ("own.example", "/y", Proto::Http, false, None),
    ] {
        assert_eq!(
            line(&routes, host, path, proto, is_tls),
            expected,
            "{host} {path} {proto:?} {is_tls}"
        );
    }
}

#[test]
fn rules_are_found_by_id_where_the_path_is_theirs() {
    let (routes, problems) = read("id=a,path_beg=/a x:1\n*,id=b x:2\nh,id=b x:3\n");
    assert_eq!(
        problems,
        [
            "routes, line 3: line 2 has the same id, so no request can name it; change one; the rest of the route counts"
        ]
    );
    assert_eq!(routes.find_id("a", b"/a/1").map(|rule| rule.line), Some(1));
    assert!(routes.find_id("a", b"/b").is_none() && routes.find_id("b", b"/").is_none());
    assert_eq!(line(&routes, "h", "/", Proto::Http, false), Some(3));
    assert_eq!(line(&routes, "other", "/a", Proto::Http, false), Some(2));
}

#[test]
fn paths_are_rewritten() {
    for (rule, path, expected) in [
        ("* a:1", "/x?y", "/x?y"),
        ("*,path_beg=/api,path_rem=4 a:1", "/api/x", "/x"),
        ("*,path_beg=/api,path_rem=4 a:1", "/api", "/"),
        ("*,path_beg=/api,replace_beg=/v2 a:1", "/api/x", "/v2/x"),
        ("*,path_beg=/api/,replace_beg=/ a:1", "/api/x", "/x"),
        ("*,path_rem=100 a:1", "/x", "/"),
        (
            "*,path_beg=/api,replace_beg=/v2 a:1",
            "/api/../api/x?../y",
            "/v2/x?../y",
        ),
        (
            "*,path_beg=/api,replace_beg=/v2 a:1",
            "/api/%2E./api//x",
            "/v2/x",
        ),
        (
            "*,path_beg=/api,replace_beg=/v2 a:1",
            "/api/.x//..y?/../",
            "/v2/.x//..y?/../",
        ),
        ("*,path_beg=/api a:1", "/api/../api/x", "/api/../api/x"),
    ] {
        let routes = clean(rule);
        assert_eq!(
            routes.rules()[0].backend_path(path.as_bytes()),
            expected.as_bytes(),
            "{rule} {path}"
        );
    }
}

#[test]
fn skips_a_wrong_line_and_reports_the_fix() {
    for (text, part) in [
        ("*", "a condition and a target"),
        ("debug=1 a:1", "a domain, * or id=NAME"),
        ("a:80 b:80", "\"a:80\" is no domain"),
        ("*.example b:80", "is no domain"),
        ("*,proto=ftp b:80", "give http or ws"),
        ("*,ssl b:80", "give yes or no"),
        ("*,path_rem=-1 b:80", "number of bytes"),
        ("*,header=x b:80", "NAME:VALUE"),
        ("*,header=:x b:80", "NAME:VALUE"),
        ("*,jsonp_mode=x b:80", "basic or extended"),
        ("*,log_level=9 b:80", "0 to 4"),
        ("* b", "\"b\" is no target"),
        ("* b:0", "is no target"),
        ("* b:65536", "is no target"),
        ("* ::1:80", "is no target"),
        ("* [::1:80", "is no target"),
        ("* zhttp/", "is no target"),
        ("* fastcgi/php", "is no target"),
        ("* a:1,ipc_file_mode=999", "octal"),
        (
            "* a:1,client_cert=gone.pem",
            "client_cert cannot be read: no such file",
        ),
        ("* \"a:1", "quote is not closed"),
        ("*,,x a:1", "remove a comma"),
    ] {
        let (routes, problems) = read(&format!("# first\nok b:80\n{text}\n"));
        assert_eq!(
            (routes.rules().len(), problems.len()),
            (1, 1),
            "{text}: {problems:?}"
        );
        assert!(
            problems[0].starts_with("routes, line 3: ") && problems[0].contains(part),
            "{text}: {problems:?}"
        );
    }
}

#[test]
fn duplicates_and_unknown_properties_are_reported() {
    let (routes, problems) =
        read("*,path_beg=/a a:1\n*,path_beg=/a a:2\n*,colour=red a:3,size=4\n");
    assert_eq!(routes.rules().len(), 2);
    assert!(
        problems[0].contains("line 2: line 1 has the same"),
        "{problems:?}"
    );
    assert!(
        problems[1].contains("\"colour\" is no property of a route; the rest"),
        "{problems:?}"
    );
    assert!(
        problems[2].contains("\"size\" is no property of a target"),
        "{problems:?}"
    );
}

#[test]
fn the_number_of_zhttp_targets_is_bounded() {
    let text: String = (0..102)
        .map(|n| format!("h{n} zhttp/ipc://{n}\n"))
        .collect();
    let (routes, problems) = read(&text);
    assert_eq!((routes.rules().len(), problems.len()), (100, 2));
}

#[test]
fn rules_have_names_for_logs() {
    let routes = clean("*,id=x a:1\nh,proto=ws,ssl=yes,path_beg=/p a:2\n*,ssl=no a:3\n");
    let labels: Vec<_> = routes.rules().iter().map(|rule| rule.label()).collect();
    assert_eq!(labels, ["x", "h,ws,yes,/p", "*,*,no,*"]);
}

proptest! {
    /// Whatever a file contains, each line is empty, a route or a problem, and only matching routes
    /// are found.
    #[test]
    fn any_file_is_read(text in r#"([*a:1=,# "\\\n]|path_beg=/|proto=ws|id=){0,40}"#) {
        let (routes, problems) = Routes::read(&text, |_| Ok(()));
        let ignored = problems.iter().filter(|problem| problem.effect == Effect::LineIgnored).count();
        prop_assert!(routes.rules().len() + ignored <= text.lines().count());
        let request = Request { host: "a", path: b"/", proto: Proto::Http, is_tls: false };
        if let Some(rule) = routes.find(&request) {
            prop_assert!(rule.proto != Some(Proto::Ws) && !rule.targets.is_empty());
            prop_assert!("/".starts_with(&rule.path_beg));
        }
    }
}

#[test]
fn programs_are_no_files() {
    for (name, expected) in [
        ("index.php", true),
        ("b.PHP", true),
        ("x.php7", true),
        ("x.phtml", true),
        ("x.php.gz", true),
        ("x.php~", true),
        ("x.inc.BAK", true),
        ("x.php.old.zst", true),
        ("php", false),
        ("~", false),
        ("index.php.txt", false),
        ("style.css.gz", false),
        ("style.css", false),
    ] {
        assert_eq!(is_program(name.as_bytes()), expected, "{name}");
    }
}

#[test]
fn a_program_is_no_index() {
    for name in ["index.php", "INDEX.PHP", "x.phtml", "index.php.gz"] {
        let (routes, problems) = Routes::read(&format!("* file//www,index={name}"), |_| Ok(()));
        assert!(routes.rules().is_empty(), "{name}");
        let problem = problems[0].to_string();
        assert!(
            problem.contains("index is") && problem.contains("script=/index.php"),
            "{problem}"
        );
    }
}

#[test]
fn a_path_takes_its_route_in_every_spelling() {
    let routes = clean("*,path_beg=/ws/ a:80\n* b:80\n*,path_beg=/%61dmin,replace_beg=/x c:80\n");
    let at = |path| line(&routes, "h", path, Proto::Http, false);
    for path in ["/ws/a", "/%77s/a", "//ws/a", "/x/../ws/a", "/%2e/ws//a"] {
        assert_eq!(at(path), Some(1), "{path}");
    }
    for path in ["/WS/a", "/w%2fs/a", "/"] {
        assert_eq!(at(path), Some(2), "{path}");
    }
    let rule = &routes.rules()[2];
    for path in [
        "/admin/a%20?b=//",
        "/%61dmin/a%20?b=//",
        "//admin/a%20?b=//",
    ] {
        assert_eq!(at(path.split('?').next().expect("a path")), Some(3));
        let backend = rule.backend_path(path.as_bytes());
        assert_eq!(String::from_utf8_lossy(&backend), "/x/a%20?b=//", "{path}");
    }
}

#[test]
fn a_host_takes_its_route_with_the_dot_that_ends_it() {
    let routes = clean("Admin.internal a:80\nother.internal. b:80\n* c:80\n");
    let at = |host| line(&routes, host, "/", Proto::Http, false);
    assert_eq!(
        (at("admin.internal."), at("ADMIN.internal")),
        (Some(1), Some(1))
    );
    assert_eq!(
        (at("other.internal."), at("other.internal")),
        (Some(2), Some(2))
    );
    assert_eq!(at("admin.internal.."), Some(3));
}
