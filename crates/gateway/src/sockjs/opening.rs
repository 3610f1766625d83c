//! What is made before workers are forked.

use fermata_engine::websocket::Route;
use fermata_engine::{BodyLimits, Rendezvous, Server, Worker};
use fermata_io::Kernel;
use fermata_tls::Tls;

use crate::settings::{Settings, SettingsError};
use crate::sockjs::state::{HANDLER_WORKERS, SockJs};

/// What stands in front of `/app` where pusher-js is not told otherwise (`httpPath`).
const PREFIX: &str = "/pusher";

/// Where the workers find each other, and how their sessions' WebSockets are served.
pub(crate) struct Prepared {
    websocket: u16,
    body_bytes_max: u64,
    /// One of each worker, where there are several.
    workers: Vec<Rendezvous>,
}

/// What stands in front of `/app` in paths of SockJS, where WebSockets have `path`.
pub(crate) fn prefixes(path: &str) -> Vec<&str> {
    let mut prefixes = vec![PREFIX];
    if path != PREFIX {
        prefixes.push(path);
    }
    prefixes
}

impl Prepared {
    /// `None` where it is not spoken. `route` is that of WebSockets.
    ///
    /// # Errors
    /// The workers could not find each other.
    pub fn new(
        server: &mut Server,
        settings: &Settings,
        route: Route,
        body_bytes_max: usize,
    ) -> Result<Option<Prepared>, SettingsError> {
        if !settings.own.sockjs || settings.apps.is_empty() {
            return Ok(None);
        }
        let failed = |error: String| SettingsError::new(format!("sockjs: {error}"));
        let shown = |error: &dyn std::fmt::Display| failed(error.to_string());
        let websocket = server
            .websocket_of_program(route)
            .map_err(|it| shown(&it))?;
        let found = server.settings().map_err(|it| shown(&it))?;
        let workers = match server.workers().map_err(|it| shown(&it))? {
            0 | 1 => Vec::new(),
            workers => (0..workers)
                .map(|worker| {
                    let (user, group) = (found.user.clone(), found.group.clone());
                    Rendezvous::bind("hub", &worker.to_string(), user, group)
                        .map_err(|it| shown(&it))
                })
                .collect::<Result<Vec<_>, _>>()?,
        };
        Ok(Some(Prepared {
            websocket,
            body_bytes_max: body_bytes_max as u64,
            workers,
        }))
    }

    /// Begins in a worker. The others' listeners are theirs: what reaches them while they are replaced waits there.
    pub fn begin(self, worker: &mut Worker<Tls<Kernel>>, settings: &Settings) -> SockJs {
        let paths = self.workers.iter().map(|it| it.path.clone()).collect();
        let own = usize::from(worker.index());
        if let Some(rendezvous) = self.workers.into_iter().nth(own) {
            let bodies = BodyLimits {
                bytes_max: self.body_bytes_max,
                pace: None,
            };
            if let Err(error) = worker.listen_requests(rendezvous.listener, HANDLER_WORKERS, bodies)
            {
                let line = format!("sockjs: requests of other workers are not taken: {error}");
                worker.net.log(fermata_config::LogLevel::Error, &line);
            }
        }
        SockJs::new(&settings.own, self.websocket, own, paths)
    }
}
