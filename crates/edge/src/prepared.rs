//! State prepared before workers are forked.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fermata_grip::sig;

use crate::error::StartError;
use crate::publish::port::Port;
use crate::publish::publishers::Publisher;
use crate::pushpin::rendezvous::{Rendezvous, SocketFile};
use crate::pushpin::services::Addresses;
use crate::routes::Routes;
use crate::routes::figures::RouteFigures;
use crate::routes::file::RoutesFile;
use crate::settings::Settings;
use crate::upstream::route_keys::{RouteKeys, read_key};
use crate::upstream::targets::Targets;

/// State prepared before workers are forked.
pub(crate) struct Prepared {
    pub settings: Settings,
    pub directory: PathBuf,
    pub routes: Routes,
    /// File of the routes.
    pub routes_file: Option<RoutesFile>,
    /// Health of targets, shared by all workers.
    pub targets: Targets,
    /// Counters of routes, shared by all workers.
    pub route_figures: RouteFigures,
    pub websocket: u16,
    /// WebSocket route of SockJS sessions.
    pub session_websocket: u16,
    pub port: u16,
    pub(crate) control: Option<Control>,
    pub keys: Keys,
    /// Keys named by routes.
    pub route_keys: RouteKeys,
    /// ZeroMQ ports of publishers.
    pub(crate) zmq: Vec<(Port, OwnedFd)>,
    /// Publishers to connect to.
    pub(crate) publishers: Vec<Publisher>,
    /// Socket at which workers report to the worker with the stats socket.
    pub(crate) rendezvous: Option<Rendezvous>,
    pub services: Addresses,
    /// Socket at which workers send questions for services.
    pub(crate) questions: Option<Rendezvous>,
    /// Sockets at which workers receive forwarded SockJS requests, by worker.
    pub(crate) workers: Vec<Rendezvous>,
}

impl Prepared {
    /// Returns the path at which workers report to the worker with the stats socket.
    pub fn stats_path(&self) -> Option<PathBuf> {
        self.rendezvous.as_ref().map(|it| it.path.clone())
    }

    /// Returns the path at which workers send questions for services.
    pub fn questions_path(&self) -> Option<PathBuf> {
        self.questions.as_ref().map(|it| it.path.clone())
    }

    /// Returns the socket paths of all workers. Empty if there is only one worker.
    pub fn workers_paths(&self) -> Vec<PathBuf> {
        self.workers.iter().map(|it| it.path.clone()).collect()
    }
}

/// Keys of the settings. Read before workers change to a user that may lack permission to read the files.
pub(crate) struct Keys {
    pub sig: Option<Rc<sig::Key>>,
    pub upstream: Option<Rc<sig::Key>>,
    pub control: Option<Rc<sig::Key>>,
}

impl Keys {
    /// Reads the keys; file names are relative to `directory`.
    pub fn read(settings: &Settings, directory: &Path) -> Result<Self, StartError> {
        let read = |name: &str, text: &str| match text {
            "" => Ok(None),
            text => match read_key(text, directory) {
                Ok(key) => Ok(Some(Rc::new(key))),
                Err(error) => Err(StartError::Setting(format!("{name}: {error}"))),
            },
        };
        Ok(Self {
            sig: read("sig_key", &settings.sig_key)?,
            upstream: read("upstream_key", &settings.upstream_key)?,
            control: read("control_key", &settings.control_key)?,
        })
    }
}

/// Checks that a file named by a route can be opened.
pub(crate) fn check_file(path: &str) -> io::Result<()> {
    std::fs::File::open(path).map(|_| ())
}

/// Converts an address such as `127.0.0.1:80` to the engine's format. A port without a host means all addresses.
pub(crate) fn url(scheme: &str, address: &str) -> String {
    match address.contains("://") {
        true => address.to_owned(),
        false if address.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{scheme}://0.0.0.0:{address}")
        }
        false => format!("{scheme}://{address}"),
    }
}

/// The HTTP control port.
pub(crate) struct Control {
    pub(crate) listener: OwnedFd,
    /// Removes the socket file when the edge exits.
    pub(crate) _file: Option<SocketFile>,
}
