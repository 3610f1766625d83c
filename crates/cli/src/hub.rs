//! `fermata hub`: serves Pusher and Mercure clients; replaces Reverb, Soketi, Pusher or the Mercure hub.

use std::path::PathBuf;

use crate::error::{Error, at};
use fermata_gateway::settings::{Place, Settings, parse_app};

/// Hold clients that speak Pusher (Laravel Echo, pusher-js) or Mercure
///
/// Settings come from a file, from the environment and from these options; later ones override earlier ones. The environment
/// has the variables of Reverb (REVERB_APP_ID and others) and of the Mercure hub (MERCURE_PUBLISHER_JWT_KEY and others).
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Settings as TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// An application; repeatable
    ///
    /// Other users of this machine can read the secret in the list of processes: use the file or the environment there
    #[arg(long, value_name = "ID:KEY:SECRET")]
    app: Vec<String>,
    /// Address to listen at [default: 127.0.0.1:8080]; repeatable
    #[arg(long, value_name = "HOST:PORT")]
    listen: Vec<String>,
    /// Address to listen at with TLS
    #[arg(long, value_name = "HOST:PORT")]
    listen_tls: Vec<String>,
    /// Certificate chain, for --listen-tls
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<String>,
    /// Key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<String>,
    /// Worker processes: a number or auto
    #[arg(long, value_name = "NUMBER")]
    workers: Option<String>,
    /// Maximum number of connections per worker, one descriptor each (ulimit -n) [default: 10000]
    #[arg(long, value_name = "NUMBER")]
    connections_max: Option<String>,
    /// Prefix of /app and /apps
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Least severe level to log: error, warning, info or debug
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Control socket, for fermata stats and fermata top
    #[arg(long, value_name = "SOCKET")]
    control: Option<String>,
}

/// Runs the hub and returns the exit code.
pub fn run(arguments: &Arguments) -> Result<i32, Error> {
    let settings = read(arguments)?;
    fermata_gateway::run(settings).map_err(Error::from)
}

fn read(arguments: &Arguments) -> Result<Settings, Error> {
    let mut settings = Settings::default();
    if let Some(path) = &arguments.config {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(at(&name))?;
        settings.read_toml(&name, &text)?;
    }
    let variables = fermata_engine::environment()?;
    settings.read_environment(variables)?;
    for app in &arguments.app {
        settings.apps.push(parse_app(app)?);
    }
    if !arguments.listen_tls.is_empty() {
        // --listen-tls without --listen means TLS only: drop the default address.
        settings.own.listen.clear();
    }
    for (name, values) in [
        ("listen", arguments.listen.as_slice()),
        ("listen_tls", &arguments.listen_tls),
        ("tls_certificate", arguments.tls_certificate.as_slice()),
        ("tls_key", arguments.tls_key.as_slice()),
        ("workers", arguments.workers.as_slice()),
        ("connections_max", arguments.connections_max.as_slice()),
        ("path", arguments.path.as_slice()),
        ("log_level", arguments.log_level.as_slice()),
        ("control_socket", arguments.control.as_slice()),
    ] {
        if !values.is_empty() {
            settings.set(Place::Option, name, values)?;
        }
    }
    Ok(settings)
}
