//! The scenario `ws echo`.

use clap::Args;

use super::common::Common;
use super::http::ExchangeArguments;
use super::ws::parse_target;
use crate::counters::Counter;
use crate::course::{Job, Role};
use crate::error::Error;
use crate::exchange;
use crate::exchange::echo::{BYTES_MIN, Echo};
use crate::exchange::secure::Secure;
use crate::summary::Labels;
use crate::tls::TlsArguments;
use crate::websocket::Opening;

#[derive(Debug, Clone, Args)]
pub(crate) struct EchoArguments {
    /// URL to connect to, ws or wss
    #[arg(value_name = "URL")]
    url: String,

    #[command(flatten)]
    exchange: ExchangeArguments,

    /// Size of a message in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(BYTES_MIN as i64..=16 << 20))]
    message_bytes: u32,

    /// Send binary messages instead of text
    #[arg(long)]
    binary: bool,

    #[command(flatten)]
    tls: TlsArguments,

    #[command(flatten)]
    pub common: Common,
}

impl EchoArguments {
    /// Returns the processes of this scenario and the labels of their result.
    pub fn jobs(&self) -> Result<(Vec<Job>, Labels), Error> {
        let (target, connector) = parse_target(&self.url, &self.tls)?;
        let plans = self.exchange.plans(&target, true, &self.common)?;
        let jobs = plans.into_iter().map(|plan| {
            let headers = self.common.headers.concat().into_bytes();
            let opening = Opening::new(&target.host, &target.path, headers);
            let echo = Echo::new(opening, self.message_bytes as usize, self.binary);
            let protocol = Secure::new(echo, connector.clone());
            Job {
                role: Role::Exchanger,
                work: Box::new(move |clock, link| exchange::run(plan, protocol, clock, link)),
            }
        });
        let labels = Labels {
            scenario: "ws echo",
            what: format!(
                "{} bytes to {} {}",
                self.message_bytes,
                self.url,
                self.exchange.describe()
            ),
            latency: "echo",
            needed: Counter::Responses,
        };
        Ok((jobs.collect(), labels))
    }
}
