//! The `fermata` command: starts and inspects servers, and runs the parts of Fermata that need no PHP.

#![forbid(unsafe_code)]

mod child;
mod cluster;
mod completions;
mod control;
mod dev;
mod doctor;
mod edge;
mod error;
mod format;
mod hub;
mod php;
mod publish;
mod scaffold;
mod serve;
mod stats;
mod top;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use error::Error;
use fermata_engine::{mask_secrets, unknown_variables};

/// Exit code of a command that ran but whose check failed.
const EXIT_FAILED: u8 = 1;
/// Exit code of a command that could not run; clap uses the same code for invalid options.
const EXIT_MISUSED: u8 = 2;

/// Native real-time server for PHP.
///
/// A server is a PHP script. `fermata serve server.php` runs it, as `php server.php` does if PHP loads fermata.so. The other
/// commands work without PHP.
#[derive(Parser)]
#[command(
    name = "fermata",
    version,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(name = child::CHILD_COMMAND, hide = true)]
    Child(child::Arguments),
    Cluster(cluster::Arguments),
    Completions(completions::Shells),
    Dev(Box<dev::Arguments>),
    Doctor(doctor::Arguments),
    Edge(edge::Arguments),
    Hub(Box<hub::Arguments>),
    Load(Box<fermata_load::Arguments>),
    Man(completions::Pages),
    New(scaffold::Arguments),
    Publish(Box<publish::Arguments>),
    Routes(dev::RoutesArguments),
    Serve(Box<serve::Arguments>),
    #[command(name = serve::LINES_COMMAND, hide = true)]
    ServeLines,
    Stats(stats::Arguments),
    Top(top::Arguments),
}

fn main() -> ExitCode {
    // Wrap help text only on a terminal; other programs that read help get unwrapped lines.
    let matches = Arguments::command()
        .term_width(top::columns().unwrap_or(0))
        .get_matches();
    let parsed = Arguments::from_arg_matches(&matches)
        .unwrap_or_else(|error| error.exit())
        .command;
    // Servers log unknown variables themselves. Other commands print them only on failure. Commands that contact a server always
    // print them, because a mistyped variable could make them contact the wrong server.
    let asks_server = matches!(
        parsed,
        Command::Publish(_) | Command::Stats(_) | Command::Top(_)
    );
    if asks_server {
        tell_unknown_variables();
    }
    let (command, outcome) = match parsed {
        Command::Child(arguments) => (child::CHILD_COMMAND, child::run(&arguments).map(|()| true)),
        Command::Cluster(arguments) => ("cluster", cluster::run(&arguments).map(|()| true)),
        Command::Completions(arguments) => (
            "completions",
            completions::write(&arguments, Arguments::command()).map(|()| true),
        ),
        Command::Dev(arguments) => ("dev", dev::run(&arguments).map(|()| true)),
        Command::Doctor(arguments) => ("doctor", doctor::run(&arguments)),
        Command::Edge(arguments) => match edge::run(&arguments) {
            Ok(code) => return ExitCode::from(u8::try_from(code).unwrap_or(EXIT_FAILED)),
            Err(error) => ("edge", Err(error)),
        },
        Command::Hub(arguments) => match hub::run(&arguments) {
            Ok(code) => return ExitCode::from(u8::try_from(code).unwrap_or(EXIT_FAILED)),
            Err(error) => ("hub", Err(error)),
        },
        Command::Load(arguments) => ("load", fermata_load::run(&arguments).map_err(Error::from)),
        Command::Publish(arguments) => ("publish", publish::run(&arguments).map(|()| true)),
        Command::Man(arguments) => (
            "man",
            completions::write_pages(&arguments, Arguments::command()).map(|()| true),
        ),
        Command::New(arguments) => ("new", scaffold::run(&arguments).map(|()| true)),
        Command::Routes(arguments) => ("routes", dev::routes(&arguments).map(|()| true)),
        Command::Serve(arguments) => ("serve", serve::run(&arguments).map(|()| true)),
        Command::ServeLines => (serve::LINES_COMMAND, serve::show_lines().map(|()| true)),
        Command::Stats(arguments) => ("stats", stats::run(&arguments).map(|()| true)),
        Command::Top(arguments) => ("top", top::run(&arguments).map(|()| true)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_FAILED),
        Err(error) => {
            eprintln!("fermata {command}: {}", mask_secrets(&error.to_string()));
            if !asks_server {
                tell_unknown_variables();
            }
            ExitCode::from(EXIT_MISUSED)
        }
    }
}

/// Prints the environment variables that look like settings but are not.
fn tell_unknown_variables() {
    // The code that reads a setting rejects values that are not UTF-8.
    let variables = fermata_engine::environment().unwrap_or_default();
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| (name.as_str(), value.as_str()));
    for sentence in unknown_variables(variables) {
        eprintln!("fermata: {sentence}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_version_is_that_of_the_workspace() {
        assert_eq!(
            Arguments::command().get_version(),
            Some(env!("CARGO_PKG_VERSION"))
        );
    }
}
