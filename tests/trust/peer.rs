//! A slow server: lines over TCP and a Unix socket, and HTTP/1.1, with replies in the order of
//! requests.
//!
//! The reply to a line "ID MILLISECONDS COUNT …" and to a request "GET /ID/MILLISECONDS/COUNT" is
//! ID, COUNT times.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Longer than any client's time-out.
const DELAY_MAX: Duration = Duration::from_secs(60);

pub struct Peer {
    pub lines_port: u16,
    pub http_port: u16,
    pub socket: PathBuf,
}

impl Peer {
    /// Starts the server. Its threads run until the test process exits.
    pub fn start(folder: &Path) -> Peer {
        let lines = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let http = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let socket = folder.join("lines");
        let local = UnixListener::bind(&socket).expect("a free name");
        let peer = Peer {
            lines_port: lines.local_addr().expect("it is bound").port(),
            http_port: http.local_addr().expect("it is bound").port(),
            socket,
        };
        thread::spawn(move || {
            for stream in lines.incoming().flatten() {
                let _ = stream.set_nodelay(true);
                thread::spawn(move || serve_lines(stream.try_clone().ok(), stream));
            }
        });
        thread::spawn(move || {
            for stream in local.incoming().flatten() {
                thread::spawn(move || serve_lines(stream.try_clone().ok(), stream));
            }
        });
        thread::spawn(move || {
            for stream in http.incoming().flatten() {
                let _ = stream.set_nodelay(true);
                thread::spawn(move || serve_http(stream.try_clone().ok(), stream));
            }
        });
        peer
    }
}

/// Returns the reply after its delay; `None` if the request is invalid.
fn answer<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<String> {
    let id = words.next()?;
    let delay = Duration::from_millis(words.next()?.parse().ok()?);
    let count: usize = words.next()?.parse().ok()?;
    thread::sleep(delay.min(DELAY_MAX));
    Some(format!("{id} ").repeat(count))
}

fn serve_lines(reader: Option<impl Read>, mut writer: impl Write) {
    for line in BufReader::new(reader.expect("a descriptor")).lines() {
        let Some(answer) = line.ok().and_then(|line| answer(line.split(' '))) else {
            return;
        };
        if writer.write_all((answer + "\n").as_bytes()).is_err() {
            return;
        }
    }
}

fn serve_http(reader: Option<impl Read>, mut writer: impl Write) {
    let mut reader = BufReader::new(reader.expect("a descriptor"));
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if !matches!(reader.read_line(&mut head), Ok(1..)) {
                return;
            }
        }
        let is_last = head
            .to_ascii_lowercase()
            .contains("\r\nconnection: close\r\n");
        let path = head.split(' ').nth(1).unwrap_or_default();
        let Some(answer) = answer(path.split('/').skip(1)) else {
            return;
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        if writer.write_all((head + &answer).as_bytes()).is_err() || is_last {
            return;
        }
    }
}
