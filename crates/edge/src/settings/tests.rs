use fermata_testkit::sentences;
use proptest::prelude::*;

use super::*;

fn pushpin(text: &str) -> Result<(Settings, Vec<String>), String> {
    let mut settings = Settings::default();
    let notices =
        read_pushpin(&mut settings, "pushpin.conf", text).map_err(|error| error.to_string())?;
    Ok((settings, notices.iter().map(ToString::to_string).collect()))
}

#[test]
fn the_table_is_consistent() {
    let mut settings = Settings::default();
    for (at, setting) in table().iter().enumerate() {
        assert!(
            table()[..at].iter().all(|other| other.name != setting.name),
            "{} twice",
            setting.name
        );
        assert!(setting.doc.ends_with('.'), "{}", setting.name);
        let text = settings.text(setting.name);
        let values = setting.kind.split(&text).into_iter().map(str::to_owned);
        let values: Vec<String> = values.collect();
        let set = settings.set(Place::Option, setting.name, &values);
        assert_eq!(set, Ok(()), "{}", setting.name);
    }
    assert_eq!(settings, Settings::default());
}

#[test]
fn the_configuration_of_seed_001_is_read() {
    let (settings, notices) = pushpin("\
        [global]\ninclude={libdir}/internal.conf\nrundir=/run/pushpin\nipc_prefix=pushpin-\nport_offset=0\nstats_connection_ttl=600\n\
        [runner]\n# services\nservices=condure,zurl,pushpin-proxy,pushpin-handler\nhttp_port=8000,8001,127.0.0.1:8002\n\
        client_buffer_size=4096\nclient_maxconn=1001000\n\
        [proxy]\nroutesfile=routes\nsig_key=changeme\nx_forwarded_for=\n\
        [handler]\npush_in_spec=tcp://127.0.0.1:5560\npush_in_http_addr=127.0.0.1\npush_in_http_port=5571\n\
        stats_spec=ipc://{rundir}/{ipc_prefix}stats\nmessage_rate=2500\nid_cache_ttl=30\nprometheus_port=9000\n").expect("valid");
    assert_eq!(
        settings.listen,
        ["0.0.0.0:8000", "0.0.0.0:8001", "127.0.0.1:8002"]
    );
    assert_eq!(
        (settings.connections_max, settings.header_bytes_max),
        (1_001_000, 4_096)
    );
    assert_eq!(
        (settings.stats_connection_ttl_ms, settings.id_cache_ttl_ms),
        (600_000, 30_000)
    );
    assert_eq!(&settings.control, "127.0.0.1:5571");
    assert_eq!(&settings.zmq_stats, "ipc:///run/pushpin/pushpin-stats");
    assert_eq!(&settings.prometheus, "0.0.0.0:9000");
    assert_eq!(notices.len(), 3, "{notices:?}");
    assert_eq!(
        notices[0],
        "pushpin.conf, line 2: global.include has no effect: sockets between processes do not exist here"
    );
}

#[test]
fn what_has_no_counterpart_is_noticed() {
    let (_, notices) =
        pushpin("[runner]\nzurl_bin=/x\n[handler]\nipc_file_mode=777\nnew_key=1\n").expect("valid");
    for (notice, part) in notices
        .iter()
        .zip(["no other programs", "umask", "not known"])
    {
        assert!(notice.contains(part), "{notice}");
    }
    assert_eq!(notices.len(), 3);
}

/// The page about Pushpin's options lists the setting of each key. The parser has to map the keys identically.
#[test]
fn keys_are_the_settings_that_their_page_names() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pushpin-options.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, keys) = page.split_once("## Keys of pushpin.conf").expect("keys");
    let (keys, _) = keys.split_once("\n## ").expect("more behind them");
    let quoted = |cell: &str| -> Vec<String> {
        let parts = cell.split('`').skip(1).step_by(2);
        parts.map(str::to_owned).collect()
    };
    const VALUES: [&str; 5] = ["300", "3", "true", "false", "json"];
    let unchanged = pushpin("").expect("an empty file").0;
    let mut named = Vec::new();
    for row in keys.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        for key in quoted(cells[0]) {
            let (section, name) = key.split_once('.').expect("SECTION.KEY");
            // Values of every kind; at least one valid value differs from the default.
            let read = |value: &&str| {
                let mut settings = Settings::default();
                let text = format!("[{section}]\n{name}={value}\n");
                let notices = read_pushpin(&mut settings, "pushpin.conf", &text).ok()?;
                Some((settings, notices.len()))
            };
            let mut results = VALUES.iter().filter_map(read).peekable();
            let has_notice = results.peek().expect(&key).1 == 1;
            assert_eq!(has_notice, cells[1].trim() == "none", "{row}");
            if has_notice || cells[1].contains("read for") {
                continue;
            }
            let setting = quoted(cells[1]).swap_remove(0);
            let default = declared().find(&setting).expect(row);
            let default = default.1.kind.split(default.1.default);
            let default: Vec<String> = default.into_iter().map(str::to_owned).collect();
            let is_that = results.any(|(mut settings, _)| {
                let is_changed = settings != unchanged;
                let set = settings.set(Place::Option, &setting, &default);
                is_changed && set.is_ok() && settings == unchanged
            });
            assert!(is_that, "{key} is not {setting}");
            named.push(setting);
        }
    }
    // Every setting is listed.
    for setting in table() {
        let is_named = named.iter().any(|name| name == setting.name);
        assert!(is_named || setting.alias.is_none(), "{}", setting.name);
    }
}

