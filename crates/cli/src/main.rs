//! The `fermata` command: the part of Fermata that needs no PHP.

#![forbid(unsafe_code)]

use clap::{CommandFactory, Parser};

/// Native real-time server for PHP.
///
/// The server itself is the PHP extension: load fermata.so and start your script with `php server.php`.
/// This command carries what works without PHP; it has no subcommand yet.
#[derive(Parser)]
#[command(name = "fermata", version)]
struct Arguments {}

fn main() -> std::io::Result<()> {
    Arguments::parse();
    // Nothing was asked for: say what there is, as `--help` would.
    Arguments::command().print_long_help()
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
