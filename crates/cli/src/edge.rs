//! `fermata edge`: each setting of the edge is a command-line option, a key in the TOML file and an environment variable.

use std::path::{Path, PathBuf};

use crate::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use fermata_edge::settings::{Kind, Place, Settings, read_pushpin, read_toml, table};
use fermata_engine::mask_secrets;

/// Hold clients in front of any backend, as Pushpin does
///
/// Settings come from a file, from the environment (FERMATA_EDGE_ and the name in capitals) and from these options; later
/// ones override earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    config: Option<PathBuf>,
    pushpin_config: Option<PathBuf>,
    /// Names and values of the settings given as options.
    given: Vec<(&'static str, Vec<String>)>,
}

impl clap::Args for Arguments {
    fn augment_args(command: Command) -> Command {
        let command = command
            .about("Hold clients in front of any backend, as Pushpin does")
            .after_help(
                "Every option is also a key of the TOML file and an environment variable: --sig-key is sig_key and \
                 FERMATA_EDGE_SIG_KEY. Options win over the environment, which wins over the file.",
            )
            .arg(
                Arg::new("config")
                    .long("config")
                    .value_name("FILE")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("Settings as TOML"),
            )
            .arg(
                Arg::new("pushpin_config")
                    .long("pushpin-config")
                    .value_name("DIR")
                    .value_parser(clap::value_parser!(PathBuf))
                    .conflicts_with("config")
                    .help("A configuration directory of Pushpin: pushpin.conf and what it names"),
            );
        table().iter().fold(command, |command, setting| {
            let action = match setting.kind {
                Kind::Lines => ArgAction::Append,
                _ => ArgAction::Set,
            };
            let help = match setting.default {
                "" => setting.doc.to_owned(),
                default => format!("{} [default: {default}]", setting.doc),
            };
            command.arg(
                Arg::new(setting.name)
                    .long(lasting(setting.name.replace('_', "-")))
                    .value_name(lasting(setting.name.to_ascii_uppercase()))
                    .action(action)
                    .help(help),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut arguments = Self {
            config: matches.get_one("config").cloned(),
            pushpin_config: matches.get_one("pushpin_config").cloned(),
            given: Vec::new(),
        };
        for setting in table() {
            if let Some(values) = matches.get_many::<String>(setting.name) {
                arguments
                    .given
                    .push((setting.name, values.cloned().collect()));
            }
        }
        Ok(arguments)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs the edge and returns the exit code.
pub fn run(arguments: &Arguments) -> Result<i32, Error> {
    let mut settings = Settings::default();
    let mut directory = PathBuf::from(".");
    if let Some(path) = &arguments.pushpin_config {
        directory.clone_from(path);
        let file = path.join("pushpin.conf");
        let text = read(&file)?;
        let notices = read_pushpin(&mut settings, &file.display().to_string(), &text)?;
        for notice in notices {
            eprintln!("fermata edge: {}", mask_secrets(&notice.to_string()));
        }
    }
    if let Some(path) = &arguments.config {
        directory = path.parent().map_or(directory, Path::to_owned);
        read_toml(&mut settings, &path.display().to_string(), &read(path)?)?;
    }
    let variables = fermata_engine::environment()?;
    settings.set_environment(variables)?;
    for (name, values) in &arguments.given {
        settings.set(Place::Option, name, values)?;
    }
    fermata_edge::server::run(settings, &directory, fermata_gateway::open_post).map_err(Error::from)
}

/// Leaks a text, because clap requires `'static` names. The number of settings bounds the leak.
fn lasting(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|error| {
        Error::Misuse(format!(
            "{}: {error}; does it exist, and may this user read it?",
            path.display()
        ))
    })
}
