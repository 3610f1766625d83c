//! Prometheus endpoint in the parent, with the totals of the run.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use fermata_io::sys::epoll::Epoll;
use fermata_io::{Driver, Fd, net};

use crate::counters::Counter;
use crate::error::Error;
use crate::totals::Totals;

/// First token of this module's descriptors in the parent's driver; the tokens of children are smaller.
const LISTENER: u64 = 1 << 40;
const BACKLOG: i32 = 16;
/// Maximum number of connections. Further connections wait in the backlog.
const CONNECTIONS_MAX: usize = 16;
/// Maximum size of a request, in bytes.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// Quantiles of latencies.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

#[derive(Default)]
struct Connection {
    request: Vec<u8>,
    /// Rest of the response.
    unsent: Vec<u8>,
}

pub(crate) struct Prometheus {
    listener: OwnedFd,
    connections: HashMap<Fd, Connection>,
    /// Rendered page, updated once per interval.
    page: String,
}

impl Prometheus {
    pub fn new(address: SocketAddr) -> Result<Self, Error> {
        let bound = net::bind_tcp(address, BACKLOG, false);
        let (listener, bound) = bound.map_err(Error::system(format!("--prometheus {address}")))?;
        if address.port() == 0 {
            eprintln!("metrics at http://{bound}/metrics");
        }
        Ok(Self {
            listener,
            connections: HashMap::new(),
            page: String::new(),
        })
    }

    pub fn watch(&self, epoll: &mut Epoll) -> Result<(), Error> {
        epoll
            .add_listener(self.listener.as_raw_fd(), LISTENER)
            .map_err(Error::system("watching the listener of --prometheus"))
    }

    pub fn show(&mut self, totals: &Totals, scenario: &str) {
        self.page = page(totals, scenario);
    }

    pub fn handle_event(&mut self, epoll: &mut Epoll, token: u64) {
        if token == LISTENER {
            self.accept(epoll);
        } else if let Ok(fd) = Fd::try_from(token - LISTENER - 1)
            && let Some(connection) = self.connections.get_mut(&fd)
            && !connection.serve(epoll, fd, &self.page)
        {
            self.connections.remove(&fd);
            epoll.close(fd);
            if self.connections.len() == CONNECTIONS_MAX - 1 {
                // The listener was removed at the connection limit. If adding it again fails, the endpoint is
                // unavailable and the run continues.
                let _ = epoll.add_listener(self.listener.as_raw_fd(), LISTENER);
            }
        }
    }

    fn accept(&mut self, epoll: &mut Epoll) {
        while self.connections.len() < CONNECTIONS_MAX
            && let Ok(Some(accepted)) = epoll.accept(self.listener.as_raw_fd())
        {
            let token = LISTENER + 1 + accepted.fd as u64;
            if epoll.add_stream(accepted.fd, token).is_ok() {
                self.connections.insert(accepted.fd, Connection::default());
            } else {
                epoll.close(accepted.fd);
            }
        }
        if self.connections.len() == CONNECTIONS_MAX {
            // The listener would end every wait while it has a pending connection.
            let _ = epoll.remove(self.listener.as_raw_fd());
        }
    }
}

impl Connection {
    /// Reads a request and responds. Returns false when the connection is done.
    fn serve(&mut self, epoll: &mut Epoll, fd: Fd, page: &str) -> bool {
        let mut bytes = [0; 4096];
        while self.unsent.is_empty() {
            match epoll.recv(fd, &mut bytes) {
                Ok(None) => return true,
                Ok(Some(0)) | Err(_) => return false,
                Ok(Some(count)) => self.request.extend_from_slice(&bytes[..count]),
            }
            if self.request.len() > REQUEST_BYTES_MAX {
                return false;
            }
            if memchr::memmem::find(&self.request, b"\r\n\r\n").is_some() {
                let found = self.request.starts_with(b"GET /metrics ");
                let (status, body) = if found {
                    ("200 OK", page)
                } else {
                    ("404 Not Found", "ask for /metrics\n")
                };
                self.unsent = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n\
                     Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                )
                .into_bytes();
            }
        }
        match epoll.send_one(fd, &self.unsent) {
            Ok(None) => true,
            Ok(Some(count)) => {
                self.unsent.drain(..count);
                !self.unsent.is_empty()
            }
            Err(_) => false,
        }
    }
}

fn page(totals: &Totals, scenario: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "# HELP fermata_load_open Connections that are open.\n# TYPE fermata_load_open gauge\n\
         fermata_load_open{{scenario=\"{scenario}\"}} {}",
        totals.open()
    );
    for &counter in Counter::ALL {
        let (name, help) = (counter.name(), counter.help());
        let _ = writeln!(
            out,
            "# HELP fermata_load_{name}_total {help}\n# TYPE fermata_load_{name}_total counter\n\
             fermata_load_{name}_total{{scenario=\"{scenario}\"}} {}",
            totals.counters.get(counter)
        );
    }
    for (name, help, histogram) in [
        ("latency", "Answer or delivery times.", &totals.latency),
        ("last_byte", "Publish to last receiver.", &totals.last_byte),
        ("first_answer", "Connect to first answer.", &totals.connect),
    ] {
        let full = format!("fermata_load_{name}_seconds");
        let _ = writeln!(out, "# HELP {full} {help}\n# TYPE {full} summary");
        for quantile in QUANTILES {
            let seconds = histogram.value_at_quantile(quantile) as f64 / 1e6;
            let _ = writeln!(
                out,
                "{full}{{scenario=\"{scenario}\",quantile=\"{quantile}\"}} {seconds}"
            );
        }
        let count = histogram.len();
        let sum = histogram.mean() * count as f64 / 1e6;
        let _ = writeln!(out, "{full}_sum{{scenario=\"{scenario}\"}} {sum}");
        let _ = writeln!(out, "{full}_count{{scenario=\"{scenario}\"}} {count}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::GroupSizes;

    #[test]
    fn every_line_is_a_comment_or_a_sample() {
        let sizes = GroupSizes {
            clients: 1,
            groups: 1,
        };
        let page = page(&Totals::new(1, sizes), "sse");
        for line in page.lines() {
            let sample = line.rsplit_once(' ').is_some_and(|(name, value)| {
                name.starts_with("fermata_load_") && value.parse::<f64>().is_ok()
            });
            assert!(line.starts_with("# ") || sample, "{line}");
        }
        assert!(page.contains("fermata_load_lost_total{scenario=\"sse\"} 0"));
    }
}
