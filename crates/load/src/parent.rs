//! The parent: starts the processes, controls the run and collects their reports.

use std::io;

use fermata_io::process::{self, Exit, Fork, Pid};
use fermata_io::signal::{self, SIGCHLD, SIGINT, SIGKILL, SIGTERM};
use fermata_io::sys::epoll::Epoll;
use fermata_io::{Driver, Event};

use crate::clock::Clock;
use crate::course::{Course, Job, Role, Step, Work};
use crate::error::Error;
use crate::link::Link;
use crate::output::Outputs;
use crate::report::{Command, Rates, Report, Stage};
use crate::totals::{Outcome, Totals};

const SIGNALS: u64 = u64::MAX;
/// Maximum time for a child to exit after the command to close.
const END_US: u64 = 120_000_000;

/// Phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Receivers connect, or exchangers work.
    Working,
    /// Receivers hold and the publisher publishes at the rates of the step, until the given time.
    Holding(usize, u64),
    /// Waits until the messages of the previous step have arrived. The phase lasts at least until the first time, so that every
    /// process reports once more. It lasts at most until the second time.
    Between(usize, u64, u64),
    /// The publisher waits for its last responses, at most until the given time.
    Stopping(u64),
    /// The last messages arrive, at most until the given time.
    Settling(u64),
    /// All processes have received the command to exit, and must exit by the given time.
    Ending(u64),
}

struct Child {
    pid: Pid,
    role: Role,
    link: Link,
    stage: Stage,
    /// True while the child's end of the link is open.
    connected: bool,
    exit: Option<Exit>,
}

struct Parent<'a> {
    clock: Clock,
    epoll: Epoll,
    signals: signal::Pipe,
    children: Vec<Child>,
    course: Course,
    phase: Phase,
    outputs: &'a mut Outputs,
    interval_us: u64,
    outcome: Outcome,
}

/// Runs each job in a separate process and returns when all have exited.
pub(crate) fn run(
    jobs: Vec<Job>,
    course: Course,
    outputs: &mut Outputs,
    interval_us: u64,
) -> Result<Outcome, Error> {
    let clock = Clock::start();
    // Installed before the first fork, because a child may exit immediately. Children have no pipe of their own; in a
    // child the handler does not write to the parent's pipe.
    let signals = signal::Pipe::install(&[SIGINT, SIGTERM, SIGCHLD])
        .map_err(Error::system("installing signal handlers"))?;
    let children = start(jobs, clock)?;
    let mut epoll = Epoll::new().map_err(Error::system("opening an epoll instance"))?;
    let mut watched = epoll.add_wake(signals.fd(), SIGNALS);
    for (index, child) in children.iter().enumerate() {
        watched = watched.and_then(|()| epoll.add_wake(child.link.fd(), index as u64));
    }
    watched.map_err(Error::system("watching the pipes of the processes"))?;
    outputs.watch(&mut epoll)?;
    let outcome = Outcome {
        totals: Totals::new(children.len(), course.sizes),
        interrupted: false,
        broken: Vec::new(),
        connected_s: 0.0,
        total_s: 0.0,
    };
    let mut parent = Parent {
        clock,
        epoll,
        signals,
        children,
        course,
        phase: Phase::Working,
        outputs,
        interval_us,
        outcome,
    };
    parent.work()?;
    Ok(parent.outcome)
}

fn start(jobs: Vec<Job>, clock: Clock) -> Result<Vec<Child>, Error> {
    let mut children: Vec<Child> = Vec::with_capacity(jobs.len());
    for job in jobs {
        let (link, mut its_link) = Link::pair().map_err(Error::system("opening pipes"))?;
        match process::fork() {
            Ok(Fork::Parent(pid)) => children.push(Child {
                pid,
                role: job.role,
                link,
                stage: Stage::Working,
                connected: true,
                exit: None,
            }),
            Ok(Fork::Child) => {
                // The child does not use the parent's ends of other links.
                drop((children, link));
                process::exit_now(live(job.work, clock, &mut its_link));
            }
            Err(error) => {
                for child in &children {
                    let _ = process::kill(child.pid, SIGKILL);
                }
                return Err(Error::system("starting a process")(error));
            }
        }
    }
    Ok(children)
}

