//! A server before it starts: settings and routes.

use std::fs::File;
use std::path::Path;

use fermata_config::{Builder, SettingError, Settings, Source, environment};
use fermata_io::Kernel;
use fermata_tls::{PairNames, Tls};

use crate::admin::otlp::OpenPost;
use crate::channels::memory;
use crate::http::files::StaticOptions;
use crate::http::router::{RouteError, Router};
use crate::in_process::{self, Memory};
use crate::master::{Frames, Master, Program, StartError, Started};
use crate::websocket::OptionError;
use crate::websocket::Route;
use crate::worker::Worker;

/// Collects settings and routes; `start` forks the server.
pub struct Server {
    builder: Builder,
    router: Router,
    websockets: Vec<Route>,
    program: Program,
}

impl Server {
    /// Creates a server without routes and with default settings.
    pub fn new() -> Server {
        Server {
            builder: Builder::new(),
            router: Router::new(),
            websockets: Vec::new(),
            program: Program::default(),
        }
    }

    /// Sets a setting by its name; see `fermata_config::table`.
    pub fn set(&mut self, name: &str, value: &str, source: Source) -> Result<(), SettingError> {
        self.builder.set(name, value, source)
    }

    /// Routes requests of `method` (`None` = every method) whose path matches `pattern` to
    /// `handler`, a number that the embedder chooses.
    pub fn route(
        &mut self,
        method: Option<&str>,
        pattern: &str,
        handler: u32,
    ) -> Result<(), RouteError> {
        self.router.add(method, pattern, handler)
    }

    /// Sets the maximum body size of requests for `handler` in bytes; overrides the settings.
    pub fn limit_body(&mut self, handler: u32, bytes_max: u64) -> Result<(), RouteError> {
        self.router.limit_body(handler, bytes_max)
    }

    /// Passes requests to `handler` when their heads are complete; `Worker::read_body` returns body
    /// bytes that have arrived.
    pub fn begin_early(&mut self, handler: u32) {
        self.router.begin_early(handler);
    }

    /// Routes unmatched requests to `handler`: unknown paths and, if `takes_methods` is set, also
    /// wrong methods and `OPTIONS`. `RequestView::unrouted` returns the status that the server
    /// would have sent.
    pub fn fallback(&mut self, handler: u32, takes_methods: bool) {
        self.router.set_fallback(handler, takes_methods);
    }

    /// Accepts WebSockets at paths that match `pattern`.
    pub fn websocket(&mut self, pattern: &str, route: Route) -> Result<(), RouteError> {
        let route = route.check(pattern)?;
        let number = u16::try_from(self.websockets.len()).map_err(|_| RouteError::WebSocket {
            pattern: pattern.to_owned(),
            cause: OptionError::Count,
        })?;
        self.router.add_websocket(pattern, number, route.handler)?;
        self.websockets.push(route);
        Ok(())
    }

    /// Prepares WebSockets that the application accepts itself, at any path. Returns the number to
    /// pass to `Worker::begin_handshake`.
    pub fn websocket_of_program(&mut self, route: Route) -> Result<u16, RouteError> {
        let route = route.check("*")?;
        let number = self.websockets.len() as u16;
        self.websockets.push(route);
        Ok(number)
    }

    /// Serves the files below `directory` under the path `prefix`.
    pub fn files(
        &mut self,
        prefix: &str,
        directory: &str,
        options: StaticOptions,
    ) -> Result<(), RouteError> {
        self.router
            .add_static(prefix, Path::new(directory), options)
    }

    /// Routes requests for files below `prefix` to `handler`, which may send the file with
    /// `Worker::respond_file`.
    pub fn guard_files(&mut self, prefix: &str, handler: u32) -> Result<(), RouteError> {
        self.router.guard(prefix, handler)
    }

    /// Routes requests below `prefix` for which no file exists to `handler`, with any method.
    pub fn files_fallback(&mut self, prefix: &str, handler: u32) -> Result<(), RouteError> {
        self.router.set_static_fallback(prefix, handler)
    }

