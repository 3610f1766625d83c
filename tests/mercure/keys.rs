//! Keys that a token issuer publishes at a URL and rotates.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fermata_testkit::{Connection, Directory, Server, wait_until};
use fermata_tests::fixture_path;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};

use crate::hub::{Hub, PATH, publisher};

/// A key that signs tokens.
struct Key {
    id: &'static str,
    pair: rcgen::KeyPair,
}

impl Key {
    fn new(id: &'static str) -> Key {
        let pair = rcgen::KeyPair::generate().expect("a key");
        Key { id, pair }
    }

    /// Returns the public half of the key.
    fn jwk(&self) -> Value {
        let point = self.pair.public_key_raw();
        // The point is uncompressed: a byte 4, then both coordinates.
        json!({
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": self.id,
            "x": for_url(&point[1..33]), "y": for_url(&point[33..]),
        })
    }

    /// Returns a token that allows to publish to all topics.
    fn token(&self) -> String {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(self.id.to_owned());
        let pem = self.pair.serialize_pem();
        let key = EncodingKey::from_ec_pem(pem.as_bytes()).expect("a key");
        encode(&header, &json!({"mercure": {"publish": ["*"]}}), &key).expect("a token")
    }
}

/// Encodes base64url without padding (RFC 4648, section 5).
fn for_url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let three = [0, 1, 2].map(|at| chunk.get(at).copied().unwrap_or(0));
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for at in 0..=chunk.len() {
            text.push(DIGITS[(bits >> (18 - 6 * at)) as usize & 63] as char);
        }
    }
    text
}

/// Response of an issuer.
#[derive(Clone)]
enum Answers {
    Keys(Vec<Value>),
    /// Respond with this status and body.
    With(&'static str, String),
    Never,
}

/// A server that publishes keys.
struct Issuer {
    port: u16,
    state: Arc<Mutex<(Answers, usize)>>,
}

impl Issuer {
    /// Starts an issuer; `tls` contains certificate and key.
    fn start(answers: Answers, tls: Option<Arc<rustls::ServerConfig>>) -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
        let port = listener.local_addr().expect("it is bound").port();
        let state = Arc::new(Mutex::new((answers, 0)));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (state, tls) = (Arc::clone(&shared), tls.clone());
                thread::spawn(move || match tls {
                    Some(tls) => {
                        let connection = rustls::ServerConnection::new(tls).expect("it is whole");
                        answer(rustls::StreamOwned::new(connection, socket), &state);
                    }
                    None => answer(socket, &state),
                });
            }
        });
        Issuer { port, state }
    }

    fn set(&self, answers: Answers) {
        self.state.lock().expect("nobody panics").0 = answers;
    }

    fn set_keys(&self, keys: &[&Key]) {
        self.set(Answers::Keys(keys.iter().map(|it| it.jwk()).collect()));
    }

    /// Returns the number of requests received.
    fn count(&self) -> usize {
        self.state.lock().expect("nobody panics").1
    }
}

fn answer(mut stream: impl Read + Write, state: &Mutex<(Answers, usize)>) {
    let (mut request, mut byte) = (Vec::new(), [0]);
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => request.push(byte[0]),
            _ => return,
        }
    }
    assert!(request.starts_with(b"GET /keys?of=us HTTP/1.1\r\n"));
    let answers = {
        let mut state = state.lock().expect("nobody panics");
        state.1 += 1;
        state.0.clone()
    };
    let (status, body) = match answers {
        Answers::Keys(keys) => ("200 OK", json!({"keys": keys}).to_string()),
        Answers::With(status, body) => (status, body),
        Answers::Never => {
            thread::sleep(Duration::from_secs(60));
            return;
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // A client that has read enough may have closed the connection.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body.as_bytes());
    let _ = stream.flush();
}

fn publish(connection: &mut Connection, token: &str) -> u16 {
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/x-www-form-urlencoded"),
    ];
    let response = connection.request("POST", PATH, &headers, b"topic=a&data=b");
    response.status()
}

