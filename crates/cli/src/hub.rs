//! `fermata hub`: channels for clients that speak Pusher or Mercure, in the place of Reverb, Soketi, Pusher itself or the
//! Mercure hub.

use std::path::PathBuf;

use crate::error::{Error, at};
use fermata_gateway::settings::{Place, Settings, parse_app};

/// Hold clients that speak Pusher (Laravel Echo, pusher-js) or Mercure
///
/// Settings come from a file, from the environment (REVERB_APP_ID and the others by Reverb's names,
/// MERCURE_PUBLISHER_JWT_KEY and the others by the Mercure hub's) and from these options, of which the later win.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Settings as TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// An application; may be given several times
    ///
    /// Its secret is then seen in the list of processes: give it by the file or the environment where others use the machine
    #[arg(long, value_name = "ID:KEY:SECRET")]
    app: Vec<String>,
    /// Address to listen at; may be given several times [default: 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Vec<String>,
    /// Address to listen at with TLS
    #[arg(long, value_name = "HOST:PORT")]
    listen_tls: Vec<String>,
    /// Certificate chain, for --listen-tls
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<String>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<String>,
    /// Worker processes: a number or auto
    #[arg(long, value_name = "NUMBER")]
    workers: Option<String>,
    /// Connections of each worker, each of which takes a descriptor (ulimit -n) [default: 10000]
    #[arg(long, value_name = "NUMBER")]
    connections_max: Option<String>,
    /// What stands in front of /app and /apps
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// error, warning, info or debug
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Control socket, for fermata stats and fermata top
    #[arg(long, value_name = "SOCKET")]
    control: Option<String>,
}

/// Runs the hub; returns what the process should exit with.
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
        // TLS alone was asked for, unless --listen says more.
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
