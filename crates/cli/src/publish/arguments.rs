//! Options of `fermata publish`.

use crate::error::Error;

/// Name and value.
pub type Pair = (String, String);

/// Parses `NAME: VALUE`.
pub fn header(text: &str) -> Result<Pair, Error> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(Error::Misuse("give a name, a colon and a value".to_owned())),
    }
}

/// Parses `NAME=VALUE`.
pub fn meta(text: &str) -> Result<Pair, Error> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Error::Misuse(
            "give a name, an equals sign and a value".to_owned(),
        )),
    }
}

/// Publish a message to the clients that an edge or Pushpin holds
#[derive(clap::Args)]
pub struct Arguments {
    /// Channel to publish to
    pub channel: String,

    /// HTTP body and WebSocket message, or @FILE
    pub content: Option<String>,

    /// Id of the message
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,

    /// Id of the channel's previous message
    #[arg(long, value_name = "ID")]
    pub prev_id: Option<String>,

    /// User that sent the message; the filter skip-self skips this user
    #[arg(long, value_name = "USER")]
    pub sender: Option<String>,

    /// Status for long polls
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(..=999))]
    pub code: u16,

    /// Header for long polls; repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub headers: Vec<Pair>,

    /// Metadata for filters; repeatable
    #[arg(short = 'M', long = "meta", value_name = "NAME=VALUE", value_parser = meta)]
    pub meta: Vec<Pair>,

    /// Make clients request the content from their origin
    #[arg(long, conflicts_with = "close")]
    pub hint: bool,

    /// End streams and WebSockets
    #[arg(long)]
    pub close: bool,

    /// Send the content as a JSON patch of the body of long polls
    #[arg(long, conflicts_with_all = ["hint", "close"])]
    pub patch: bool,

    /// Overtake messages that wait for their predecessors
    #[arg(long)]
    pub no_seq: bool,

    /// Add no newline to HTTP content
    #[arg(long)]
    pub no_eol: bool,

    /// Address: URL of an HTTP control port (as in GRIP_URL), its Unix socket, or a ZeroMQ PULL socket
    #[arg(
        long,
        env = "GRIP_URL",
        hide_env_values = true,
        default_value = "http://localhost:5561",
        value_name = "http://… | unix:/PATH | tcp://… | ipc://…"
    )]
    pub spec: String,

    /// Key of the control port (control_key of an edge), from which a token is made: text, base64:… or file:PATH. Other
    /// users of this machine can read arguments, so use a file or the environment variable
    #[arg(
        long,
        env = "FERMATA_PUBLISH_KEY",
        hide_env_values = true,
        value_name = "KEY",
        conflicts_with_all = ["user", "bearer"]
    )]
    pub key: Option<String>,

    /// Authenticate by name and password, over https
    #[arg(short, long, value_name = "USER:PASSWORD", conflicts_with = "bearer")]
    pub user: Option<String>,

    /// Authenticate by a token, over https
    #[arg(short = 'B', long, value_name = "TOKEN")]
    pub bearer: Option<String>,
}
