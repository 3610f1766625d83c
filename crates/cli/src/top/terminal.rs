//! Raw-mode access to the terminal, restored when `Terminal` is dropped.

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};

use fermata_io::Driver;
use fermata_io::signal::{Pipe, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use fermata_io::sys::epoll::Epoll;
use rustix::termios::{self, OptionalActions, SpecialCodeIndex, Termios};

use super::frame::{Line, Size, Style};

const TOKEN_KEYS: u64 = 0;
const TOKEN_SIGNALS: u64 = 1;

/// Alternate screen, hidden cursor, no wrapping: lines that are too long (wide characters) are cut.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Input of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Nothing.
    None,
    /// `q`, Ctrl-C, Ctrl-D, or a signal to stop.
    Quit,
    /// Resized window, or a key without a function.
    Other,
}

/// Terminal in raw mode on the alternate screen.
pub struct Terminal {
    before: Termios,
    signals: Pipe,
    driver: Epoll,
}

/// Returns the size of the terminal on standard output, or `None` if it is not a terminal.
pub fn size() -> Option<Size> {
    let size = termios::tcgetwinsize(io::stdout()).ok()?;
    let is_known = size.ws_col > 0 && size.ws_row > 0;
    is_known.then_some(Size {
        columns: usize::from(size.ws_col),
        rows: usize::from(size.ws_row),
    })
}

impl Terminal {
    /// Switches the terminal to raw mode and the alternate screen.
    pub fn enter() -> io::Result<Terminal> {
        let signals = Pipe::install(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH])?;
        let mut driver = Epoll::new()?;
        driver.add_wake(io::stdin().as_fd().as_raw_fd(), TOKEN_KEYS)?;
        driver.add_wake(signals.fd(), TOKEN_SIGNALS)?;
        let before = termios::tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        // VMIN = VTIME = 0: read() returns available bytes without blocking.
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

    /// Draws a frame over the previous one.
    pub fn show(&mut self, lines: &[Line], size: Size) -> io::Result<()> {
        // Synchronized output (mode 2026), if supported, shows the frame without flicker.
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
            // Erase before the text: after a full-width line, erasing would remove the last column.
            out += "\x1b[2K";
            out += style;
            out += &line.text;
            out += "\x1b[0m";
        }
        if lines.len() < size.rows {
            // Erase the rest of a longer previous frame.
            out += "\r\n\x1b[J";
        }
        out += "\x1b[?2026l";
        write(&out)
    }

    /// Waits for input, a signal or the timeout.
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
            // The descriptor is readable, but at the end of the file: the terminal was closed.
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
        // Ignore errors: the terminal may have been closed.
        let _ = write(LEAVE);
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