/// Runs a child; returns its exit code.
fn live(work: Work, clock: Clock, link: &mut Link) -> i32 {
    // Ctrl-C signals the whole process group; only the parent reacts.
    let prepared = process::signal_when_parent_dies(SIGKILL)
        .and_then(|()| signal::ignore(SIGINT))
        .and_then(|()| signal::ignore(SIGTERM));
    let done = prepared
        .map_err(Error::system("preparing a process"))
        .and_then(|()| work(clock, link));
    match done {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("fermata load: {error}");
            1
        }
    }
}

impl Parent<'_> {
    fn work(&mut self) -> Result<(), Error> {
        let mut events: Vec<Event> = Vec::new();
        let mut tick_us = self.interval_us;
        loop {
            let now_us = self.clock.now_us();
            self.step(now_us)?;
            let over = self.children.iter().all(|child| child.exit.is_some())
                && self.children.iter().all(|child| !child.connected);
            if over || now_us >= tick_us {
                let phase = self.phase_name().to_owned();
                let point = self.outcome.totals.end_interval(now_us);
                self.outputs.show(&self.outcome.totals, &point, &phase);
                tick_us = now_us + self.interval_us;
            }
            if over {
                self.outcome.total_s = now_us as f64 / 1e6;
                return Ok(());
            }
            let due_us = self.phase_end_us().min(tick_us);
            let timeout_ms = due_us.saturating_sub(now_us).div_ceil(1000);
            events.clear();
            self.epoll
                .wait(&mut events, Some(timeout_ms))
                .map_err(Error::system("waiting for events"))?;
            for event in &events {
                match event.token {
                    SIGNALS => self.handle_signals()?,
                    index if index < self.children.len() as u64 => {
                        self.handle_report(index as usize)?;
                    }
                    token => self.outputs.handle_event(&mut self.epoll, token),
                }
            }
        }
    }

    fn handle_report(&mut self, index: usize) -> Result<(), Error> {
        let child = &mut self.children[index];
        let totals = &mut self.outcome.totals;
        let received = child.link.receive(|report: Report| {
            child.stage = report.stage;
            totals.add(index, &report);
        });
        let alive = received.map_err(Error::system("reading a process's report"))?;
        if !alive {
            child.connected = false;
            child.stage = Stage::Ended;
            // Fails only if the descriptor is no longer polled.
            let _ = self.epoll.remove(child.link.fd());
        }
        Ok(())
    }

    fn handle_signals(&mut self) -> Result<(), Error> {
        while let Some(number) = self.signals.read() {
            if number == SIGCHLD {
                self.reap();
            } else if matches!(self.phase, Phase::Ending(_)) {
                self.kill_all();
            } else {
                self.outcome.interrupted = true;
                self.end()?;
            }
        }
        Ok(())
    }

    /// Records the children that have exited.
    fn reap(&mut self) {
        while let Some((pid, exit)) = process::reap() {
            self.handle_exit(pid, exit);
        }
    }

    fn handle_exit(&mut self, pid: Pid, exit: Exit) {
        let found = self.children.iter_mut().enumerate();
        let mut found = found.filter(|(_, child)| child.pid == pid);
        if let Some((index, child)) = found.next() {
            child.exit = Some(exit);
            if exit != Exit::Code(0) {
                let text = format!("process {index} ended with {exit}");
                self.outcome.broken.push(text);
            }
        }
    }

    /// Enters the next phase when the current one is complete.
    fn step(&mut self, now_us: u64) -> Result<(), Error> {
        match self.phase {
            Phase::Working if self.all(Role::Exchanger, Stage::Ended) => {
                if self
                    .children
                    .iter()
                    .any(|child| child.role == Role::Exchanger)
                {
                    return self.end();
                }
                if self.all(Role::Receiver, Stage::Ready) {
                    self.outcome.connected_s = now_us as f64 / 1e6;
                    self.outcome.totals.begin_steps(now_us);
                    return self.begin_step(0, now_us);
                }
            }
            Phase::Holding(step, until_us)
                if now_us >= until_us && step + 1 < self.course.steps.len() =>
            {
                // Within two intervals, every process reports once more after the end of the step.
                let from_us = now_us + 2 * self.interval_us;
                let until_us = from_us + self.course.settle_us;
                self.phase = Phase::Between(step, from_us, until_us);
                let pause = Command::Publish(Rates::default());
                return self.send(Role::Publisher, &pause);
            }
            Phase::Between(step, from_us, until_us)
                if now_us >= until_us
                    || now_us >= from_us
                        && self.all(Role::Publisher, Stage::Ready)
                        && self.outcome.totals.incomplete() == 0 =>
            {
                self.end_step(step, now_us);
                return self.begin_step(step + 1, now_us);
            }
            Phase::Holding(_, until_us) if now_us >= until_us => {
                self.phase = Phase::Stopping(now_us + self.course.settle_us);
                return self.send(Role::Publisher, &Command::StopPublishing);
            }
            Phase::Stopping(until_us)
                if now_us >= until_us || self.all(Role::Publisher, Stage::Settled) =>
            {
                self.phase = Phase::Settling(now_us + self.course.settle_us);
                let confirmed = self.outcome.totals.confirmed.clone();
                return self.send(Role::Receiver, &Command::Settle(confirmed));
            }
            Phase::Settling(until_us)
                if now_us >= until_us || self.all(Role::Receiver, Stage::Settled) =>
            {
                return self.end();
            }
            Phase::Ending(until_us) if now_us >= until_us => {
                // Kill only once.
                self.phase = Phase::Ending(u64::MAX);
                self.kill_all();
            }
            _ => {}
        }
        Ok(())
    }

    fn begin_step(&mut self, step: usize, now_us: u64) -> Result<(), Error> {
        let Some(Step { hold_us, rates, .. }) = self.course.steps.get(step) else {
            // A run without steps ends when all clients are connected.
            return self.end();
        };
        self.phase = Phase::Holding(step, now_us + hold_us);
        let command = Command::Publish(*rates);
        self.outputs
            .begin_step(&self.course.steps[step].name, now_us);
        self.send(Role::Publisher, &command)
    }

    fn end_step(&mut self, step: usize, now_us: u64) {
        let step = &self.course.steps[step];
        self.outcome.totals.end_step(step, now_us);
        self.outputs.end_step(&step.name, now_us);
    }

    fn end(&mut self) -> Result<(), Error> {
        let now_us = self.clock.now_us();
        match self.phase {
            Phase::Working | Phase::Ending(_) => {}
            Phase::Holding(step, _) | Phase::Between(step, ..) => self.end_step(step, now_us),
            Phase::Stopping(_) | Phase::Settling(_) => {
                if let Some(last) = self.course.steps.len().checked_sub(1) {
                    self.end_step(last, now_us);
                }
            }
        }
        self.phase = Phase::Ending(self.clock.now_us() + END_US);
        for role in [Role::Exchanger, Role::Receiver, Role::Publisher] {
            self.send(role, &Command::Close)?;
        }
        Ok(())
    }

    fn send(&mut self, role: Role, command: &Command) -> Result<(), Error> {
        let connected = |child: &&mut Child| child.role == role && child.connected;
        for child in self.children.iter_mut().filter(connected) {
            match child.link.send(command) {
                // The child has exited; its pipe and exit status report that.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                sent => sent.map_err(Error::system("commanding a process"))?,
            }
        }
        Ok(())
    }

    fn kill_all(&mut self) {
        for child in self.children.iter().filter(|child| child.exit.is_none()) {
            // The child may have just exited.
            let _ = process::kill(child.pid, SIGKILL);
        }
    }

    fn all(&self, role: Role, stage: Stage) -> bool {
        let mut of_role = self.children.iter().filter(|child| child.role == role);
        of_role.all(|child| child.stage >= stage)
    }

    fn phase_end_us(&self) -> u64 {
        match self.phase {
            Phase::Working => u64::MAX,
            // From the first time on, a report may end the phase, so wake only at the second.
            Phase::Between(_, from_us, until_us) => {
                if self.clock.now_us() < from_us {
                    from_us
                } else {
                    until_us
                }
            }
            Phase::Holding(_, until_us)
            | Phase::Stopping(until_us)
            | Phase::Settling(until_us)
            | Phase::Ending(until_us) => until_us,
        }
    }

    fn phase_name(&self) -> &str {
        let exchanges = |child: &Child| child.role == Role::Exchanger;
        match self.phase {
            Phase::Working if self.children.iter().any(exchanges) => "running",
            Phase::Working => "connecting",
            Phase::Holding(step, _) => &self.course.steps[step].name,
            Phase::Between(..) | Phase::Stopping(_) | Phase::Settling(_) => "settling",
            Phase::Ending(_) => "ending",
        }
    }
}
