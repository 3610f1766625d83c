//! A page that says what is wrong, where there is no server yet that could say it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::failure::Failure;

/// Where a server listens when nothing is said.
const LISTEN: &str = "127.0.0.1:8080";

/// Bytes of a request that are read, and how long it may take.
const REQUEST_BYTES_MAX: usize = 16 * 1024;
const REQUEST_MAX: Duration = Duration::from_secs(1);

/// How often is looked for clients, and whether it is over.
const LOOK: Duration = Duration::from_millis(10);

/// Answers every request with the failure, until it is dropped.
#[derive(Debug)]
pub struct Fallback {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fallback {
    /// `None`: the address cannot be bound, so the terminal alone shows what is wrong.
    pub fn start(addresses: Option<&str>, failure: &Failure) -> Option<Self> {
        let listener = TcpListener::bind(address(addresses)).ok()?;
        listener.set_nonblocking(true).ok()?;
        let answer = answer(failure);
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => serve(stream, &answer),
                    Err(_) => thread::sleep(LOOK),
                }
            }
        });
        Some(Self {
            is_over,
            thread: Some(thread),
        })
    }
}

impl Drop for Fallback {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The first address of plain HTTP, as a server would take it from the same words.
fn address(addresses: Option<&str>) -> String {
    let words = addresses.unwrap_or_default().split([',', ' ']);
    let first = words
        .filter_map(|word| word.trim().strip_prefix("http://"))
        .map(|word| word.split(['?', '/']).next().unwrap_or_default())
        .find(|word| !word.is_empty() && !word.ends_with(":0"));
    first.unwrap_or(LISTEN).to_owned()
}

/// What cannot be sent concerns nobody but that client.
fn serve(mut stream: TcpStream, answer: &str) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(REQUEST_MAX));
    let _ = stream.set_write_timeout(Some(REQUEST_MAX));
    let mut request = Vec::new();
    let mut piece = [0; 2048];
    while request.len() < REQUEST_BYTES_MAX && !request.windows(4).any(|it| it == b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(read @ 1..) => request.extend_from_slice(&piece[..read]),
            _ => return,
        }
    }
    let _ = stream.write_all(answer.as_bytes());
}

fn answer(failure: &Failure) -> String {
    let mut source = String::new();
    for (number, text) in &failure.source {
        let line = format!("{number:5}  {}\n", escaped(text));
        source += &match failure.line == Some(*number) {
            true => format!("<b>{line}</b>"),
            false => line,
        };
    }
    let place = match (&failure.file, failure.line) {
        (Some(file), Some(line)) => format!("<p>{} : {line}</p>", escaped(file)),
        _ => String::new(),
    };
    // What is there instead when the page asks for the first time may be the program already.
    let mark = format!("{:016x}", fermata_io::random::u64());
    let body = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Not started</title>\
        <style>body{{font:15px sans-serif;max-width:70em;margin:2em auto}}h1{{font-size:1.3em;color:#b00}}\
        pre{{background:#f4f4f4;padding:1em;overflow:auto}}pre b{{background:#fdd}}</style>\
        <h1>{}</h1>{place}<pre>{source}</pre><details><summary>Everything that was said</summary><pre>{}</pre></details>\
        <script>setInterval(async()=>{{try{{const text=await(await fetch(location,{{cache:'no-store'}})).text();\
        if(!text.includes('{mark}'))location.reload()}}catch{{}}}},200)</script>",
        escaped(&failure.message),
        escaped(&failure.text),
    );
    format!(
        "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
        Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_where_they_are_plain() {
        for (given, expected) in [
            (None, LISTEN),
            (Some("http://127.0.0.1:9000"), "127.0.0.1:9000"),
            (Some("https://a:1, http://b:2?x=y"), "b:2"),
            (Some("unix:/run/a"), LISTEN),
            (Some("http://127.0.0.1:0"), LISTEN),
        ] {
            assert_eq!(address(given), expected);
        }
    }

    #[test]
    fn what_php_says_is_no_markup() {
        let failure = Failure::of_text("<script>");
        assert!(!answer(&failure).contains("<h1><script>"));
    }
}