#[test]
fn sources_overrule_each_other_in_their_order() {
    let mut settings = Settings::default();
    assert_eq!(settings.message_wait_ms, 5_000);
    read_toml(
        &mut settings,
        "edge.toml",
        "message_wait_ms = 1\ndebug = true\nlisten = [\"a:1\", \"b:2\"]\nzmq_pull = \"tcp://*:1\"",
    )
    .expect("valid");
    assert_eq!((settings.message_wait_ms, settings.debug), (1, true));
    assert_eq!(settings.listen, ["a:1", "b:2"]);
    let variables = [
        ("FERMATA_EDGE_MESSAGE_WAIT_MS", "2"),
        ("FERMATA_EDGE_LISTEN", "c:3 d:4"),
        ("OTHER", "x"),
    ];
    settings
        .set_environment(variables.map(|(name, value)| (name.to_owned(), value.to_owned())))
        .expect("valid");
    assert_eq!(settings.listen, ["c:3", "d:4"]);
    settings
        .set(Place::Option, "message_wait_ms", &["3".to_owned()])
        .expect("valid");
    assert_eq!(settings.message_wait_ms, 3);
}

#[test]
fn what_has_no_meaning_names_place_and_fix() {
    let toml = |text: &str| {
        read_toml(&mut Settings::default(), "edge.toml", text)
            .expect_err(text)
            .to_string()
    };
    for (text, parts) in [
        (
            "lisen = \"a\"",
            [
                "edge.toml: \"lisen\" is not a setting",
                "did you mean listen?",
            ],
        ),
        (
            "handlers_max = 7",
            ["edge.toml: handlers_max is", "servers in PHP alone"],
        ),
        (
            "upload_bytes_max = 7",
            ["edge.toml: upload_bytes_max is", "servers in PHP alone"],
        ),
        (
            "message_rate = -1",
            [
                "edge.toml: message_rate is \"-1\"",
                "negative; give a number from 0 to",
            ],
        ),
        ("workers = 65", ["workers", "from 1 to 64"]),
        ("debug = 1", ["debug is \"1\"", "true or false"]),
        (
            "stats_format = \"xml\"",
            ["stats_format is \"xml\"", "tnetstring or json"],
        ),
        (
            "control = [\"a\", \"b\"]",
            ["control is \"a b\"", "no single value"],
        ),
        ("debug = {}", ["debug", "neither text nor number"]),
        ("listen = [[1]]", ["listen", "neither text nor number"]),
        ("debug", ["edge.toml", ""]),
        ("sig_key = \"a\\nb\"", ["sig_key is not shown", "one line"]),
    ] {
        let error = toml(text);
        assert!(
            parts.iter().all(|part| error.contains(part)),
            "{text}: {error}"
        );
    }
    for (text, part) in [
        ("[runner", "line 1: a section ends with ]"),
        ("[proxy]\nworkers", "line 2: neither"),
        ("[proxy]\nworkers=many", "line 2: workers is \"many\""),
        ("[proxy]\ndebug=maybe", "true or false"),
    ] {
        let error = pushpin(text).expect_err(text);
        assert!(error.contains(part), "{text}: {error}");
    }
    let mut settings = Settings::default();
    let error = settings
        .set_environment([("FERMATA_EDGE_LISTENN".to_owned(), "x".to_owned())])
        .expect_err("unknown");
    assert!(
        error.to_string().contains("FERMATA_EDGE_LISTENN"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn any_file_is_read_or_refused(text in r#"([\[\]=#;a"\n,{}1]|runner|http_port|rundir){0,30}"#) {
        let _ = pushpin(&text);
        let _ = read_toml(&mut Settings::default(), "x", &text);
    }
}

#[test]
fn messages_name_settings_that_exist() {
    // Names in routes, on the SockJS iframe page, and in environments.
    const OTHERS: [&str; 13] = [
        // HTTP/2 frames and error codes.
        "RST_STREAM",
        "WINDOW_UPDATE",
        "PRIORITY_UPDATE",
        "ENHANCE_YOUR_CALM",
        "over_http",
        "no_grip",
        "path_beg",
        "client_cert",
        "fail_over",
        "round_robin",
        "least_requests",
        "bootstrap_iframe",
        "GRIP_URL",
    ];
    let is_name =
        |word: &&str| word.trim_matches('_').contains('_') && !word.starts_with("FERMATA_");
    let mut folders = vec![std::path::PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src"
    ))];
    let (mut named, mut unknown) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.ends_with("tests.rs") {
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("a source file");
            for sentence in sentences(&source) {
                let words = sentence.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
                for word in words.filter(|it| is_name(it)) {
                    match table().iter().any(|setting| setting.name == word) {
                        true => named += 1,
                        false if OTHERS.contains(&word) => {}
                        false => unknown.push(format!("{}: {word}: {sentence}", path.display())),
                    }
                }
            }
        }
    }
    assert_eq!(unknown, Vec::<String>::new());
    assert!(named > 30, "{named}");
}

