//! The `fermata` command: the part of Fermata that needs no PHP.

#![forbid(unsafe_code)]

mod control;
mod edge;
mod format;
mod publish;
mod stats;
mod top;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a run whose verification failed ends with.
const EXIT_FAILED: u8 = 1;
/// What a command that could not be carried out ends with, as clap does for bad options.
const EXIT_MISUSED: u8 = 2;

/// Native real-time server for PHP.
///
/// The server itself is the PHP extension: load fermata.so and start your script with `php server.php`.
/// This command carries what works without PHP.
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
    Edge(edge::Arguments),
    Load(Box<fermata_load::Arguments>),
    Publish(Box<publish::Arguments>),
    Stats(stats::Arguments),
    Top(top::Arguments),
}

fn main() -> ExitCode {
    let (command, outcome) = match Arguments::parse().command {
        Command::Edge(arguments) => match edge::run(&arguments) {
            Ok(code) => return ExitCode::from(u8::try_from(code).unwrap_or(EXIT_FAILED)),
            Err(error) => ("edge", Err(error)),
        },
        Command::Load(arguments) => (
            "load",
            fermata_load::run(&arguments).map_err(|error| error.to_string()),
        ),
        Command::Publish(arguments) => ("publish", publish::run(&arguments).map(|()| true)),
        Command::Stats(arguments) => ("stats", stats::run(&arguments).map(|()| true)),
        Command::Top(arguments) => ("top", top::run(&arguments).map(|()| true)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_FAILED),
        Err(error) => {
            eprintln!("fermata {command}: {error}");
            ExitCode::from(EXIT_MISUSED)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

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
