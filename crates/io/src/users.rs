//! IDs of users and groups by name, from the standard files.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// File of users.
pub const USERS: &str = "/etc/passwd";

/// File of groups.
pub const GROUPS: &str = "/etc/group";

/// Error: a user or group name is unknown.
#[derive(Debug, Error)]
pub enum UnknownName {
    /// The file cannot be read.
    #[error("{name} is not found: {}: {source}", file.display())]
    Unreadable {
        /// The name.
        name: String,
        /// The file.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file does not contain the name.
    #[error("{name} is not in {}; give a number", file.display())]
    Missing {
        /// The name.
        name: String,
        /// The file.
        file: PathBuf,
    },
}

/// Returns the ID of a user or group: `name` itself if it is a number, otherwise the ID of that name in `file`. Does not query
/// network directories (LDAP).
///
/// # Errors
/// The name is unknown.
pub fn number(name: &str, file: &Path) -> Result<u32, UnknownName> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = std::fs::read_to_string(file).map_err(|source| UnknownName::Unreadable {
        name: name.to_owned(),
        file: file.to_owned(),
        source,
    })?;
    find(&text, name).ok_or_else(|| UnknownName::Missing {
        name: name.to_owned(),
        file: file.to_owned(),
    })
}

/// A user that a process can switch to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// User ID.
    pub user: u32,
    /// ID of the primary group; `None` if the file of users does not contain the user.
    pub group: Option<u32>,
    /// IDs of supplementary groups.
    pub groups: Vec<u32>,
}

/// Returns a user by name or ID, from the files `users` and `groups`.
///
/// # Errors
/// The name is unknown.
pub fn account(name: &str, users: &Path, groups: &Path) -> Result<Account, UnknownName> {
    let user = number(name, users)?;
    let users = std::fs::read_to_string(users).unwrap_or_default();
    let groups = std::fs::read_to_string(groups).unwrap_or_default();
    let found = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.get(2).is_some_and(|it| it.parse() == Ok(user)));
    let name = found.as_ref().map_or(name, |fields| fields[0]);
    let group = found
        .as_ref()
        .and_then(|fields| fields.get(3)?.parse().ok());
    Ok(Account {
        user,
        group,
        groups: groups_of(&groups, name),
    })
}

/// Returns the groups whose fourth field contains the user.
fn groups_of(text: &str, name: &str) -> Vec<u32> {
    let lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let has_member = |fields: &Vec<&str>| {
        let members = fields.get(3).copied().unwrap_or_default();
        members.split(',').any(|member| member == name)
    };
    lines
        .filter(has_member)
        .filter_map(|fields| fields[2].parse().ok())
        .collect()
}

/// Returns the third field of the line whose first field is `name`.
fn find(text: &str, name: &str) -> Option<u32> {
    let mut lines = text.lines().map(|line| line.split(':'));
    let mut fields =
        lines.find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
    fields.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_its_first_group_and_further_ones() {
        let folder = std::env::temp_dir().join(format!("fermata-users-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (users, groups) = (folder.join("passwd"), folder.join("group"));
        std::fs::write(
            &users,
            "root:x:0:0::/root:/bin/sh\nweb:x:33:34::/:/bin/false\n",
        )
        .expect("a file");
        std::fs::write(
            &groups,
            "root:x:0:\nweb:x:34:\nssl:x:50:other,web\nx:x:51:webs\n",
        )
        .expect("a file");
        let web = Account {
            user: 33,
            group: Some(34),
            groups: vec![50],
        };
        let found = |name| account(name, &users, &groups).expect("it is there");
        assert_eq!(found("web"), web);
        assert_eq!(found("33"), web);
        let unknown = Account {
            user: 77,
            group: None,
            groups: vec![],
        };
        assert_eq!(found("77"), unknown);
        let missing = account("nobody-here", &users, &groups).expect_err("it is not there");
        let text = format!("nobody-here is not in {}; give a number", users.display());
        assert_eq!(missing.to_string(), text);
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn names_become_numbers() {
        let text = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\n";
        assert_eq!(find(text, "www-data"), Some(33));
        assert_eq!(find(text, "www"), None);
        assert!(matches!(number("1000", Path::new("/nowhere")), Ok(1000)));
        assert!(number("nobody-has-this-name", Path::new(USERS)).is_err());
    }
}