/// Engine settings that appear in messages, but are not settings of the edge. Contains the source file, the setting, and the reason
/// why the edge never prints the message.
const SAID_TO_OTHERS: &[(&str, &str, &str)] = &[
    (
        "engine/admin/control.rs",
        "test_clock",
        "the control socket, which the edge has none of",
    ),
    (
        "edge/server/start.rs",
        "tls_certificate",
        "the edge tells the engine",
    ),
    (
        "edge/server/start.rs",
        "tls_key",
        "the edge tells the engine",
    ),
    (
        "edge/server/start.rs",
        "metrics_listen",
        "the edge tells the engine, and says prometheus",
    ),
    (
        "edge/server/start.rs",
        "queue_bytes_max",
        "the edge tells the engine",
    ),
    (
        "edge/server/start.rs",
        "gather_ms_max",
        "the edge tells the engine",
    ),
    (
        "edge/server/start.rs",
        "cluster_prefix",
        "the edge tells the engine, unless the environment does",
    ),
    (
        "engine/admin/stats/table.rs",
        "connections_per_address_max",
        "a label; it is 0 in the edge",
    ),
    (
        "engine/admin/stats/table.rs",
        "members_max",
        "a label; the edge has no members",
    ),
    (
        "engine/admin/stats/table.rs",
        "members_per_channel_max",
        "a label; the edge has no members",
    ),
    (
        "engine/admin/stats/table.rs",
        "members_per_address_max",
        "a label; the edge has no members",
    ),
    (
        "engine/net/accept.rs",
        "connections_per_address_max",
        "it is 0 in the edge",
    ),
    ("hub/layout.rs", "members_max", "the edge has no members"),
    (
        "tls/server.rs",
        "tls_certificate",
        "the edge has the engine say tls_certificates",
    ),
    (
        "tls/server.rs",
        "tls_key",
        "the edge has the engine say tls_certificates",
    ),
    (
        "tls/server.rs",
        "tls_version_min",
        "the edge takes the default",
    ),
    (
        "tls/server.rs",
        "tls_client_ca",
        "the edge asks clients for no certificates",
    ),
    (
        "engine/admin/blocking.rs",
        "blocking_call_ms",
        "handlers of PHP",
    ),
    (
        "engine/admin/stats/table.rs",
        "blocking_call_ms",
        "figures of handlers of PHP",
    ),
    (
        "engine/admin/stats/table.rs",
        "fibers_max",
        "figures of handlers of PHP",
    ),
    (
        "engine/admin/stats/table.rs",
        "grip_url",
        "figures of a server behind an edge",
    ),
    (
        "engine/admin/stats/table.rs",
        "metrics_listen",
        "figures of a server's administration",
    ),
    (
        "engine/admin/stats/table.rs",
        "streams_per_address_max",
        "figures of HTTP/2, whose settings the edge takes from the environment",
    ),
    (
        "engine/net/http2/mod.rs",
        "streams_per_address_max",
        "as above",
    ),
    (
        "engine/admin/stats/table.rs",
        "proxy_headers",
        "figures of a server behind a proxy",
    ),
    (
        "engine/admin/otlp/",
        "otlp_endpoint",
        "the edge takes it from the environment, as FERMATA_OTLP_ENDPOINT",
    ),
    (
        "engine/admin/trace/",
        "access_log",
        "the edge has log_requests",
    ),
    (
        "engine/channels/cluster/",
        "",
        "the edge takes them from the environment, as FERMATA_CLUSTER",
    ),
    (
        "engine/misuse.rs",
        "channels_per_hold_max",
        "what a program of PHP does wrong; the edge has subscriptions_max",
    ),
    (
        "engine/channels/memory.rs",
        "history_path",
        "the edge keeps no file",
    ),
    ("engine/embed/file_jobs.rs", "", "the edge has no such work"),
    ("engine/http/body/form.rs", "", "the edge passes forms on"),
    (
        "engine/http/forwarded.rs",
        "proxy_headers",
        "the edge has x_forwarded_for",
    ),
    (
        "engine/master/error.rs",
        "metrics_listen",
        "the edge says prometheus",
    ),
    (
        "engine/net/listen_error.rs",
        "trusted_proxies",
        "the edge knows no such addresses",
    ),
    (
        "engine/net/preface.rs",
        "trusted_proxies",
        "the edge knows no such addresses",
    ),
    (
        "engine/net/preface.rs",
        "connections_per_address_max",
        "it is 0 in the edge",
    ),
    (
        "engine/net/tls.rs",
        "tls_development",
        "the edge has no such mode",
    ),
    (
        "engine/embed/defer.rs",
        "fibers_max",
        "the edge has no fibers",
    ),
    ("hub/presence.rs", "", "the edge has no members"),
    ("hub/ring.rs", "members_max", "the edge keeps no file"),
    (
        "io/files/failure.rs",
        "file_read_bytes_max",
        "the edge has no such work",
    ),
];

