//! The scenarios `sse`, `hold` and `ws broadcast`.

use std::net::Ipv4Addr;
use std::time::Duration;

use clap::Args;

use super::common::Common;
use super::value;
use crate::clock::micros;
use crate::counters::Counter;
use crate::course::{Course, Job, Role, Step};
use crate::error::Error;
use crate::exchange::http::Request;
use crate::groups::GroupSizes;
use crate::message::BYTES_MIN;
use crate::report::Rates;
use crate::subscribe::{publisher, receiver};
use crate::summary::Labels;
use crate::target::{Target, Template};
use crate::websocket::Opening;

/// First source address on the loopback interface, where every address exists.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);

/// Defaults of a scenario.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Defaults {
    pub scenario: &'static str,
    /// Scheme of the URL.
    pub scheme: &'static str,
    pub clients: u32,
    pub duration: Duration,
}

pub(crate) const SSE: Defaults = Defaults {
    scenario: "sse",
    scheme: "http",
    clients: 1_000,
    duration: Duration::from_secs(10),
};

pub(crate) const HOLD: Defaults = Defaults {
    scenario: "hold",
    scheme: "http",
    clients: 100_000,
    duration: Duration::from_secs(60),
};

pub(crate) const BROADCAST: Defaults = Defaults {
    scenario: "ws broadcast",
    scheme: "ws",
    clients: 1_000,
    duration: Duration::from_secs(10),
};

#[derive(Debug, Clone, Args)]
pub(crate) struct SubscribeArguments {
    /// URL of clients; {n} is replaced by the number of the group, {client} by the number of the
    /// client
    #[arg(value_name = "URL")]
    url: String,

    /// Number of clients of all processes [default: 1000, hold: 100000]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    clients: Option<u32>,

    /// Number of groups that clients are divided into
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    groups: u32,

    /// Time to hold and publish after all clients are connected [default: 10s, hold: 1m]
    #[arg(long, short = 't', value_name = "TIME", value_parser = value::duration)]
    duration: Option<Duration>,

    /// A phase of the run, instead of --duration and the rates: "NAME=TIME[,groups=RATE][,all=RATE]",
    /// with messages per second to groups and to all; repeatable. Each phase starts when the messages
    /// of the previous one have arrived; the result has the numbers of each
    #[arg(long = "step", value_name = "STEP", conflicts_with_all = ["duration", "publish_rate", "publish_all_rate"], value_parser = value::step)]
    steps: Vec<Step>,

    /// Time to wait at the end for messages that have not arrived
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = value::duration)]
    settle: Duration,

    /// Pause after each read of the sockets. With very many clients of a server on the same machine,
    /// this saves a wake-up per message and leaves CPU to the server. Measured latencies grow by up
    /// to this time
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = value::duration)]
    coalesce: Duration,

    #[command(flatten)]
    publish: PublishArguments,

    #[command(flatten)]
    connect: ConnectArguments,

    /// Maximum size of an event in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(256..=1 << 30))]
    event_bytes_max: u32,

    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Publishing")]
struct PublishArguments {
    /// URL for POSTs of messages to one group after the other; {n} is replaced by the group
    #[arg(long, value_name = "URL")]
    publish: Option<String>,

    /// Messages per second to groups, on schedule
    #[arg(long, value_name = "PER_SECOND", default_value = "1", value_parser = value::rate)]
    publish_rate: f64,

    /// URL for POSTs of messages that all clients receive
    #[arg(long, value_name = "URL")]
    publish_all: Option<String>,

    /// URL of WebSockets that send messages which all clients receive
    #[arg(long, value_name = "URL", conflicts_with = "publish_all")]
    publish_ws: Option<String>,

    /// Messages per second to all, on schedule
    #[arg(long, value_name = "PER_SECOND", default_value = "1", value_parser = value::rate)]
    publish_all_rate: f64,

