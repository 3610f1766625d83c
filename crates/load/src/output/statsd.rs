//! Statsd datagrams for every interval, in the format of load generators such as tcpkali, so that existing dashboards
//! work.

use std::net::{SocketAddr, UdpSocket};

use crate::counters::Counter;
use crate::error::Error;
use crate::totals::Point;

/// Maximum size of a datagram in bytes, below every common MTU.
const DATAGRAM_BYTES_MAX: usize = 1400;

pub(crate) struct Statsd {
    socket: UdpSocket,
    prefix: String,
}

impl Statsd {
    pub fn new(address: SocketAddr, prefix: &str) -> Result<Self, Error> {
        let local = if address.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        let socket = UdpSocket::bind(local).and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.connect(address)?;
            Ok(socket)
        });
        Ok(Self {
            socket: socket.map_err(Error::system(format!("--statsd {address}")))?,
            prefix: prefix.to_string(),
        })
    }

    /// Sends one interval. Lost datagrams are not repeated, as usual with statsd.
    pub fn show(&mut self, point: &Point) {
        let mut datagram = String::new();
        for line in lines(&self.prefix, point) {
            if datagram.len() + line.len() > DATAGRAM_BYTES_MAX {
                let _ = self.socket.send(datagram.as_bytes());
                datagram.clear();
            }
            datagram.push_str(&line);
        }
        let _ = self.socket.send(datagram.as_bytes());
    }
}

fn lines(prefix: &str, point: &Point) -> Vec<String> {
    let mut lines = vec![format!("{prefix}.open:{}|g\n", point.open)];
    for &counter in Counter::ALL {
        let count = point.counters.get(counter);
        if count != 0 {
            lines.push(format!("{prefix}.{}:{count}|c\n", counter.name()));
        }
    }
    if point.max_us != 0 {
        let latencies = [
            ("p50", point.p50_us),
            ("p99", point.p99_us),
            ("max", point.max_us),
        ];
        for (name, micros) in latencies {
            let ms = micros as f64 / 1000.0;
            lines.push(format!("{prefix}.latency.{name}:{ms}|ms\n"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;

    #[test]
    fn an_interval_in_datagrams() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let address = receiver.local_addr().expect("an address");
        let mut statsd = Statsd::new(address, "run").expect("a socket");
        let mut counters = Counters::default();
        counters.add(Counter::Deliveries, 7);
        statsd.show(&Point {
            at_s: 1.0,
            length_s: 1.0,
            open: 3,
            counters,
            p50_us: 1500,
            p99_us: 2000,
            max_us: 2500,
        });
        let mut bytes = [0; 2000];
        let count = receiver.recv(&mut bytes).expect("a datagram");
        assert_eq!(
            String::from_utf8_lossy(&bytes[..count]),
            "run.open:3|g\nrun.deliveries:7|c\nrun.latency.p50:1.5|ms\n\
             run.latency.p99:2|ms\nrun.latency.max:2.5|ms\n"
        );
    }
}