/// Returns the string literals of a Rust file, except those of its tests.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod ").next();
    let mut chars = source.unwrap_or_default().chars().peekable();
    let mut literals = Vec::new();
    while let Some(char) = chars.next() {
        match char {
            '/' if chars.peek() == Some(&'/') => {
                chars.by_ref().find(|it| *it == '\n');
            }
            '\'' if chars.peek() == Some(&'"') => {
                chars.next();
            }
            '"' => {
                let mut text = String::new();
                while let Some(char) = chars.next().filter(|it| *it != '"') {
                    text.push(char);
                    if char == '\\' {
                        text.extend(chars.next());
                    }
                }
                literals.push(text);
            }
            _ => {}
        }
    }
    literals
}

fn sources(folder: &std::path::Path, into: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let is_for_tests = path.file_stem().is_some_and(|name| name == "tests");
        if path.is_dir() && !is_for_tests {
            sources(&path, into);
        } else if path.extension().is_some_and(|it| it == "rs") && !is_for_tests {
            into.push(path);
        }
    }
}

/// A message of the engine or the edge may only name settings that users of the edge can set.
#[test]
fn messages_name_only_settings_that_exist() {
    let of_engine: Vec<&str> = fermata_config::table().iter().map(|it| it.name).collect();
    let is_ours = |name: &str| table().iter().any(|it| it.name == name);
    let crates = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut unknown = Vec::new();
    let mut unused: Vec<_> = SAID_TO_OTHERS.to_vec();
    for name in ["edge", "engine", "hub", "io", "proto", "tls"] {
        let root = crates.join(name).join("src");
        let mut paths = Vec::new();
        sources(&root, &mut paths);
        for path in paths {
            let text = std::fs::read_to_string(&path).expect("a source");
            let place = path.strip_prefix(&root).expect("below it");
            let place = format!("{name}/{}", place.display());
            for literal in literals(&text) {
                let is_part = |it: char| !it.is_ascii_alphanumeric() && it != '_';
                // Also a name alone, which may become part of a formatted message.
                let words = literal.split(is_part);
                for word in words.filter(|word| word.contains('_')) {
                    if !of_engine.contains(&word) || is_ours(word) {
                        continue;
                    }
                    let is_that = |it: &&(&str, &str, &str)| {
                        place.starts_with(it.0) && (it.1.is_empty() || it.1 == word)
                    };
                    if SAID_TO_OTHERS.iter().any(|it| is_that(&it)) {
                        unused.retain(|it| !is_that(&it))
                    } else {
                        unknown.push(format!("{place}: {word}: {literal:?}"))
                    }
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(unused.is_empty(), "nobody says them any more: {unused:#?}");
}
