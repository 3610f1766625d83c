//! The user of workers, if the server was started as root.
//!
//! The master stays root. It runs no handler and reads no client data. As root it can read renewed
//! keys, recreate log files, and inspect and kill its workers.

use std::os::unix::fs::lchown;
use std::path::Path;

use fermata_config::Settings;
use fermata_io::process::{self, ROOT};
use fermata_io::users::{self, GROUPS, USERS, UnknownName};

use crate::admin::trace::Sink;

/// Why workers cannot change their user.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A group without a user.
    #[error("group: cannot change the group without a user; set user as well")]
    GroupAlone,
    /// An unknown user.
    #[error("user: {0}")]
    User(#[source] UnknownName),
    /// An unknown group.
    #[error("group: {0}")]
    Group(#[source] UnknownName),
    /// A numeric user that is not in the user database.
    #[error("user: {0} is not in {USERS}, so its group is not known; set group")]
    NoGroup(String),
    /// The server was not started as root.
    #[error(
        "user: only root can become {name}, and this is user {own}; start the server as root or as {name}"
    )]
    NotRoot {
        /// The setting.
        name: String,
        /// The server's user id.
        own: u32,
    },
    /// The kernel refuses to change the user.
    #[error(
        "user: cannot change the user of this process: {0}; grant it CAP_SETUID and CAP_SETGID"
    )]
    Refused(#[source] std::io::Error),
}

/// User and groups of workers.
pub(super) struct Identity {
    user: u32,
    group: u32,
    groups: Vec<u32>,
}

impl Identity {
    /// Returns the identity in the settings; `None` = keep the user.
    pub(super) fn of(settings: &Settings) -> Result<Option<Identity>, IdentityError> {
        let Some(name) = &settings.user else {
            return match &settings.group {
                None => Ok(None),
                Some(_) => Err(IdentityError::GroupAlone),
            };
        };
        let account = users::account(name, Path::new(USERS), Path::new(GROUPS))
            .map_err(IdentityError::User)?;
        let group = match (&settings.group, account.group) {
            (Some(group), _) => {
                users::number(group, Path::new(GROUPS)).map_err(IdentityError::Group)?
            }
            (None, Some(group)) => group,
            (None, None) => return Err(IdentityError::NoGroup(name.clone())),
        };
        match process::user() {
            ROOT => Ok(Some(Identity {
                user: account.user,
                group,
                groups: match settings.group {
                    None => account.groups,
                    Some(_) => Vec::new(),
                },
            })),
            own if own == account.user => Ok(None),
            own => Err(IdentityError::NotRoot {
                name: name.clone(),
                own,
            }),
        }
    }

    /// Changes the user of this process, which will run handlers.
    pub(super) fn take_on(&self) -> Result<(), IdentityError> {
        process::become_user(self.user, self.group, &self.groups).map_err(IdentityError::Refused)
    }

    /// Gives a new socket to the workers' user. Does not follow a link, because this user may have
    /// replaced the socket by a link.
    pub(super) fn own(&self, path: &Path) -> std::io::Result<()> {
        lchown(path, Some(self.user), Some(self.group))
    }

    /// Gives the access log to the workers' user.
    pub(super) fn own_log(&self, log: &Sink) -> std::io::Result<()> {
        log.give(self.user, self.group)
    }
}

/// Returns the warning of a server whose workers run as root.
pub(super) fn warning(identity: Option<&Identity>) -> Option<String> {
    (identity.is_none() && process::user() == ROOT).then(|| {
        "workers run as root, so a mistake in one can do anything to this machine; set user (to www-data, or one of its own), \
         or start the server as another user"
            .to_owned()
    })
}
