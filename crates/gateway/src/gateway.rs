//! The hub in one worker: what it remembers, and who is handed which event.

use std::collections::HashMap;
use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::{Event, Worker};
use fermata_io::Kernel;
use fermata_pusher::App;
use fermata_pusher::connection::Connection;
use fermata_tls::Tls;

use crate::TELL_MS;
use crate::census::{Census, Notice};
use crate::settings::Settings;

pub(crate) const HANDLER_SOCKETS: u32 = 0;
pub(crate) const HANDLER_REQUESTS: u32 = 1;

/// A client.
pub(crate) struct Session {
    /// Its application, by its place in the settings.
    pub app: usize,
    pub connection: Connection,
}

pub(crate) struct Gateway {
    pub worker: Box<Worker<Tls<Kernel>>>,
    pub settings: Rc<Settings>,
    /// By the handle of their sockets.
    pub sessions: HashMap<u64, Session>,
    pub census: Census,
    /// When the other workers are told what has changed.
    tell_at_ms: Option<u64>,
    /// They do not know yet that this worker has started.
    owes_hello: bool,
}

impl Gateway {
    pub fn new(worker: Box<Worker<Tls<Kernel>>>, settings: Rc<Settings>) -> Gateway {
        let census = Census::new(worker.index());
        Gateway {
            worker,
            settings,
            sessions: HashMap::new(),
            census,
            tell_at_ms: None,
            owes_hello: true,
        }
    }

    /// Serves until the worker stops; returns what the process should exit with.
    pub fn run(&mut self) -> i32 {
        self.tell_counts();
        loop {
            self.plan_telling();
            match self.worker.next_event() {
                Event::Request => self.on_request(),
                Event::Upgrade => self.on_handshake(),
                Event::Message => self.on_message(),
                Event::Close => self.on_close(),
                Event::Told => self.on_told(),
                Event::Wake => {
                    let now_ms = self.worker.now_ms();
                    if self.tell_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                        self.tell_counts();
                    }
                }
                Event::Stop => return self.worker.exit_code(),
                Event::Open
                | Event::Gone
                | Event::Body
                | Event::Ready
                | Event::Wire
                | Event::Items
                | Event::Stream
                | Event::StreamEnd
                | Event::Ping
                | Event::Pong => {}
            }
        }
    }

    /// The application of a session.
    pub fn app(&self, at: usize) -> &App {
        &self.settings.apps[at]
    }

    /// Tells all other workers. False: there was no room.
    pub fn tell(&mut self, notice: &Notice) -> bool {
        let Ok(data) = serde_json::to_vec(notice) else {
            return false;
        };
        match self.worker.tell_workers(&data) {
            Ok(_) => true,
            Err(error) => {
                let line = format!("other workers are told later: {error}");
                self.worker.log(LogLevel::Warning, &line);
                false
            }
        }
    }

    fn on_told(&mut self) {
        match serde_json::from_slice(self.worker.told()) {
            Ok(Notice::Terminate { app, user }) => self.terminate(&app, &user),
            Ok(notice) => self.census.on_notice(notice),
            Err(error) => {
                let line = format!("what another worker tells is not understood: {error}");
                self.worker.log(LogLevel::Error, &line);
            }
        }
    }

    fn plan_telling(&mut self) {
        if self.tell_at_ms.is_none() && (self.owes_hello || self.census.has_changed()) {
            let at_ms = self.worker.now_ms() + TELL_MS;
            self.tell_at_ms = Some(at_ms);
            self.worker.wake_at(at_ms);
        }
    }

    fn tell_counts(&mut self) {
        self.tell_at_ms = None;
        if self.owes_hello {
            let hello = self.census.hello();
            self.owes_hello = !self.tell(&hello);
            if self.owes_hello {
                // Counts before it would be forgotten by it.
                return;
            }
        }
        while let Some(notice) = self.census.next_notice() {
            if !self.tell(&notice) {
                self.census.put_back(notice);
                break;
            }
        }
    }
}