#[test]
fn keys_are_fetched_when_a_token_needs_them() {
    let folder = Directory::new();
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let trusted = folder.write("own.crt", own.cert.pem());
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let tls = rustls::ServerConfig::builder_with_provider(
        rustls::crypto::ring::default_provider().into(),
    )
    .with_safe_default_protocol_versions()
    .expect("ring has them")
    .with_no_client_auth()
    .with_single_cert(vec![own.cert.der().clone()], private)
    .expect("they belong together");
    let keys = ["one", "two", "three"].map(Key::new);
    let issuer = Issuer::start(Answers::Keys(vec![keys[0].jwk()]), Some(Arc::new(tls)));
    let hub = Hub::start_as(
        &format!(
            "anonymous\npublisher_jwks_url https://localhost:{}/keys?of=us",
            issuer.port
        ),
        &[],
        &[("SSL_CERT_FILE", &trusted.display().to_string())],
    );
    assert_eq!(issuer.count(), 1);
    // After the first response the connection stays on one worker.
    let mut connection = hub.connect();
    assert_eq!(connection.get("/healthz").status(), 200);
    assert_eq!(publish(&mut connection, &keys[0].token()), 200);
    // The URL replaces the key of the environment, whose tokens are rejected.
    assert_eq!(publish(&mut connection, &publisher(&["*"])), 401);
    issuer.set_keys(&[&keys[1]]);
    let before = issuer.count();
    assert_eq!(publish(&mut connection, &keys[1].token()), 200);
    assert_eq!(publish(&mut connection, &keys[0].token()), 401);
    assert_eq!(issuer.count(), before + 1);
    // Tokens with made-up keys cause no further requests to the issuer.
    issuer.set_keys(&[&keys[2]]);
    for _ in 0..20 {
        assert_eq!(publish(&mut connection, &keys[2].token()), 401);
    }
    assert_eq!(issuer.count(), before + 1);
    assert_eq!(publish(&mut connection, &keys[1].token()), 200);
}

#[test]
fn keys_are_fetched_again_and_kept_while_that_fails() {
    let keys = ["one", "two"].map(Key::new);
    let issuer = Issuer::start(Answers::With("503 Busy", String::new()), None);
    let hub = Hub::configured(&format!(
        "publisher_jwks_url = 'http://127.0.0.1:{}/keys?of=us'\nanonymous = true\njwks_refresh_s = 1\n",
        issuer.port
    ));
    let status = |key: &Key| publish(&mut hub.connect(), &key.token());
    assert_eq!(status(&keys[0]), 401);
    issuer.set_keys(&[&keys[0]]);
    let in_all = |key: &Key| (0..20).all(|_| status(key) == 200).then_some(());
    wait_until("all workers have the key", || in_all(&keys[0]));
    let long = json!({"keys": [keys[1].jwk()], "more": "x".repeat(70_000)}).to_string();
    for bad in [
        Answers::With("500 Error", String::new()),
        Answers::With("302 Found", json!({"keys": [keys[1].jwk()]}).to_string()),
        Answers::With("200 OK", "no JSON".to_owned()),
        Answers::With("200 OK", r#"{"keys":[]}"#.to_owned()),
        Answers::With("200 OK", long),
        Answers::Never,
    ] {
        issuer.set(bad);
        let before = issuer.count();
        wait_until("it was asked", || {
            (issuer.count() >= before + 6).then_some(())
        });
        assert_eq!((0..20).filter(|_| status(&keys[0]) == 200).count(), 20);
    }
    issuer.set_keys(&[&keys[1]]);
    wait_until("all workers have the other key", || in_all(&keys[1]));
    wait_until("none has the one before", || {
        (0..20).all(|_| status(&keys[0]) == 401).then_some(())
    });
}

#[test]
fn a_program_has_keys_by_url() {
    let keys = ["one", "two"].map(Key::new);
    let issuer = Issuer::start(Answers::Keys(vec![keys[0].jwk()]), None);
    let url = format!("http://127.0.0.1:{}/keys?of=us", issuer.port);
    let program = |url: &str, refresh_s: &str| {
        Server::builder(fixture_path("mercure-keys"))
            .env("KEYS_URL", url)
            .env("REFRESH_S", refresh_s)
            .workers(1)
    };
    let server = program(&url, "1").start();
    let mut connection = server.connect();
    assert_eq!(publish(&mut connection, &keys[0].token()), 200);
    assert_eq!(publish(&mut connection, &publisher(&["*"])), 401);
    issuer.set_keys(&[&keys[1]]);
    wait_until("the keys are fetched again", || {
        (publish(&mut connection, &keys[0].token()) == 401).then_some(())
    });
    assert_eq!(publish(&mut connection, &keys[1].token()), 200);
    for (url, refresh_s, said) in [
        ("ftp://example.com/", "1", "publisher_jwks_url"),
        (url.as_str(), "0", "jwks_refresh_s is 0: give 1 to 604800"),
    ] {
        let refused = program(url, refresh_s).start_refused();
        let text = refused.log.text();
        assert!(text.contains(said), "{text}");
    }
}
