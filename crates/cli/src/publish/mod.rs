//! `fermata publish`: one item to an edge's or Pushpin's port, with the options of `pushpin-publish`.

mod item;
mod zmq;

use std::time::Duration;

use crate::error::Error;
use fermata_grip::packet::Notation;
use fermata_origin::{Address, Client, PublishError, Transport};

/// How long publishing may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Publish a message to the clients that an edge or Pushpin holds
#[derive(clap::Args)]
pub struct Arguments {
    /// Channel to publish to
    channel: String,

    /// HTTP body and WebSocket message, or @FILE
    content: Option<String>,

    /// Id of the message
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// Id of the channel's message before it
    #[arg(long, value_name = "ID")]
    prev_id: Option<String>,

    /// User that sent it, whom the filter skip-self leaves out
    #[arg(long, value_name = "USER")]
    sender: Option<String>,

    /// Status for long polls
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(..=999))]
    code: u16,

    /// Header for long polls; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = item::header)]
    headers: Vec<item::Pair>,

    /// What filters know of the message; may be repeated
    #[arg(short = 'M', long = "meta", value_name = "NAME=VALUE", value_parser = item::meta)]
    meta: Vec<item::Pair>,

    /// Tell clients to ask their origin, instead of sending content
    #[arg(long, conflicts_with = "close")]
    hint: bool,

    /// End streams and WebSockets
    #[arg(long)]
    close: bool,

    /// The content is a JSON patch of the body that long polls were held with
    #[arg(long, conflicts_with_all = ["hint", "close"])]
    patch: bool,

    /// Overtake messages that wait for their predecessors
    #[arg(long)]
    no_seq: bool,

    /// Add no newline to HTTP content
    #[arg(long)]
    no_eol: bool,

    /// Where to: the URL of an HTTP control port, as GRIP_URL has it, its Unix socket, or a ZeroMQ PULL socket
    #[arg(
        long,
        env = "GRIP_URL",
        hide_env_values = true,
        default_value = "http://localhost:5561",
        value_name = "http://… | unix:/PATH | tcp://… | ipc://…"
    )]
    spec: String,

    /// Key of the control port (control_key of an edge), of which a token is made: a text, base64:… or file:PATH. Other
    /// users of this machine see a text in the list of processes, so name a file or set the variable
    #[arg(
        long,
        env = "FERMATA_PUBLISH_KEY",
        hide_env_values = true,
        value_name = "KEY",
        conflicts_with_all = ["user", "bearer"]
    )]
    key: Option<String>,

    /// Authenticate by name and password, over https
    #[arg(short, long, value_name = "USER:PASSWORD", conflicts_with = "bearer")]
    user: Option<String>,

    /// Authenticate by a token, over https
    #[arg(short = 'B', long, value_name = "TOKEN")]
    bearer: Option<String>,
}

/// Publishes, and says so.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let item = item::build(arguments)?;
    // No server's control socket is meant here, as libraries would mean it.
    let spec = match arguments.spec.strip_prefix("unix:") {
        Some(rest) => format!("http+unix:{rest}"),
        None => arguments.spec.clone(),
    };
    let mut address = Address::parse(&spec)
        .map_err(|error| Error::Misuse(format!("--spec or GRIP_URL: {error}")))?;
    if let Some(key) = &arguments.key {
        let set = address.set_key(key);
        set.map_err(|error| Error::Misuse(format!("--key or FERMATA_PUBLISH_KEY: {error}")))?;
    }
    match &address.transport {
        Transport::Http(url) => {
            let authorization = address
                .authorization(arguments.user.as_deref(), arguments.bearer.as_deref())
                .map_err(|error| error.to_string())?;
            let item = item.to_value(Notation::Json).to_json();
            Client::new(url.clone(), TIMEOUT)
                .publish(authorization.as_deref(), &[item])
                .map_err(|error| {
                    Error::Misuse(match error {
                        PublishError::Unreachable(_) => format!("{error} --spec names another"),
                        _ => error.to_string(),
                    })
                })?;
        }
        Transport::Zmq(endpoint)
            if arguments.user.is_none()
                && arguments.bearer.is_none()
                && arguments.key.is_none() =>
        {
            zmq::publish(endpoint, &item)?;
        }
        Transport::Zmq(_) => {
            return Err(Error::Misuse("ZeroMQ knows no authentication; leave out --key, --user and --bearer, or publish to http://".into()));
        }
    }
    println!("Published");
    Ok(())
}

/// What went wrong with an address, in one sentence.
fn failed(what: &str, address: &str, error: impl std::fmt::Display) -> Error {
    Error::Misuse(format!(
        "cannot {what} {address}: {error}; is an edge or Pushpin listening there? --spec names another"
    ))
}