    /// Body of a POST; {message} is replaced by the message, {n} by the group
    #[arg(long, value_name = "TEXT", default_value = "{message}")]
    publish_body: String,

    /// A header of every POST, as "Name: value"; repeatable
    #[arg(long = "publish-header", value_name = "HEADER", value_parser = value::header)]
    publish_headers: Vec<String>,

    /// Size of a message in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(BYTES_MIN as i64..=1 << 20))]
    message_bytes: u32,

    /// Number of publishing connections per URL
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    publish_connections: u32,

    /// Maximum number of messages waiting for one connection; more are skipped and count as a fault
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    publish_queue_max: u32,

    /// Maximum time to wait for the response to a POST
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = value::duration)]
    publish_timeout: Duration,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connecting")]
struct ConnectArguments {
    /// Connects per second of all processes [default: the maximum]
    #[arg(long, value_name = "PER_SECOND", value_parser = value::rate)]
    connect_rate: Option<f64>,

    /// Maximum number of clients of all processes that connect concurrently
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    connecting_max: u32,

    /// Maximum time to wait for the first response
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = value::duration)]
    connect_timeout: Duration,

    /// Another server, as HOST:PORT, for the same path; repeatable. Clients are spread over all servers and switch to another
    /// one when their connection has closed or failed
    #[arg(long = "also", value_name = "HOST:PORT")]
    also: Vec<String>,

    /// Maximum number of failed attempts of a client in a row
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..))]
    attempts_max: u8,

    /// Time before a client reconnects
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = value::duration)]
    reconnect_delay: Duration,

    /// Do not send Last-Event-ID; messages published while a client is disconnected may then be missing
    #[arg(long)]
    no_resume: bool,

    /// Number of clients per second that disconnect and immediately reconnect
    #[arg(long, value_name = "PER_SECOND", value_parser = value::rate)]
    churn: Option<f64>,

    /// Number of processes that share the clients [default: as few as --clients-per-process-max allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    processes: Option<u32>,

    /// Maximum number of clients per process
    #[arg(long, value_name = "N", default_value_t = 19_000, value_parser = clap::value_parser!(u32).range(1..))]
    clients_per_process_max: u32,

    /// First source address; further ones follow it [default: 127.0.1.1 if the server is in 127.0.0.0/8
    /// and there are more clients than one address supports]
    #[arg(long, value_name = "ADDRESS")]
    source: Option<Ipv4Addr>,

    /// Maximum number of clients per source address. Beyond half of the even ports of
    /// net.ipv4.ip_local_port_range, the kernel needs long to find a free port
    #[arg(long, value_name = "N", default_value_t = 7_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    clients_per_source_max: u32,
}

