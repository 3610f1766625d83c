//! Preparations before workers are forked.

use fermata_engine::websocket::Route;
use fermata_engine::{BodyLimits, Rendezvous, Server, Worker};
use fermata_io::Kernel;
use fermata_tls::Tls;

use crate::settings::{Settings, SettingsError};
use crate::sockjs::state::{HANDLER_WORKERS, SockJs};

/// Prefix of `/app` that pusher-js uses unless `httpPath` is set.
const PREFIX: &str = "/pusher";

/// Maximum number of bytes queued at the WebSocket of a session, in addition to the session's own queue. A single
/// message may be larger.
const QUEUE_BYTES_MAX: u64 = 64 * 1024;

/// Sockets between the workers, and the route of the sessions' WebSockets.
pub(crate) struct Prepared {
    websocket: u16,
    body_bytes_max: u64,
    /// One socket per worker. Empty if there is only one worker.
    workers: Vec<Rendezvous>,
}

/// Returns the prefixes of `/app` in SockJS paths, if WebSockets have `path`.
pub(crate) fn prefixes(path: &str) -> Vec<&str> {
    let mut prefixes = vec![PREFIX];
    if path != PREFIX {
        prefixes.push(path);
    }
    prefixes
}

impl Prepared {
    /// Prepares SockJS. Returns `None` if SockJS is disabled. `route` is the route of WebSockets.
    ///
    /// # Errors
    /// The sockets between workers cannot be created.
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
        let route = Route {
            queue_bytes_max: Some(QUEUE_BYTES_MAX),
            ..route
        };
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

    /// Starts SockJS in a worker. Each worker has its own listener; requests wait in its backlog while a worker is replaced.
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
                let line = format!("sockjs: cannot accept requests of other workers: {error}");
                worker.net.log(fermata_config::LogLevel::Error, &line);
            }
        }
        SockJs::new(&settings.own, self.websocket, own, paths)
    }
}
