//! Invalid files and settings, and the development certificate.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use fermata_tests::fixture;

use crate::{make, secure};

#[test]
fn what_is_wrong_is_named_with_its_setting_and_its_cure() {
    let missing = "/nonexistent/certificate.pem";
    for (setting, value, words) in [
        (
            "tls_certificate",
            missing,
            ["tls_certificate: ", "no such file"],
        ),
        ("tls_key", missing, ["tls_key: ", "no such file"]),
        (
            "tls_key",
            "",
            ["tls_certificate is 1 files", "one key for each"],
        ),
        (
            "tls_client_ca",
            missing,
            ["tls_client_ca: ", "no such file"],
        ),
        (
            "tls_version_min",
            "1.1",
            ["FERMATA_TLS_VERSION_MIN", "1.2 or 1.3"],
        ),
    ] {
        let refused = secure().setting(setting, value).start_refused();
        assert!(!refused.status.success(), "{setting}={value}");
        for word in words {
            refused.log.wait_for(0, word);
        }
    }
    let builder = secure();
    make(&builder, "certificate other /CN=other DNS:other.test");
    let other = builder.directory().join("other.key").display().to_string();
    let refused = builder.setting("tls_key", other).start_refused();
    refused.log.wait_for(0, "their public keys differ");
    let refused = fixture("tls")
        .setting("listen", "https://127.0.0.1:0")
        .start_refused();
    refused.log.wait_for(0, "https needs a certificate");
    let refused = secure()
        .setting("listen", "http://127.0.0.1:0")
        .start_refused();
    assert!(!refused.status.success());
    refused.log.wait_for(0, "without an https address");
}

#[test]
fn a_key_that_everybody_reads_is_a_warning() {
    let builder = secure();
    let key = builder.directory().join("one.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("ours");
    let server = builder.start();
    server
        .log()
        .wait_for(0, "every user of this machine can read");
}

#[test]
fn one_option_makes_a_certificate_for_localhost() {
    let builder = fixture("tls")
        .setting("listen", "https://127.0.0.1:0")
        .setting("tls_development", "on");
    let home = builder.directory().path().to_owned();
    let builder = builder.env("XDG_DATA_HOME", &home);
    for words in [
        "made a development certificate",
        "using the development certificate",
    ] {
        let server = builder.clone().start();
        let line = server.log().wait_for(0, words);
        let authority = home.join("fermata/localhost-ca.pem");
        assert!(
            line.text.contains(&authority.display().to_string()),
            "{}",
            line.text
        );
        for host in ["localhost", "127.0.0.1"] {
            let port = server.address().port();
            let output = Command::new("curl")
                .args(["-sS", "--max-time", "60", "--cacert"])
                .arg(&authority)
                .args(["--resolve", &format!("{host}:{port}:127.0.0.1")])
                .arg(format!("https://{host}:{port}/who"))
                .output()
                .expect("curl is there");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("https"), "{host}: {output:?}");
        }
    }
}
