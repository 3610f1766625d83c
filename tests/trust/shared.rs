//! One library object written in plain PHP, shared by all handlers as in a framework's container.
//! Handlers queue for its connection, and no handler continues another's conversation.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fermata_testkit::{Connection, Directory};
use fermata_tests::fixture;

use super::services::Service;
use super::{MANY, ask, text};

/// Sender, recipient and text of a mail.
type Mail = (String, String, String);

/// A mail server that delays each reply.
struct MailServer {
    /// The address, with ":25" at the end.
    name: PathBuf,
    mails: Arc<Mutex<Vec<Mail>>>,
    _directory: Directory,
}

impl MailServer {
    fn start() -> MailServer {
        let directory = Directory::new();
        let listener = UnixListener::bind(directory.join("mail:25")).expect("a socket");
        let mails = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&mails);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let mails = Arc::clone(&kept);
                std::thread::spawn(move || serve(connection, &mails));
            }
        });
        MailServer {
            name: directory.join("mail"),
            mails,
            _directory: directory,
        }
    }
}

fn reply(connection: &mut UnixStream, line: &str) -> Option<()> {
    std::thread::sleep(Duration::from_millis(1));
    connection.write_all(line.as_bytes()).ok()
}

fn serve(mut connection: UnixStream, mails: &Mutex<Vec<Mail>>) -> Option<()> {
    let mut lines = BufReader::new(connection.try_clone().ok()?).lines();
    let (mut from, mut to) = (String::new(), String::new());
    reply(&mut connection, "220 mail\r\n")?;
    while let Some(Ok(line)) = lines.next() {
        let answer = if line.starts_with("EHLO") {
            "250-mail\r\n250 8BITMIME\r\n"
        } else if let Some(sender) = line.strip_prefix("MAIL FROM:") {
            if !from.is_empty() {
                reply(&mut connection, "503 nested MAIL\r\n")?;
                continue;
            }
            from = sender.to_string();
            "250 sender\r\n"
        } else if let Some(recipient) = line.strip_prefix("RCPT TO:") {
            to.push_str(recipient);
            "250 recipient\r\n"
        } else if line == "DATA" {
            reply(&mut connection, "354 go on\r\n")?;
            let text: Vec<String> = lines
                .by_ref()
                .map_while(Result::ok)
                .take_while(|line| line != ".")
                .collect();
            let mail = (
                std::mem::take(&mut from),
                std::mem::take(&mut to),
                text.join("\n"),
            );
            mails.lock().ok()?.push(mail);
            "250 taken\r\n"
        } else if line == "QUIT" {
            return reply(&mut connection, "221 bye\r\n");
        } else if line == "RSET" {
            from.clear();
            to.clear();
            "250 forgotten\r\n"
        } else {
            "250 well\r\n"
        };
        reply(&mut connection, answer)?;
    }
    Some(())
}

#[test]
fn many_handlers_share_one_client_of_redis_in_plain_php() {
    let redis = Service::redis();
    let server = fixture("shared")
        .workers(1)
        .env("REDIS", &redis.socket)
        .start();
    for what in [
        "predis",
        "predis-multi",
        "predis-pipeline",
        "predis-tasks",
        "predis",
    ] {
        let mut asked: Vec<Connection> = (0..MANY)
            .map(|id| ask(&server, &format!("/{what}/{id}")))
            .collect();
        for (id, connection) in asked.iter_mut().enumerate() {
            let response = connection.read_response();
            assert_eq!(
                (response.status(), response.text()),
                (200, id.to_string().as_str()),
                "{what}: {}",
                server.log().text()
            );
        }
    }
}

#[test]
fn a_transaction_that_a_library_in_plain_php_has_left_open_reaches_nobody() {
    let redis = Service::redis();
    let server = fixture("shared")
        .workers(1)
        .env("REDIS", &redis.socket)
        .start();
    assert_eq!(text(&server, "/predis/1"), "1");
    assert_eq!(text(&server, "/predis-leave"), "left");
    // The library detects that its connection is closed, and opens another one.
    assert_eq!(
        ask(&server, "/predis-get?key=left")
            .read_response()
            .status(),
        500
    );
    assert_eq!(text(&server, "/predis-get?key=left"), "none");
    assert_eq!(text(&server, "/predis-get?key=of-1"), "1");
    server.log().wait_for(
        0,
        "a handler has ended in the middle of a transaction (MULTI)",
    );
}

#[test]
fn many_handlers_share_one_transport_of_mails() {
    let mail = MailServer::start();
    let server = fixture("shared").workers(1).env("SMTP", &mail.name).start();
    for what in ["mail", "pool-mail"] {
        // The first request opens the connection, because the library does not support concurrent
        // opening.
        assert_eq!(text(&server, &format!("/{what}/first")), "first");
        assert_eq!(
            mail.mails
                .lock()
                .expect("not poisoned")
                .pop()
                .map(|mail| mail.0),
            Some("<from-first@example.org>".into())
        );
        let mut asked: Vec<Connection> = (0..MANY)
            .map(|id| ask(&server, &format!("/{what}/{id}")))
            .collect();
        for (id, connection) in asked.iter_mut().enumerate() {
            let response = connection.read_response();
            assert_eq!(
                (response.status(), response.text()),
                (200, id.to_string().as_str()),
                "{what}: {}",
                server.log().text()
            );
        }
        let mut mails = std::mem::take(&mut *mail.mails.lock().expect("not poisoned"));
        mails.sort();
        let mut expected: Vec<usize> = (0..MANY).collect();
        expected.sort_by_key(|id| format!("<from-{id}@"));
        assert_eq!(mails.len(), MANY);
        for (id, (from, to, content)) in expected.into_iter().zip(mails) {
            assert_eq!(from, format!("<from-{id}@example.org>"));
            assert_eq!(to, format!("<to-{id}@example.org>"));
            assert!(content.ends_with(&format!("text of {id}")), "{content}");
        }
    }
}
