//! Versions, names, resumption, rejected handshakes.

use crate::{LAST_REQUEST, World, make, secure};

#[test]
fn both_versions_and_http_alone_are_spoken() {
    let world = World::start(secure());
    for (version, name) in [("1.2", "TLSv1.2"), ("1.3", "TLSv1.3")] {
        let flag = format!("--tlsv{version}");
        let arguments = [&flag, "--tls-max", version, "-w", "%{http_version}"];
        assert!(
            world.get("one.test", "/who", &arguments).ends_with("}2"),
            "{name}"
        );
        let flag = format!(
            "-{}",
            name.to_lowercase().replace('v', "").replace('.', "_")
        );
        let said = world.openssl(&[&flag, "-alpn", "http/1.1", "-ign_eof"], LAST_REQUEST);
        assert!(said.contains("ALPN protocol: http/1.1"), "{said}");
        assert!(said.contains(&format!("New, {name}")), "{said}");
        assert!(said.contains("HTTP/1.1 200"), "{said}");
    }
    // The server selects the newest version that both support, in whatever order the client lists
    // them.
    let said = world.openssl(&["-alpn", "http/1.1,h2"], "");
    assert!(said.contains("ALPN protocol: h2"), "{said}");
    let said = world.openssl(&["-alpn", "h3"], "");
    assert!(said.contains("no application protocol"), "{said}");
    let world = World::start(secure().setting("http2", "off"));
    let said = world.openssl(&["-alpn", "h2,http/1.1", "-ign_eof"], LAST_REQUEST);
    assert!(said.contains("ALPN protocol: http/1.1"), "{said}");
    let said = world.openssl(&["-alpn", "h2"], "");
    assert!(said.contains("no application protocol"), "{said}");
}

/// RFC 9113, section 3.4: a connection error, even if the bytes are a valid HTTP/1.1 request.
#[test]
fn a_client_that_agreed_on_h2_is_held_to_it() {
    let world = World::start(secure());
    for input in [
        LAST_REQUEST,
        "INVALID CONNECTION PREFACE\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    ] {
        let said = world.openssl(&["-alpn", "h2", "-ign_eof", "-quiet"], input);
        assert!(!said.contains("HTTP/1.1"), "{said}");
        // The debug data of GOAWAY.
        assert!(said.contains("preface"), "{said}");
    }
}

#[test]
fn old_versions_and_those_below_the_setting_are_refused() {
    let world = World::start(secure());
    let said = world.openssl(&["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"], LAST_REQUEST);
    assert!(said.contains("Cipher is (NONE)"), "{said}");
    assert!(said.contains("alert"), "{said}");
    let world = World::start(secure().setting("tls_version_min", "1.3"));
    let said = world.openssl(&["-tls1_2"], LAST_REQUEST);
    assert!(said.contains("alert protocol version"), "{said}");
    assert!(
        world
            .get("one.test", "/who", &["--tlsv1.3"])
            .contains("https")
    );
}

#[test]
fn a_client_gets_the_certificate_for_its_name() {
    let builder = secure();
    make(
        &builder,
        "certificate two /CN=two DNS:two.test; certificate wild /CN=wild DNS:*.wild.test",
    );
    let list = |end: &str| {
        let names = ["one", "two", "wild"];
        let path = |name| {
            builder
                .directory()
                .join(&format!("{name}.{end}"))
                .display()
                .to_string()
        };
        names.map(path).join(",")
    };
    let (certificates, keys) = (list("pem"), list("key"));
    let builder = builder
        .setting("tls_certificate", certificates)
        .setting("tls_key", keys);
    let world = World::start(builder);
    for (name, subject) in [
        ("one.test", "one"),
        ("two.test", "two"),
        ("TWO.test", "two"),
        ("a.wild.test", "wild"),
        ("a.b.wild.test", "one"),
        ("wild.test", "one"),
        ("unknown.test", "one"),
    ] {
        let said = world.openssl(&["-servername", name], "");
        assert!(
            said.contains(&format!("subject=CN = {subject}\n")),
            "{name}: {said}"
        );
    }
    let said = world.openssl(&["-noservername"], "");
    assert!(said.contains("subject=CN = one\n"), "{said}");
    assert!(world.get("b.wild.test", "/who", &[]).contains("https"));
}

#[test]
fn a_ticket_of_one_worker_resumes_with_any_other() {
    let world = World::start(secure().workers(3).control());
    for version in ["-tls1_2", "-tls1_3"] {
        let first = [version, "-sess_out", "session", "-ign_eof"];
        let said = world.openssl(&first, LAST_REQUEST);
        assert!(said.contains("New, TLSv1."), "{said}");
        for _ in 0..8 {
            let again = [version, "-sess_in", "session", "-ign_eof"];
            let said = world.openssl(&again, LAST_REQUEST);
            assert!(said.contains("Reused, TLSv1."), "{version}: {said}");
            assert!(said.contains("HTTP/1.1 200"), "{said}");
        }
    }
}

#[test]
fn renegotiation_is_refused() {
    let world = World::start(secure());
    let said = world.openssl(&["-tls1_2"], "R\n");
    assert!(said.contains("RENEGOTIATING"), "{said}");
    assert!(said.contains("no renegotiation"), "{said}");
}

#[test]
fn weak_ciphers_and_compression_are_not_offered() {
    let world = World::start(secure());
    for ciphers in ["RC4", "3DES", "aNULL", "EXPORT", "kRSA", "CBC"] {
        let list = format!("{ciphers}:@SECLEVEL=0");
        let said = world.openssl(&["-tls1_2", "-cipher", &list], LAST_REQUEST);
        assert!(!said.contains("HTTP/1.1 200"), "{ciphers}: {said}");
    }
    let said = world.openssl(&["-tls1_2", "-comp", "-ign_eof"], LAST_REQUEST);
    assert!(said.contains("Compression: NONE"), "{said}");
    assert!(said.contains("Secure Renegotiation IS supported"), "{said}");
}
