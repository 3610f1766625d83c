//! HTTPS backends with certificates of a private authority that request a client certificate from
//! the edge.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use fermata_testkit::install::skipped;
use fermata_testkit::{Directory, command_path, free_port, wait_until};

use crate::own::Own;

const NGINX: &str = "/usr/sbin/nginx";

struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

fn openssl(folder: &Path, arguments: &str) -> bool {
    let mut command = Command::new("openssl");
    command.args(arguments.split(' ')).current_dir(folder);
    command.output().is_ok_and(|output| output.status.success())
}

/// Creates an authority and its certificates for a server and for the edge.
fn make_certificates(folder: &Directory) -> bool {
    folder.write("server.ext", "subjectAltName=DNS:localhost");
    folder.write("edge.ext", "extendedKeyUsage=clientAuth");
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    let of_authority = "-CA ca.crt -CAkey ca.key -CAcreateserial -days 2";
    let mut commands = vec![format!(
        "req -x509 {key} -days 2 -subj /CN=own -keyout ca.key -out ca.crt"
    )];
    for name in ["server", "edge"] {
        commands.push(format!(
            "req {key} -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ));
        commands.push(format!(
            "x509 -req -in {name}.csr {of_authority} -extfile {name}.ext -out {name}.crt"
        ));
    }
    commands
        .iter()
        .all(|command| openssl(folder.path(), command))
}

fn start_nginx(folder: &Directory, port: u16) -> Nginx {
    let path = folder.path().display();
    folder.write(
        "nginx.conf",
        format!(
            "daemon off; pid {path}/nginx.pid; error_log {path}/nginx.log; events {{}}
            http {{
                access_log off; client_body_temp_path {path}/body; proxy_temp_path {path}/proxy;
                fastcgi_temp_path {path}/fastcgi; uwsgi_temp_path {path}/uwsgi; scgi_temp_path {path}/scgi;
                server {{
                    listen 127.0.0.1:{port} ssl;
                    ssl_certificate {path}/server.crt; ssl_certificate_key {path}/server.key;
                    ssl_client_certificate {path}/ca.crt; ssl_verify_client on;
                    location / {{ return 200 $ssl_client_s_dn; }}
                }}
            }}"
        ),
    );
    let mut command = Command::new(NGINX);
    command.arg("-c").arg(folder.join("nginx.conf"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let nginx = Nginx(command.spawn().expect("it is there"));
    wait_until("nginx listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port))
            .ok()
            .map(drop)
    });
    nginx
}

#[test]
fn a_backend_of_a_private_authority_sees_who_asks() {
    let folder = Directory::new();
    if !Path::new(NGINX).exists() || !make_certificates(&folder) {
        return skipped("nginx or openssl is not installed");
    }
    let port = free_port();
    let _nginx = start_nginx(&folder, port);
    let path = |name: &str| folder.join(name).display().to_string();
    let target = format!("localhost:{port},ssl,trust_connect_host");
    let ca = format!("ca={}", path("ca.crt"));
    let own = format!(
        "client_cert={},client_key={}",
        path("edge.crt"),
        path("edge.key")
    );

    let edge = Own::start(&["--route", &format!("* {target},{ca},{own}")]);
    let answer = edge.get("/");
    assert_eq!((answer.status, answer.text()), (200, "CN=edge"));

    // One file may contain both certificate and key, and a setting names the authorities for all
    // routes.
    let both =
        ["edge.crt", "edge.key"].map(|name| std::fs::read_to_string(path(name)).expect("made"));
    folder.write("both.pem", both.concat());
    let route = format!("* {target},client_cert={}", path("both.pem"));
    let authorities = path("ca.crt");
    let edge = Own::start(&["--route", &route, "--origin-authorities", &authorities]);
    let answer = edge.get("/");
    assert_eq!((answer.status, answer.text()), (200, "CN=edge"));

    // The backend rejects clients without a certificate.
    let edge = Own::start(&["--route", &format!("* {target},{ca}")]);
    assert_eq!(edge.get("/").status, 400);
    // The system's authorities do not include the private authority.
    let edge = Own::start(&["--route", &format!("* {target},{own}")]);
    assert_eq!(edge.get("/").status, 502);
    edge.wait_for_log("certificate");
}

#[test]
fn files_that_cannot_be_used_are_named_at_the_start() {
    let folder = Directory::new();
    if !make_certificates(&folder) {
        return skipped("openssl is not installed");
    }
    let path = |name: &str| folder.join(name).display().to_string();
    folder.write("empty.pem", "");
    for (properties, name) in [
        (
            format!(
                "client_cert={},client_key={}",
                path("edge.crt"),
                path("server.key")
            ),
            "client_key",
        ),
        (format!("client_cert={}", path("empty.pem")), "client_cert"),
        (format!("client_key={}", path("edge.key")), "client_key"),
        (format!("ca={}", path("edge.key")), "ca"),
        (format!("ca={}", path("none.pem")), "ca"),
    ] {
        let mut command = Command::new(command_path());
        command.args(["edge", "--control=", "--listen", "127.0.0.1:0"]);
        command.args(["--route", &format!("* localhost:443,ssl,{properties}")]);
        let output = command.output().expect("our own program");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && text.contains(name),
            "{properties}: {text}"
        );
    }
}
