//! The scenarios `ws upgrade` and `ws fanout`, and shared parts of all `ws` scenarios.

use std::net::Ipv4Addr;
use std::time::Duration;

use clap::Args;

use super::common::Common;
use super::http::ExchangeArguments;
use super::value::{self, ValueError};
use crate::clock::micros;
use crate::counters::Counter;
use crate::course::{Job, Role};
use crate::error::Error;
use crate::exchange::echo::BYTES_MIN;
use crate::exchange::secure::Secure;
use crate::exchange::upgrade::Upgrade;
use crate::summary::Labels;
use crate::target::Target;
use crate::tls::{Connector, TlsArguments};
use crate::websocket::Opening;
use crate::{exchange, fanout};

/// First source address on the loopback interface, where every address exists.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 2, 1);
/// Maximum number of clients per source address. With more clients, the kernel needs long to find a free port, because this limit
/// is half of the even ports.
const CLIENTS_PER_SOURCE_MAX: u32 = 7_000;

#[derive(Debug, Clone, Args)]
pub(crate) struct UpgradeArguments {
    /// URL to connect to, ws or wss
    #[arg(value_name = "URL")]
    url: String,

    #[command(flatten)]
    exchange: ExchangeArguments,

    /// Offer this subprotocol, which the server must accept
    #[arg(long, value_name = "NAME", value_parser = subprotocol)]
    subprotocol: Option<String>,

    #[command(flatten)]
    tls: TlsArguments,

    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct FanoutArguments {
    /// URL to connect to, ws or wss; the server must send each message to all clients, including the sender
    #[arg(value_name = "URL")]
    url: String,

    /// Number of clients, all in one process
    #[arg(long, short, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    clients: u32,

    /// Number of messages per burst; the next burst follows when all clients have received it. 0 holds
    /// the clients without sending
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    burst: u32,

    /// Size of a message in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(BYTES_MIN as i64..=16 << 20))]
    message_bytes: u32,

    /// Time after the unmeasured first burst in which bursts start; with --burst 0, time to hold
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = value::duration)]
    duration: Duration,

    /// Maximum time without progress while messages or connections are pending
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = value::duration)]
    timeout: Duration,

    /// Maximum number of clients that connect concurrently
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    connecting_max: u32,

    /// Report the CPU time of this process during the measurement; repeatable
    #[arg(long = "watch", value_name = "PID")]
    watched: Vec<u32>,

    #[command(flatten)]
    tls: TlsArguments,

    #[command(flatten)]
    pub common: Common,
}

/// Parses a `ws` or `wss` URL. For `wss`, also returns a TLS connector.
pub(super) fn parse_target(
    url: &str,
    tls: &TlsArguments,
) -> Result<(Target, Option<Connector>), Error> {
    let Some(rest) = url.strip_prefix("wss://") else {
        return Ok((Target::parse("URL", url, "ws")?, None));
    };
    let (host, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
    let port = if has_port { "" } else { ":443" };
    let target = Target::parse("URL", &format!("ws://{host}{port}{path}"), "ws")?;
    let connector = tls.connector(&target.host)?;
    Ok((target, Some(connector)))
}

/// Parses a subprotocol name, which is a token like a header name.
fn subprotocol(name: &str) -> Result<String, ValueError> {
    if fermata_proto::response::valid_name(name.as_bytes()) {
        Ok(name.to_string())
    } else {
        Err(ValueError::Subprotocol)
    }
}

impl UpgradeArguments {
    /// Returns the processes of this scenario and the labels of their result.
    pub fn jobs(&self) -> Result<(Vec<Job>, Labels), Error> {
        let (target, connector) = parse_target(&self.url, &self.tls)?;
        if self.exchange.pipeline > 1 {
            let cause = "a connection is upgraded once";
            return Err(Error::option("--pipeline", cause, "leave it out"));
        }
        let plans = self.exchange.plans(&target, false, &self.common)?;
        let jobs = plans.into_iter().map(|plan| {
            let headers = self.common.headers.concat().into_bytes();
            let opening = Opening::new(&target.host, &target.path, headers);
            let upgrade = Upgrade::new(opening, self.subprotocol.clone());
            let protocol = Secure::new(upgrade, connector.clone());
            Job {
                role: Role::Exchanger,
                work: Box::new(move |clock, link| exchange::run(plan, protocol, clock, link)),
            }
        });
        let labels = Labels {
            scenario: "ws upgrade",
            what: format!("{} {}", self.url, self.exchange.describe()),
            latency: "connect to close",
            needed: Counter::Responses,
        };
        Ok((jobs.collect(), labels))
    }
}

impl FanoutArguments {
    /// Returns the process of this scenario and the labels of its result.
    pub fn jobs(&self) -> Result<(Vec<Job>, Labels), Error> {
        let (target, connector) = parse_target(&self.url, &self.tls)?;
        if self.clients > super::common::descriptors_max() {
            let cause = format!(
                "{} clients are more than the descriptor limit ({})",
                self.clients,
                super::common::descriptors_max()
            );
            return Err(Error::option("--clients", cause, "raise ulimit -n"));
        }
        let loopback = target.address.is_ipv4() && target.address.ip().is_loopback();
        let crowded = loopback && self.clients > CLIENTS_PER_SOURCE_MAX;
        let headers = self.common.headers.concat().into_bytes();
        let plan = fanout::Plan {
            address: target.address,
            sources: crowded.then(|| (SOURCE, self.clients.div_ceil(CLIENTS_PER_SOURCE_MAX))),
            opening: Opening::new(&target.host, &target.path, headers),
            connector,
            clients: self.clients as usize,
            connecting_max: self.connecting_max as usize,
            message_bytes: self.message_bytes as usize,
            burst: self.burst,
            duration_us: micros(self.duration),
            timeout_us: micros(self.timeout),
            watched: self.watched.clone(),
            interval_us: micros(self.common.interval),
        };
        let what = match self.burst {
            0 => format!("{} clients held at {}", self.clients, self.url),
            burst => format!(
                "{} clients at {}, bursts of {burst} messages of {} bytes",
                self.clients, self.url, self.message_bytes
            ),
        };
        let labels = Labels {
            scenario: "ws fanout",
            what,
            latency: "burst to last",
            needed: match self.burst {
                0 => Counter::Connects,
                _ => Counter::Deliveries,
            },
        };
        let job = Job {
            role: Role::Exchanger,
            work: Box::new(move |clock, link| fanout::run(plan, clock, link)),
        };
        Ok((vec![job], labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_both_schemes() {
        let tls = TlsArguments::insecure();
        let (target, connector) = parse_target("ws://127.0.0.1/x", &tls).expect("a URL");
        assert!(connector.is_none() && target.address.port() == 80);
        for (url, port) in [
            ("wss://127.0.0.1/x", 443),
            ("wss://127.0.0.1:81", 81),
            ("wss://[::1]?q", 443),
            ("wss://[::1]:82/", 82),
        ] {
            let (target, connector) = parse_target(url, &tls).expect(url);
            assert!(
                connector.is_some() && target.address.port() == port,
                "{url}"
            );
        }
        assert!(parse_target("http://127.0.0.1/", &tls).is_err());
    }

    #[test]
    fn a_subprotocol_is_a_token() {
        assert_eq!(subprotocol("chat.v1").ok(), Some("chat.v1".to_string()));
        assert!(subprotocol("a b").is_err() && subprotocol("").is_err());
    }
}
