//! The log of a run with faults: one server, or three NATS servers of which one fails at a time.

use std::thread;
use std::time::Duration;

use fermata_testkit::{Builder, LogServer, NatsCluster, Random, Relay};

use crate::node::{PATIENT_MS, node_at};

/// Number of NATS servers, each with its own relay.
const SERVERS: usize = 3;

/// With three servers, every fourth failure lasts longer, by this factor.
const LONG_EVERY: usize = 4;
const LONG_FACTOR: u32 = 8;

pub enum Log {
    One(LogServer),
    Three(NatsCluster),
}

impl Log {
    /// The name in reports.
    pub fn kind(&self) -> &'static str {
        match self {
            Log::One(LogServer::Nats(_)) => "nats",
            Log::One(LogServer::Redis(_)) => "redis",
            Log::Three(_) => "nats-three",
        }
    }

    /// Returns the faults of the log, in addition to faults of the network to it.
    pub fn faults(&self) -> &'static [&'static str] {
        match self {
            Log::One(_) => &["log killed", "log stopped"],
            Log::Three(_) => &["log killed", "log stopped", "log cut off"],
        }
    }

    /// Returns a network from a server to the log.
    pub fn way(&self) -> Way {
        let relays = match self {
            Log::One(log) => vec![Relay::start(log)],
            Log::Three(nats) => (0..SERVERS)
                .map(|at| Relay::to("nats", nats.port_of(at)))
                .collect(),
        };
        let replicas = relays.len();
        Way { relays, replicas }
    }

    /// Makes the log, or one of its servers, fail, and repairs it.
    pub fn fail(&mut self, fault: &str, random: &mut Random, away: Duration) {
        let one = random.within(0..SERVERS);
        // Long enough that sometimes a new leader is elected and the disconnected server must catch
        // up.
        let away = match self {
            Log::Three(_) if random.within(0..LONG_EVERY) == 0 => away * LONG_FACTOR,
            _ => away,
        };
        match (self, fault) {
            (Log::One(log), "log killed") => {
                log.kill();
                thread::sleep(away);
                log.restart();
            }
            (Log::One(log), _) => {
                log.pause();
                thread::sleep(away);
                log.resume();
            }
            (Log::Three(nats), "log killed") => {
                nats.kill(one);
                thread::sleep(away);
                nats.restart(one);
            }
            (Log::Three(nats), "log stopped") => {
                nats.pause(one);
                thread::sleep(away);
                nats.resume(one);
            }
            (Log::Three(nats), _) => {
                nats.isolate(one);
                thread::sleep(away);
                nats.heal();
            }
        }
    }
}

/// A network between a server and its log: a relay for each server of the log.
pub struct Way {
    relays: Vec<Relay>,
    replicas: usize,
}

impl Way {
    /// Returns a server that connects to the log through this network.
    pub fn node(&self) -> Builder {
        let server = node_at("hub", &self.url());
        // NATS needs up to nine seconds to elect a leader.
        server
            .setting("cluster_replicas", self.replicas)
            .setting("publish_wait_ms_max", PATIENT_MS)
    }

    fn url(&self) -> String {
        let urls = self.relays.iter().map(Relay::url);
        urls.collect::<Vec<_>>().join(",")
    }

    pub fn cut(&self) {
        self.relays.iter().for_each(Relay::cut);
    }

    pub fn hold(&self) {
        self.relays.iter().for_each(Relay::hold);
    }

    pub fn hold_answers(&self) {
        self.relays.iter().for_each(Relay::hold_answers);
    }

    pub fn heal(&self) {
        self.relays.iter().for_each(Relay::heal);
    }
}
