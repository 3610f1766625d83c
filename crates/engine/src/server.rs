//! A server before it runs: settings and routes.

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

/// Collects what a server is to be; `start` makes it one.
pub struct Server {
    builder: Builder,
    router: Router,
    websockets: Vec<Route>,
    program: Program,
}

impl Server {
    /// A server without routes and with default settings.
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

    /// Sends requests of `method` (`None`: any) whose path matches `pattern` to `handler`, a number
    /// of the embedder's.
    pub fn route(
        &mut self,
        method: Option<&str>,
        pattern: &str,
        handler: u32,
    ) -> Result<(), RouteError> {
        self.router.add(method, pattern, handler)
    }

    /// Lets the bodies of requests for `handler` have so many bytes, whatever the settings say.
    pub fn limit_body(&mut self, handler: u32, bytes_max: u64) -> Result<(), RouteError> {
        self.router.limit_body(handler, bytes_max)
    }

    /// Hands requests to `handler` when their heads are complete: `Worker::read_body` gives what has arrived.
    pub fn begin_early(&mut self, handler: u32) {
        self.router.begin_early(handler);
    }

    /// Sends requests that no route serves to `handler`: unknown paths, and if `takes_methods` also wrong methods and
    /// `OPTIONS`. `RequestView::unrouted` tells what the server would have answered.
    pub fn fallback(&mut self, handler: u32, takes_methods: bool) {
        self.router.set_fallback(handler, takes_methods);
    }

    /// Opens WebSockets at paths that match `pattern`.
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

    /// Prepares WebSockets that the program opens itself, by `Worker::begin_handshake` with the number this returns, at
    /// whatever paths it likes.
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

    /// Sends requests for the files below `prefix` to `handler`, which may answer with them: `Worker::respond_file`.
    pub fn guard_files(&mut self, prefix: &str, handler: u32) -> Result<(), RouteError> {
        self.router.guard(prefix, handler)
    }

    /// Sends requests below `prefix` that no file there answers to `handler`, whatever their method.
    pub fn files_fallback(&mut self, prefix: &str, handler: u32) -> Result<(), RouteError> {
        self.router.set_static_fallback(prefix, handler)
    }

    /// Has the program decide on every handshake of the WebSockets that were added with `handler`.
    pub fn guard_websocket(&mut self, handler: u32) {
        for route in &mut self.websockets {
            route.callbacks.upgrade |= route.handler == handler;
        }
    }

    /// Tells how the embedder's frames are found in a worker's memory, so that the log can name the line
    /// of a handler that holds the loop.
    pub fn set_frames(&mut self, frames: Frames) {
        self.program.frames = Some(frames);
    }

    /// Tells what runs the handlers, for the banner at the start.
    pub fn set_program(&mut self, name: &str) {
        self.program.name = Some(name.to_owned());
    }

    /// Has workers told when the operator wants files to be read again (SIGHUP): `Waiting::take_reload`.
    pub fn take_reloads(&mut self) {
        self.program.takes_reloads = true;
    }

    /// Has the log say at the start what else there is.
    pub fn note(&mut self, message: &str) {
        self.program.notes.push(message.to_owned());
    }

    /// Has the log say at the start what is probably not meant.
    pub fn warn(&mut self, message: &str) {
        self.program.warnings.push(message.to_owned());
    }

    /// Says which program this is, where it is none in PHP: it is told of variables that it does not read.
    pub fn set_reader(&mut self, program: fermata_config::Program) {
        self.builder.set_program(program);
    }

    /// The settings that `start` would use.
    ///
    /// # Errors
    /// As `start`.
    pub fn settings(&self) -> Result<Settings, SettingError> {
        let mut builder = self.builder.clone();
        builder.environment(environment()?)?;
        builder.build()
    }

    /// How many workers `start` would fork.
    ///
    /// # Errors
    /// As `start`.
    pub fn workers(&self) -> Result<u16, SettingError> {
        Ok(memory::workers(&self.settings()?))
    }

    /// Has the master keep one more process beside the workers, in which `start` returns as well. Its log lines have
    /// this name.
    pub fn set_companion(&mut self, name: &str) {
        self.program.companion = Some(name.to_owned());
    }

    /// Has messages about certificates and their keys say this setting, which names a folder with both.
    pub fn name_certificates(&mut self, setting: &'static str) {
        self.program.certificate_names = PairNames {
            certificate: setting,
            key: setting,
        };
    }

    /// Gives the client for HTTP by which spans get to their collector; without it a start with the setting `otlp_endpoint` fails.
    pub fn set_post(&mut self, open: OpenPost) {
        self.program.open_post = Some(open);
    }

    /// Has events of a cluster that have a name be told once, whichever servers they were published to, and how often: one is left
    /// out whose channel has had another with its name for less than so long, by the log's clock.
    pub fn tell_names_once(&mut self, window_ms: u64) {
        self.program.once_ms = Some(window_ms);
    }

    /// Makes one worker in this process, without a listener, for tests of a program: see `in_process`.
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
    /// Returns once in every worker and companion, and once in the calling process after all workers have ended.
    /// Must be called before the process starts a thread.
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
