//! Serves the error page while no PHP server runs.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::failure::Failure;

/// Default address of a server.
const LISTEN: &str = "127.0.0.1:8080";

/// Maximum size of a request, and timeout for reading it.
const REQUEST_BYTES_MAX: usize = 16 * 1024;
const REQUEST_MAX: Duration = Duration::from_secs(1);

/// Interval at which the thread polls for clients and for the stop flag.
const LOOK: Duration = Duration::from_millis(10);

/// Responds to every request with the error page until dropped.
#[derive(Debug)]
pub struct Fallback {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fallback {
    /// Binds the address and starts the thread. Returns `None` if the address cannot be bound; the error is then shown only in the
    /// terminal.
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

/// Returns the first plain HTTP address, parsed as a server would parse the setting.
fn address(addresses: Option<&str>) -> String {
    let words = addresses.unwrap_or_default().split([',', ' ']);
    let first = words
        .filter_map(|word| word.trim().strip_prefix("http://"))
        .map(|word| word.split(['?', '/']).next().unwrap_or_default())
        .find(|word| !word.is_empty() && !word.ends_with(":0"));
    first.unwrap_or(LISTEN).to_owned()
}

/// Reads a request and sends the response; ignores errors, which affect only this client.
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
    let answer = if is_for_this_machine(&request) {
        answer
    } else {
        REFUSAL
    };
    let _ = stream.write_all(answer.as_bytes());
}

/// Response to other hosts: the error page contains source code, which DNS rebinding would expose to other sites.
const REFUSAL: &str = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 65\r\n\
    Connection: close\r\n\r\nAsk for this page at localhost or at the address of the machine.\n";

/// Returns true if the Host header is localhost, a subdomain of it, or an IP address.
fn is_for_this_machine(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let mut hosts = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then_some(value.trim())
    });
    let Some(host) = hosts.next() else {
        return true;
    };
    let name = match host.strip_prefix('[') {
        Some(address) => address.split(']').next(),
        None => host.split(':').next(),
    };
    let name = name.unwrap_or_default().to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

fn answer(failure: &Failure) -> String {
    let mut source = String::new();
    for (number, text) in &failure.source {
        let line = format!("{number:5}  {}\n", escaped(text));
        source += &if failure.line == Some(*number) {
            format!("<b>{line}</b>")
        } else {
            line
        };
    }
    let place = match (&failure.file, failure.line) {
        (Some(file), Some(line)) => format!("<p>{} : {line}</p>", escaped(file)),
        _ => String::new(),
    };
    // Identifies this error page, which polls its own address. When the server or another error replaces the page, the response
    // lacks this text, and the page reloads.
    let mark = format!("{:016x}", fermata_io::random::u64());
    let body = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Not started</title>\
        <style>:root{{color-scheme:light dark;--strong:#b00;--code:#f4f4f4;--line:#fdd}}\
        @media(prefers-color-scheme:dark){{:root{{--strong:#ff8a80;--code:#242424;--line:#5c2626}}}}\
        body{{font:15px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}}h1{{font-size:1.3em;color:var(--strong)}}\
        pre{{background:var(--code);padding:1em;overflow:auto}}pre b{{background:var(--line)}}</style>\
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
    fn shows_nothing_to_a_page_of_another_site() {
        let is_for = |host: &str| {
            let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            is_for_this_machine(request.as_bytes())
        };
        for host in [
            "localhost:8080",
            "a.localhost",
            "127.0.0.1:1",
            "[::1]:8080",
            "LOCALHOST",
        ] {
            assert!(is_for(host), "{host}");
        }
        for host in [
            "evil.example:8080",
            "localhost.evil.example",
            "notlocalhost",
        ] {
            assert!(!is_for(host), "{host}");
        }
        let (head, body) = REFUSAL.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
    }

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
