//! Unix sockets through which workers connect to each other.

pub(crate) use fermata_engine::{Rendezvous, SocketFile};

use crate::error::StartError;
use crate::settings::Settings;

/// Creates a socket. Errors contain the name of `setting`; `ending` makes the socket's path unique.
pub(crate) fn bind(
    setting: &str,
    ending: &str,
    settings: &Settings,
) -> Result<Rendezvous, StartError> {
    let name = |text: &String| Some(text.clone()).filter(|it| !it.is_empty());
    let bound = Rendezvous::bind("edge", ending, name(&settings.user), name(&settings.group));
    bound.map_err(|error| StartError::Setting(format!("{setting}: {error}")))
}
