//! What workers start from.

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

/// What workers start from.
pub(crate) struct Prepared {
    pub settings: Settings,
    pub directory: PathBuf,
    pub routes: Routes,
    /// Their file.
    pub routes_file: Option<RoutesFile>,
    /// How targets fare, for all workers.
    pub targets: Targets,
    /// What is counted of routes, for all workers.
    pub route_figures: RouteFigures,
    pub websocket: u16,
    pub port: u16,
    pub(crate) control: Option<Control>,
    pub keys: Keys,
    /// Those that routes name.
    pub route_keys: RouteKeys,
    /// The ZeroMQ ports of publishers.
    pub(crate) zmq: Vec<(Port, OwnedFd)>,
    /// Publishers to connect to.
    pub(crate) publishers: Vec<Publisher>,
    /// Where workers tell the one with the stats socket.
    pub(crate) rendezvous: Option<Rendezvous>,
    pub services: Addresses,
    /// Where workers ask the one that has the services.
    pub(crate) questions: Option<Rendezvous>,
    /// Where workers hand each other requests of SockJS sessions, by their numbers.
    pub(crate) workers: Vec<Rendezvous>,
}

impl Prepared {
    /// Where workers tell the one with the stats socket.
    pub fn stats_path(&self) -> Option<PathBuf> {
        self.rendezvous.as_ref().map(|it| it.path.clone())
    }

    /// Where workers ask the one that has the services.
    pub fn questions_path(&self) -> Option<PathBuf> {
        self.questions.as_ref().map(|it| it.path.clone())
    }

    /// Where each worker is found by the others; none where there is one.
    pub fn workers_paths(&self) -> Vec<PathBuf> {
        self.workers.iter().map(|it| it.path.clone()).collect()
    }
}

/// Keys that are settings. They are read before workers become another user, who may not read their files.
pub(crate) struct Keys {
    pub sig: Option<Rc<sig::Key>>,
    pub upstream: Option<Rc<sig::Key>>,
    pub control: Option<Rc<sig::Key>>,
}

impl Keys {
    /// `directory` is where their files are looked for.
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

/// Whether a file that a route names can be read.
pub(crate) fn check_file(path: &str) -> io::Result<()> {
    std::fs::File::open(path).map(|_| ())
}

/// `127.0.0.1:80` as the engine has addresses; a port alone is one of all addresses.
pub(crate) fn url(scheme: &str, address: &str) -> String {
    match address.contains("://") {
        true => address.to_owned(),
        false if address.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{scheme}://0.0.0.0:{address}")
        }
        false => format!("{scheme}://{address}"),
    }
}

/// Where publishers connect.
pub(crate) struct Control {
    pub(crate) listener: OwnedFd,
    /// It goes with the edge.
    pub(crate) _file: Option<SocketFile>,
}
