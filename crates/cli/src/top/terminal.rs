//! The terminal: taken over while `Terminal` lives, given back however the program ends.

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};

use fermata_io::Driver;
use fermata_io::signal::{Pipe, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use fermata_io::sys::epoll::Epoll;
use rustix::termios::{self, OptionalActions, SpecialCodeIndex, Termios};

use super::frame::{Line, Size, Style};

const TOKEN_KEYS: u64 = 0;
const TOKEN_SIGNALS: u64 = 1;

/// The other screen, no cursor, and no wrapping: a line that is too long (wide characters) is cut.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// What the user did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Nothing.
    None,
    /// Wants to end: `q`, Ctrl-C, Ctrl-D, or a signal.
    Quit,
    /// Resized the terminal, or pressed what has no meaning.
    Other,
}

/// A terminal in raw mode that shows the other screen.
pub struct Terminal {
    before: Termios,
    signals: Pipe,
    driver: Epoll,
}

/// The size of the terminal; `None` when there is none.
pub fn size() -> Option<Size> {
    let size = termios::tcgetwinsize(io::stdout()).ok()?;
    let is_known = size.ws_col > 0 && size.ws_row > 0;
    is_known.then_some(Size {
        columns: usize::from(size.ws_col),
        rows: usize::from(size.ws_row),
    })
}

impl Terminal {
    /// Takes the terminal over.
    pub fn enter() -> io::Result<Terminal> {
        let signals = Pipe::install(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH])?;
        let mut driver = Epoll::new()?;
        driver.add_wake(io::stdin().as_fd().as_raw_fd(), TOKEN_KEYS)?;
        driver.add_wake(signals.fd(), TOKEN_SIGNALS)?;
        let before = termios::tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        // A read returns what there is.
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        termios::tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        let terminal = Terminal {
            before,
            signals,
            driver,
        };
        write(ENTER)?;
        Ok(terminal)
    }

    /// Draws a frame over the last one.
    pub fn show(&mut self, lines: &[Line], size: Size) -> io::Result<()> {
        // Synchronized, where the terminal can: it shows the frame as a whole.
        let mut out = String::from("\x1b[?2026h\x1b[H");
        for (at, line) in lines.iter().enumerate() {
            if at > 0 {
                out += "\r\n";
            }
            let style = match line.style {
                Style::Plain => "",
                Style::Bold => "\x1b[1m",
                Style::Reverse => "\x1b[7m",
            };
            // Erased first: behind a line as long as the terminal is wide, its last column would go.
            out += "\x1b[2K";
            out += style;
            out += &line.text;
            out += "\x1b[0m";
        }
        if lines.len() < size.rows {
            // Nothing of a longer frame stays below.
            out += "\r\n\x1b[J";
        }
        out += "\x1b[?2026l";
        write(&out)
    }

    /// Waits for the user.
    pub fn wait(&mut self, timeout_ms: u64) -> io::Result<Key> {
        let mut events = Vec::new();
        self.driver.wait(&mut events, Some(timeout_ms))?;
        let mut key = Key::None;
        while let Some(signal) = self.signals.read() {
            if signal != SIGWINCH {
                return Ok(Key::Quit);
            }
            key = Key::Other;
        }
        if events.iter().any(|event| event.token == TOKEN_KEYS) {
            let mut pressed = [0; 64];
            let length = rustix::io::read(io::stdin(), &mut pressed[..])?;
            // Nothing to read although there is something: the terminal is gone.
            if length == 0
                || pressed[..length]
                    .iter()
                    .any(|key| b"qQ\x03\x04".contains(key))
            {
                return Ok(Key::Quit);
            }
            key = Key::Other;
        }
        Ok(key)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The terminal may be gone; there is nobody to tell.
        let _ = write(LEAVE);
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