impl SubscribeArguments {
    /// Returns the processes of this scenario, its course and the labels of its result.
    pub fn jobs(&self, defaults: Defaults) -> Result<(Vec<Job>, Course, Labels), Error> {
        let clients = self.clients.unwrap_or(defaults.clients);
        let duration = self.duration.unwrap_or(defaults.duration);
        if self.groups > clients {
            let cause = format!("{} groups are more than {clients} clients", self.groups);
            return Err(Error::option(
                "--groups",
                cause,
                "lower it, or raise --clients",
            ));
        }
        let target = Target::parse("URL", &self.url, defaults.scheme)?;
        if self.groups > 1 && !target.path.has_number() {
            let cause = format!(
                "there are {} groups and no {{n}} in \"{}\"",
                self.groups, self.url
            );
            return Err(Error::option(
                "URL",
                cause,
                "put {n} where the group's number belongs",
            ));
        }
        let sizes = GroupSizes {
            clients: u64::from(clients),
            groups: u64::from(self.groups),
        };
        let run = fermata_io::random::u64() as u32;
        let mut jobs = self.receivers(&target, defaults.scheme == "ws", sizes, run)?;
        let sources = self.publish.sources(self.groups)?;
        let publishes_anywhere = !sources.is_empty();
        if publishes_anywhere {
            let plan = publisher::Plan {
                sources,
                source_address: None,
                run,
                message_bytes: self.publish.message_bytes as usize,
                groups: self.groups,
                connections: self.publish.publish_connections as usize,
                queue_max: self.publish.publish_queue_max as usize,
                timeout_us: micros(self.publish.publish_timeout),
                interval_us: micros(self.common.interval),
            };
            jobs.push(Job {
                role: Role::Publisher,
                work: Box::new(move |clock, link| publisher::run(plan, clock, link)),
            });
        }
        let steps = self.steps(duration)?;
        // A run without publishing has no further work after all clients are connected.
        let publishes = |step: &Step| step.rates.groups > 0.0 || step.rates.all > 0.0;
        let publishes = publishes_anywhere && steps.iter().any(publishes);
        let course = Course {
            steps,
            settle_us: micros(self.settle),
            sizes,
        };
        let labels = Labels {
            scenario: defaults.scenario,
            what: format!(
                "{clients} clients in {} groups at {}, {} processes",
                self.groups,
                self.url,
                jobs.len()
            ),
            latency: "publish to receive",
            needed: if publishes {
                Counter::Deliveries
            } else {
                Counter::Connects
            },
        };
        Ok((jobs, course, labels))
    }

    fn steps(&self, duration: Duration) -> Result<Vec<Step>, Error> {
        let publish = &self.publish;
        let to_all = publish.publish_all.is_some() || publish.publish_ws.is_some();
        for step in &self.steps {
            let missing = match step.rates {
                Rates { groups, .. } if groups > 0.0 && publish.publish.is_none() => "--publish",
                Rates { all, .. } if all > 0.0 && !to_all => "--publish-all",
                _ => continue,
            };
            let cause = format!(
                "step \"{}\" publishes, and there is no {missing}",
                step.name
            );
            return Err(Error::option("--step", cause, "say where to publish"));
        }
        if !self.steps.is_empty() {
            return Ok(self.steps.clone());
        }
        Ok(vec![Step {
            name: "holding".to_string(),
            hold_us: micros(duration),
            rates: Rates {
                groups: publish.publish_rate,
                all: publish.publish_all_rate,
            },
        }])
    }

    fn receivers(
        &self,
        target: &Target,
        websocket: bool,
        sizes: GroupSizes,
        run: u32,
    ) -> Result<Vec<Job>, Error> {
        let connect = &self.connect;
        let per_process = connect
            .clients_per_process_max
            .min(super::common::descriptors_max());
        let clients = sizes.clients as u32;
        let processes = connect.processes.unwrap_or(clients.div_ceil(per_process));
        let processes = processes.min(clients);
        if clients.div_ceil(processes) > per_process {
            let cause = format!(
                "{clients} clients in {processes} processes are more than {per_process} each"
            );
            return Err(Error::option(
                "--processes",
                cause,
                "raise it, or leave it out",
            ));
        }
        if processes > 1024 {
            let cause = format!("{clients} clients need {processes} processes");
            let fix = "raise --clients-per-process-max and the descriptor limit (ulimit -n)";
            return Err(Error::option("--clients", cause, fix));
        }
        let mut servers = vec![(target.address, target.host.clone())];
        for server in &connect.also {
            let scheme = if websocket { "ws" } else { "http" };
            let other = Target::parse("--also", &format!("{scheme}://{server}"), scheme)?;
            servers.push((other.address, other.host));
        }
        let share = f64::from(processes);
        let mut first = 0;
        let mut jobs = Vec::new();
        for index in 0..u64::from(processes) {
            let end = sizes.clients * (index + 1) / u64::from(processes);
            let plan = receiver::Plan {
                servers: servers.clone(),
                sources: connect.sources(target, index as u32, clients, processes)?,
                path: target.path.clone(),
                headers: self.common.headers.concat().into_bytes(),
                websocket,
                sizes,
                first,
                clients: (end - first) as usize,
                run,
                message_bytes: self.publish.message_bytes as usize,
                event_bytes_max: self.event_bytes_max as usize,
                connect_rate: connect.connect_rate.unwrap_or(0.0) / share,
                connecting_max: (connect.connecting_max / processes).max(1) as usize,
                connect_timeout_ms: micros(connect.connect_timeout) / 1000,
                attempts_max: connect.attempts_max,
                reconnect_delay_ms: micros(connect.reconnect_delay) / 1000,
                // A WebSocket has no event ids to resume from.
                resume: !connect.no_resume && !websocket,
                churn_rate: connect.churn.unwrap_or(0.0) / share,
                interval_us: micros(self.common.interval),
                coalesce: self.coalesce,
            };
            first = end;
            jobs.push(Job {
                role: Role::Receiver,
                work: Box::new(move |clock, link| receiver::run(plan, clock, link)),
            });
        }
        Ok(jobs)
    }
}

