//! `fermata top`: a running server on one screen, once a second.

mod frame;
mod terminal;

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use fermata_engine::stats::Snapshot;

use crate::control::Control;
use crate::error::{Error, at};
use crate::format;
use frame::Size;
use terminal::{Key, Terminal};

/// How often the screen is new.
const REFRESH: Duration = Duration::from_secs(1);

/// What `--once` draws on unless its output is a terminal: the screen of old, but high enough for all.
const ONCE_SIZE: Size = Size {
    columns: 80,
    rows: 120,
};

/// Watch a running server: rates, workers, busiest channels, slowest clients.
///
/// Refreshed every second; q ends it.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    control: Control,
    /// Print one frame as plain text after watching for a second, and end
    #[arg(long)]
    once: bool,
}

/// How wide the terminal is that standard output goes to; `None` when it goes to none.
pub fn columns() -> Option<usize> {
    terminal::size().map(|it| it.columns)
}

/// Runs the command.
///
/// # Errors
/// One sentence for the user.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let server = arguments.control.server()?;
    let snapshot = || server.snapshot().map_err(Error::from);
    let first = snapshot()?;
    if arguments.once {
        // What is sampled becomes known with the second look.
        thread::sleep(REFRESH.mul_f32(1.2));
        let size = terminal::size().unwrap_or(ONCE_SIZE);
        let rows = size.rows.max(ONCE_SIZE.rows);
        let size = Size { rows, ..size };
        let lines = frame::draw(Some(&first), &snapshot()?, None, size);
        let texts: String = lines
            .iter()
            .map(|line| line.text.trim_end().to_owned() + "\n")
            .collect();
        return format::print(&texts);
    }
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Error::Misuse(
            "this is not a terminal; --once prints one frame anywhere".to_owned(),
        ));
    }
    watch(first, &snapshot).map_err(at("terminal"))
}

fn watch(first: Snapshot, snapshot: &dyn Fn() -> Result<Snapshot, Error>) -> io::Result<()> {
    let mut terminal = Terminal::enter()?;
    let (mut before, mut now) = (None, first);
    let mut failure = None::<String>;
    let mut due = Instant::now() + REFRESH;
    loop {
        let size = terminal::size().unwrap_or(ONCE_SIZE);
        let lines = frame::draw(before.as_ref(), &now, failure.as_deref(), size);
        terminal.show(&lines, size)?;
        let left = due.saturating_duration_since(Instant::now());
        match terminal.wait(left.as_millis() as u64)? {
            Key::Quit => return Ok(()),
            // The size has changed, or another key was pressed: the same again, in its new size.
            Key::Other => continue,
            Key::None => due = Instant::now() + REFRESH,
        }
        match snapshot() {
            Ok(next) => {
                // Another server may have taken the place of this one: its counters are its own.
                let is_same = next.started_unix_ms == now.started_unix_ms && next.pid == now.pid;
                before = is_same.then_some(std::mem::replace(&mut now, next));
                failure = None;
            }
            Err(error) => failure = Some(error.to_string()),
        }
    }
}
