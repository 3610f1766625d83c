//! TLS with real clients: curl and OpenSSL.

mod clients;
mod faults;
mod handshakes;
mod reload;
mod start;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use fermata_testkit::{Builder, Server};
use fermata_tests::fixture;

/// Creates an authority and certificates: `certificate NAME SUBJECT SAN`.
const MAKE: &str = r#"
set -eu
umask 077
new="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
authority() {
    openssl req -x509 $new -keyout $1.key -out $1.pem -days 30 -subj /CN=$1 \
        -addext basicConstraints=critical,CA:TRUE
}
certificate() {
    openssl req -new $new -keyout $1.key -out $1.csr -subj "$2"
    printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\n' "$3" >$1.ext
    openssl x509 -req -in $1.csr -CA ${4:-ca}.pem -CAkey ${4:-ca}.key -CAcreateserial -days 30 -out $1.pem -extfile $1.ext
}
"#;

/// A server with its own certificates.
struct World {
    server: Server,
    address: SocketAddr,
}

/// Runs a script in the builder's directory, with the functions of [`MAKE`].
#[track_caller]
fn make(builder: &Builder, script: &str) {
    let output = Command::new("bash")
        .args(["-c", &format!("{MAKE}\n{script}")])
        .current_dir(builder.directory().path())
        .output()
        .expect("bash and openssl are there");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns an https server whose first certificate is for one.test, 127.0.0.1 and localhost.
fn secure() -> Builder {
    let builder = fixture("tls");
    make(
        &builder,
        "authority ca; certificate one /CN=one DNS:one.test,DNS:localhost,IP:127.0.0.1",
    );
    let path = |name: &str| builder.directory().join(name).display().to_string();
    let (certificate, key) = (path("one.pem"), path("one.key"));
    builder
        .setting("listen", "https://127.0.0.1:0")
        .setting("tls_certificate", certificate)
        .setting("tls_key", key)
}

impl World {
    #[track_caller]
    fn start(builder: Builder) -> World {
        let server = builder.start();
        let address = server.address();
        World { server, address }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.server.directory().join(name)
    }

    /// Runs `curl` with our authority and with `name` resolved to this server; the URL is
    /// `https://NAME/PATH`.
    fn curl(&self, name: &str, target: &str, arguments: &[&str]) -> Output {
        let port = self.address.port();
        Command::new("curl")
            .args(["-sS", "--max-time", "60", "--cacert"])
            .arg(self.path("ca.pem"))
            .args(["--resolve", &format!("{name}:{port}:127.0.0.1")])
            .args(arguments)
            .arg(format!("https://{name}:{port}{target}"))
            .current_dir(self.server.directory().path())
            .output()
            .expect("curl is there")
    }

    /// Returns curl's output.
    #[track_caller]
    fn get(&self, name: &str, target: &str, arguments: &[&str]) -> String {
        let output = self.curl(name, target, arguments);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("it answers in UTF-8")
    }

    /// Returns the output of `openssl s_client` while it sends `input`.
    fn openssl(&self, arguments: &[&str], input: &str) -> String {
        let mut child = Command::new("timeout")
            .args([
                "30",
                "openssl",
                "s_client",
                "-connect",
                &self.address.to_string(),
            ])
            .args(arguments)
            .current_dir(self.server.directory().path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("openssl is there");
        let mut stdin = child.stdin.take().expect("it was piped");
        // The process may have exited already.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        said
    }
}

/// A request after which the server closes.
const LAST_REQUEST: &str = "GET /who HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n";