impl ConnectArguments {
    /// Returns the first source address of a process and the number of addresses.
    fn sources(
        &self,
        target: &Target,
        index: u32,
        clients: u32,
        processes: u32,
    ) -> Result<Option<(Ipv4Addr, u32)>, Error> {
        let automatic = target.address.ip().is_ipv4() && target.address.ip().is_loopback();
        let first = match self.source {
            Some(first) => first,
            None if automatic && clients > self.clients_per_source_max => SOURCE,
            None => return Ok(None),
        };
        if target.address.is_ipv6() {
            let cause = "the server's address is IPv6";
            return Err(Error::option(
                "--source",
                cause,
                "leave it out, or connect by IPv4",
            ));
        }
        let count = clients
            .div_ceil(processes)
            .div_ceil(self.clients_per_source_max);
        let own = (index * count).checked_add(u32::from(first));
        own.filter(|own| own.checked_add(count).is_some())
            .map(|own| Some((Ipv4Addr::from(own), count)))
            .ok_or_else(|| {
                let cause = format!(
                    "there are no {} addresses from {first} on",
                    processes * count
                );
                Error::option("--source", cause, "give a lower address")
            })
    }
}

impl PublishArguments {
    fn sources(&self, groups: u32) -> Result<Vec<publisher::Source>, Error> {
        let given = [
            ("--publish", &self.publish, false),
            ("--publish-all", &self.publish_all, true),
        ];
        let mut sources = Vec::new();
        for (option, url, to_all) in given {
            let Some(url) = url else {
                continue;
            };
            let target = Target::parse(option, url, "http")?;
            let body = Template::parse(self.publish_body.as_bytes());
            if !body.has_message() && !target.path.has_message() {
                let cause = "there is no {message} in it";
                let fix = "put {message} where the message belongs";
                return Err(Error::option("--publish-body", cause, fix));
            }
            let has_number = target.path.has_number() || body.has_number();
            if groups > 1 && !to_all && !has_number {
                let cause = format!("there are {groups} groups and no {{n}} in \"{url}\"");
                let fix = "put {n} where the group's number belongs";
                return Err(Error::option(option, cause, fix));
            }
            sources.push(publisher::Source {
                address: target.address,
                how: publisher::How::Post(Request {
                    method: "POST".to_string(),
                    host: target.host,
                    path: target.path,
                    headers: self.publish_headers.concat().into_bytes(),
                    body: Some(body),
                }),
                to_all,
            });
        }
        if let Some(url) = &self.publish_ws {
            let target = Target::parse("--publish-ws", url, "ws")?;
            let headers = self.publish_headers.concat().into_bytes();
            let opening = Opening::new(&target.host, &target.path, headers);
            sources.push(publisher::Source {
                address: target.address,
                how: publisher::How::Websocket(opening),
                to_all: true,
            });
        }
        Ok(sources)
    }
}
