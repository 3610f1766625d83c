//! The edge forwards interim responses of origins (RFC 9110, section 15.2).

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use fermata_testkit::install::{skipped, works};

use crate::own::Own;

/// An origin that sends `103 Early Hints` three times, then its response. It prints its port.
const ORIGIN: &str = r#"
const http = require(process.argv[1]);
const server = http.createServer((request, response) => {
    for (let i = 0; i < 3; i++) {
        response.writeEarlyHints({ link: `</${i}.css>; rel=preload` });
    }
    setTimeout(() => response.end('whole'), 50);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
"#;

/// An origin in Node, killed when dropped.
struct Origin(Child, u16);

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Origin {
    fn start(module: &str) -> Self {
        let mut child = Command::new("node")
            .args(["-e", ORIGIN, module])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was tried before");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("its port");
        let port = line.trim().parse().expect("a port");
        Self(child, port)
    }
}

fn heads(own: &Own, version: &str) -> Vec<String> {
    let output = Command::new("curl")
        .args(["-sS", "-i", "--max-time", "60", version])
        .arg(format!("http://127.0.0.1:{}/", own.port))
        .output()
        .expect("curl is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.ends_with("whole"), "{text}");
    text.lines()
        .filter(|line| line.starts_with("HTTP/") || line.to_ascii_lowercase().starts_with("link:"))
        .map(|line| line.trim().to_ascii_lowercase())
        .collect()
}

#[test]
fn early_hints_pass_from_origins_of_both_versions_to_clients_of_both() {
    if !works("node", &["--version"]) {
        return skipped("node is not installed");
    }
    for (module, property) in [("node:http", ""), ("node:http2", ",http2")] {
        let origin = Origin::start(module);
        let own = Own::start(&["--route", &format!("* 127.0.0.1:{}{property}", origin.1)]);
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let heads = heads(&own, version);
            let hints = heads.iter().filter(|line| line.contains(" 103")).count();
            let links = heads.iter().filter(|line| line.contains("rel=preload"));
            assert_eq!(
                (hints, links.count()),
                (3, 3),
                "{module} {version} {heads:?}"
            );
        }
        // HTTP/1.0 clients would interpret an interim response as the final one.
        let heads = heads(&own, "--http1.0");
        assert_eq!(heads.len(), 1, "{module} {heads:?}");
    }
}
