//! `fermata doctor`: checks whether this machine can run a server well, and prints fixes.

mod checks;

use fermata_engine::mask_secrets;

use crate::error::Error;
use crate::format;
use crate::php;
use checks::{Check, Verdict};

/// Check kernel, limits, PHP, certificates and ports, and print the commands that fix problems.
///
/// Exits with 1 if a server cannot start. The command reads the same environment variables as the server, so run it as the
/// server's user and with its environment.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    php: php::Arguments,
    /// The server's first address, whose port is checked
    #[arg(
        long,
        env = "FERMATA_LISTEN",
        value_name = "http://HOST:PORT",
        default_value = "http://127.0.0.1:8080"
    )]
    listen: String,
    /// Number of clients per worker that the limits must allow
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    clients: u64,
    /// Print JSON: a list of checks
    #[arg(long)]
    json: bool,
}

/// Runs the checks; returns false if a check has the verdict [`Bad`](checks::Verdict::Bad).
///
/// # Errors
/// Fails with a message for the user if the output fails.
pub fn run(arguments: &Arguments) -> Result<bool, Error> {
    let found = checks::all(&arguments.php, &arguments.listen, arguments.clients);
    let text = if arguments.json {
        serde_json::to_string_pretty(&found)? + "\n"
    } else {
        shown(&found)
    };
    format::print(&mask_secrets(&text))?;
    Ok(found.iter().all(|it| it.verdict != Verdict::Bad))
}

fn shown(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let mark = match check.verdict {
            Verdict::Good => "ok  ",
            Verdict::Warning => "warn",
            Verdict::Bad => "BAD ",
        };
        text += &format!("{mark}  {:14} {}\n", check.name, check.found);
        for line in check.advice.lines() {
            text += &format!("{:21}-> {line}\n", "");
        }
    }
    let count = |verdict| checks.iter().filter(|it| it.verdict == verdict).count();
    let (bad, warnings) = (count(Verdict::Bad), count(Verdict::Warning));
    text + &match (bad, warnings) {
        (0, 0) => "\nNothing stands in a server's way.\n".to_owned(),
        (0, _) => format!("\nA server runs here; {warnings} could be better.\n"),
        _ => format!("\n{bad} to mend before a server runs well, {warnings} could be better.\n"),
    }
}
