//! Formats access log lines for a terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use fermata_io::signal::{Pipe, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use serde::Deserialize;

use crate::error::{Error, at};
use crate::format;
use crate::top::columns;

/// Maximum length of a parsed line; the server's own lines are far shorter. Longer lines pass unchanged.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Width of the request column, and its minimum in a narrow terminal.
const TARGET_WIDTH: usize = 40;
const TARGET_WIDTH_MIN: usize = 8;
/// Width of all other columns, for worker numbers below 100.
const REST_WIDTH: usize = 51;

/// Access log line in JSON; other lines are output of the script.
#[derive(Deserialize)]
struct Request {
    time: String,
    method: String,
    target: String,
    status: u16,
    bytes: u64,
    duration_ms: f64,
    worker: u32,
}

/// Copies standard input to the terminal until the last process of the server closes the pipe.
///
/// # Errors
/// Fails with a message for the user if the input cannot be read.
pub fn run() -> Result<(), Error> {
    // Survive Ctrl+C: the server still writes lines while it stops.
    let _pipe = Pipe::install(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT]).map_err(at("signals"))?;
    let is_coloured = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut input = io::stdin().lock();
    let mut output = io::stdout().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = io::Read::take(&mut input, LINE_BYTES_MAX as u64).read_until(b'\n', &mut line);
        match read {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::Misuse(format!("standard input: {error}"))),
        }
        let written = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => {
                // Queried for each line, because the window can be resized.
                let line = request.shown(is_coloured, target_width(columns()));
                output.write_all(line.as_bytes())
            }
            Err(_) => output.write_all(&line),
        };
        if written.and_then(|()| output.flush()).is_err() {
            // The terminal was closed; the server keeps running.
            return Ok(());
        }
    }
}

impl Request {
    fn shown(&self, is_coloured: bool, target_width: usize) -> String {
        // Time of day in "2026-11-22T07:12:02.123Z".
        let time = self.time.get(11..19).unwrap_or(&self.time);
        let colour = match self.status {
            101 => "35",
            200..300 => "32",
            300..400 => "36",
            400..500 => "33",
            _ => "31",
        };
        let (begin, end, dim) = if is_coloured {
            (format!("\x1b[{colour}m"), "\x1b[0m", "\x1b[2m")
        } else {
            (String::new(), "", "")
        };
        format!(
            "{dim}{time}{end} {begin}{}{end} {:7} {:target_width$} {:>9} {:>9} {dim}worker {}{end}\n",
            self.status,
            format::harmless(&self.method),
            format::harmless(&self.target),
            took(self.duration_ms),
            format::bytes(self.bytes),
            self.worker,
        )
    }
}

fn target_width(columns: Option<usize>) -> usize {
    columns.map_or(TARGET_WIDTH, |it| {
        it.saturating_sub(REST_WIDTH)
            .clamp(TARGET_WIDTH_MIN, TARGET_WIDTH)
    })
}

fn took(ms: f64) -> String {
    match ms {
        ..10.0 => format!("{ms:.2} ms"),
        ..1_000.0 => format!("{ms:.0} ms"),
        _ => format::duration(ms as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"time":"2026-11-22T07:12:02.123Z","client":"127.0.0.1","port":1,"method":"GET","target":"/a\u001b[2J","protocol":"HTTP/1.1","referer":"","user_agent":"","status":404,"bytes":9,"duration_ms":0.25,"worker":1}"#;

    #[test]
    fn a_request_is_one_line_that_steers_no_terminal() {
        let request: Request = serde_json::from_str(LINE).expect("the format of the server");
        let shown = request.shown(false, TARGET_WIDTH);
        assert!(
            shown.starts_with("07:12:02 404 GET     /a?[2J "),
            "{shown:?}"
        );
        assert!(
            shown.ends_with(" 0.25 ms       9 B worker 1\n"),
            "{shown:?}"
        );
        assert!(
            request
                .shown(true, TARGET_WIDTH)
                .contains("\x1b[33m404\x1b[0m")
        );
    }

    #[test]
    fn a_line_fits_sixty_columns() {
        let mut request: Request = serde_json::from_str(LINE).expect("the format of the server");
        request.worker = 99;
        let shown = request.shown(false, target_width(Some(60)));
        assert_eq!(shown.trim_end().chars().count(), 60, "{shown:?}");
        assert_eq!(target_width(None), TARGET_WIDTH);
        assert_eq!(target_width(Some(20)), TARGET_WIDTH_MIN);
    }
}
