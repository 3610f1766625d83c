//! `fermata routes`: lists the routes of a script without serving it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde::{Deserialize, Serialize};

use super::place::Place;
use crate::error::{Error, at};
use crate::format::{self, harmless};
use crate::php;

/// PHP file that makes run() write the routes instead of serving.
const LIST: &str = include_str!("routes.php");

/// Maximum number of routes shown at a server start; `fermata routes` shows all.
const SHOWN_MAX: usize = 40;

/// List the routes of a script. The script runs up to run(), and nothing is served.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    php: php::Arguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// PHP script that creates the server and calls run()
    program: PathBuf,
    /// Arguments of the script
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

/// Route as returned by Server::routes().
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Route {
    pub kind: String,
    /// HTTP method; empty for all methods.
    pub method: String,
    pub path: String,
    pub handler: String,
}

/// Prints the routes.
///
/// # Errors
/// Fails with a message for the user if the script does not reach run().
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let php = arguments.php.find()?;
    crate::serve::check(&php)?;
    if !arguments.program.is_file() {
        return Err(Error::Misuse(format!(
            "{}: no such file",
            arguments.program.display()
        )));
    }
    let place = Place::new()?;
    let (tool, found) = (
        place.path().join("list.php"),
        place.path().join("routes.json"),
    );
    fs::write(&tool, LIST).map_err(at(tool.display()))?;
    let mut command = php.command(false);
    let output = command
        .args(["-d", "display_errors=stderr", "-d", "log_errors=0"])
        .arg(&arguments.program)
        .args(&arguments.arguments)
        .env("FERMATA_DEVELOPMENT", &tool)
        .stdin(Stdio::null())
        .output()
        .map_err(at(php.program.display()))?;
    let Ok(json) = fs::read_to_string(&found) else {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(Error::Misuse(match stderr.trim() {
            "" => "the program has ended without calling run()".to_owned(),
            stderr => format!("the program has no routes to tell: {stderr}"),
        }));
    };
    let routes: Vec<Route> = serde_json::from_str(&json)?;
    if arguments.json {
        format::print(&(json + "\n"))
    } else {
        format::print(&table(&routes))
    }
}

/// Formats at most [`SHOWN_MAX`] routes, for the start of a server.
pub fn shown(routes: &[Route]) -> String {
    let mut text = table(&routes[..routes.len().min(SHOWN_MAX)]);
    if routes.len() > SHOWN_MAX {
        let _ = writeln!(
            text,
            "  and {} more: fermata routes",
            routes.len() - SHOWN_MAX
        );
    }
    text
}

fn table(routes: &[Route]) -> String {
    let width = routes.iter().map(|route| route.path.chars().count());
    let width = width.max().unwrap_or(0).min(50);
    let own = std::env::current_dir().unwrap_or_default();
    let own = format!("{}/", own.display());
    routes.iter().fold(String::new(), |mut text, route| {
        let method = match (&route.kind[..], &route.method[..]) {
            ("static", _) => "files",
            ("websocket", _) => "socket",
            (_, "") => "any",
            (_, method) => method,
        };
        let handler = route.handler.strip_prefix(&own).unwrap_or(&route.handler);
        let (path, handler) = (harmless(&route.path), harmless(handler));
        let _ = writeln!(text, "  {method:7} {path:width$}  {handler}");
        text
    })
}
