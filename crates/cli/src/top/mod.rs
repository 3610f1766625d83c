//! `fermata top`: shows a running server on one screen, refreshed every second.

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

/// Refresh interval.
const REFRESH: Duration = Duration::from_secs(1);

/// Size of a `--once` frame if the output is not a terminal: 80 columns, and enough rows for all sections.
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
    /// Observe for a second, print one frame as plain text and exit
    #[arg(long)]
    once: bool,
}

/// Returns the width of the terminal on standard output, or `None` if it is not a terminal.
pub fn columns() -> Option<usize> {
    terminal::size().map(|it| it.columns)
}

/// Runs the command.
///
/// # Errors
/// Fails with a message for the user if no server responds or the terminal fails.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let server = arguments.control.server()?;
    let snapshot = || server.snapshot().map_err(Error::from);
    let first = snapshot()?;
    if arguments.once {
        // The first query starts the server's sampling; the second one returns the samples.
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
            // The window was resized or another key was pressed: redraw without a new query.
            Key::Other => continue,
            Key::None => due = Instant::now() + REFRESH,
        }
        match snapshot() {
            Ok(next) => {
                // After a restart the counters start at zero, so rates between the two snapshots would be wrong.
                let is_same = next.started_unix_ms == now.started_unix_ms && next.pid == now.pid;
                before = is_same.then_some(std::mem::replace(&mut now, next));
                failure = None;
            }
            Err(error) => failure = Some(error.to_string()),
        }
    }
}