    /// Lets the application accept or refuse each handshake of the WebSockets added with `handler`.
    pub fn guard_websocket(&mut self, handler: u32) {
        for route in &mut self.websockets {
            route.callbacks.upgrade |= route.handler == handler;
        }
    }

    /// Sets how the embedder's stack frames are found in a worker's memory. The log then contains
    /// the source line of a handler that blocks the loop.
    pub fn set_frames(&mut self, frames: Frames) {
        self.program.frames = Some(frames);
    }

    /// Sets the name of the handlers' runtime, for the startup banner.
    pub fn set_program(&mut self, name: &str) {
        self.program.name = Some(name.to_owned());
    }

    /// Notifies workers when the operator requests a reload of files (SIGHUP): see
    /// `Waiting::take_reload`.
    pub fn take_reloads(&mut self) {
        self.program.takes_reloads = true;
    }

    /// Adds an informational line to the log at startup.
    pub fn note(&mut self, message: &str) {
        self.program.notes.push(message.to_owned());
    }

    /// Adds a warning about a probable mistake to the log at startup.
    pub fn warn(&mut self, message: &str) {
        self.program.warnings.push(message.to_owned());
    }

    /// Sets the non-PHP program that this is, so that it warns about environment variables that it
    /// does not read.
    pub fn set_reader(&mut self, program: fermata_config::Program) {
        self.builder.set_program(program);
    }

    /// Returns the settings that `start` would use.
    ///
    /// # Errors
    /// As for `start`.
    pub fn settings(&self) -> Result<Settings, SettingError> {
        let mut builder = self.builder.clone();
        builder.environment(environment()?)?;
        builder.build()
    }

    /// Returns the number of workers that `start` would fork.
    ///
    /// # Errors
    /// As for `start`.
    pub fn workers(&self) -> Result<u16, SettingError> {
        Ok(memory::workers(&self.settings()?))
    }

    /// Adds one process next to the workers, which the master restarts. `start` also returns in
    /// this process. `name` marks its log lines.
    pub fn set_companion(&mut self, name: &str) {
        self.program.companion = Some(name.to_owned());
    }

    /// Sets the setting to name in messages about certificates and keys: it points to a folder with
    /// both files.
    pub fn name_certificates(&mut self, setting: &'static str) {
        self.program.certificate_names = PairNames {
            certificate: setting,
            key: setting,
        };
    }

    /// Sets the HTTP client that sends spans to the collector. Without it, a start with the setting
    /// `otlp_endpoint` fails.
    pub fn set_post(&mut self, open: OpenPost) {
        self.program.open_post = Some(open);
    }

    /// Delivers a named cluster event once, even if it was published several times or to several
    /// servers. An event is dropped if its channel had an event of that name less than `window_ms`
    /// ago, by the log's clock.
    pub fn deliver_names_once(&mut self, window_ms: u64) {
        self.program.once_ms = Some(window_ms);
    }

    /// Sets the fingerprint of the application's secrets, equal on all its servers. Records of
    /// other applications on the shared log are ignored. The setting `cluster_application` takes
    /// precedence.
    pub fn set_fingerprint(&mut self, fingerprint: String) {
        self.program.secrets = Some(fingerprint);
    }

    /// Creates one worker in this process, without a listener, for tests of an application: see
    /// `in_process`.
    pub fn start_in_process(
        mut self,
        log: File,
    ) -> Result<(Worker<Tls<Kernel>>, Memory), StartError> {
        self.builder.environment(environment()?)?;
        let settings = self.builder.build()?;
        in_process::open(settings, self.router, self.websockets, log)
    }

    /// Binds the listeners and forks the workers.
    ///
    /// Returns in every worker and in the companion, and in the calling process after all workers
    /// have exited. Must be called before the process starts a thread.
    pub fn start(mut self) -> Result<Started, StartError> {
        self.builder.environment(environment()?)?;
        self.program.warnings.extend(self.builder.take_warnings());
        let settings = self.builder.build()?;
        Master::open(settings, self.router, self.websockets, self.program)?.supervise()
    }
}

impl Default for Server {
    fn default() -> Server {
        Server::new()
    }
}
