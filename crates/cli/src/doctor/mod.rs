//! `fermata doctor`: what of this machine keeps a server from starting or from being fast, and what to type.

mod checks;

use fermata_engine::mask_secrets;

use crate::error::Error;
use crate::format;
use crate::php;
use checks::{Check, Verdict};

/// Look at kernel, limits, PHP, certificates and ports, and say what to type.
///
/// Ends with 1 when something keeps a server from starting. It reads the same environment variables as the server, so run
/// it as the server's user and with its environment.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    php: php::Arguments,
    /// The server's first address, to see whether its port is free
    #[arg(
        long,
        env = "FERMATA_LISTEN",
        value_name = "http://HOST:PORT",
        default_value = "http://127.0.0.1:8080"
    )]
    listen: String,
    /// The clients a worker is to hold, to judge limits by
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    clients: u64,
    /// Print JSON: a list of checks
    #[arg(long)]
    json: bool,
}

/// Runs the command. False: something is bad.
///
/// # Errors
/// One sentence for the user.
pub fn run(arguments: &Arguments) -> Result<bool, Error> {
    let found = checks::all(&arguments.php, &arguments.listen, arguments.clients);
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&found)? + "\n",
        false => shown(&found),
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
