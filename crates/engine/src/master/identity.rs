//! The rights of workers: those of another user when the server was started as root.
//!
//! The master stays root. It runs no handler and reads nothing that clients have sent; as root it can read keys that
//! were renewed, make log files anew, and look into and end its workers.

use std::os::unix::fs::lchown;
use std::path::Path;

use fermata_config::Settings;
use fermata_io::process::{self, ROOT};
use fermata_io::users::{self, GROUPS, USERS, UnknownName};

use crate::admin::trace::Sink;

/// Why workers cannot have the rights of the user that the settings name.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A group without a user.
    #[error("group: it says nothing without user; set user as well")]
    GroupAlone,
    /// The machine does not know the user.
    #[error("user: {0}")]
    User(#[source] UnknownName),
    /// Nor the group.
    #[error("group: {0}")]
    Group(#[source] UnknownName),
    /// The user is a number that is in no list.
    #[error("user: {0} is not in {USERS}, so its group is not known; set group")]
    NoGroup(String),
    /// The server was started as another user than root.
    #[error(
        "user: only root can become {name}, and this is user {own}; start the server as root or as {name}"
    )]
    NotRoot {
        /// The setting.
        name: String,
        /// What the server runs as.
        own: u32,
    },
    /// The kernel does not let root change it.
    #[error(
        "user: this process may not change its user: {0}; does the container allow it (SETUID, SETGID)?"
    )]
    Refused(#[source] std::io::Error),
}

/// The user and groups of workers.
pub(super) struct Identity {
    user: u32,
    group: u32,
    groups: Vec<u32>,
}

impl Identity {
    /// What the settings ask for; `None` where nothing is to be changed.
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

    /// Changes this process, which is to run handlers.
    pub(super) fn take_on(&self) -> Result<(), IdentityError> {
        process::become_user(self.user, self.group, &self.groups).map_err(IdentityError::Refused)
    }

    /// Gives a socket that root has just made to those who use it. They may be able to put a link in its place: that
    /// is not followed.
    pub(super) fn own(&self, path: &Path) -> std::io::Result<()> {
        lchown(path, Some(self.user), Some(self.group))
    }

    /// Gives them the access log.
    pub(super) fn own_log(&self, log: &Sink) -> std::io::Result<()> {
        log.give(self.user, self.group)
    }
}

/// What is said of a server that runs handlers as root.
pub(super) fn warning(identity: Option<&Identity>) -> Option<String> {
    (identity.is_none() && process::user() == ROOT).then(|| {
        "handlers run as root, so a mistake in one can do anything to this machine; set user (to www-data, or one of its own), \
         or start the server as another user"
            .to_owned()
    })
}
