//! Numbers of users and groups by their names, from the files that every system has.

use std::path::Path;

/// Users of the machine.
pub const USERS: &str = "/etc/passwd";

/// Groups of the machine.
pub const GROUPS: &str = "/etc/group";

/// The number of a user or group: `name` itself where it is one, or what `file` says. Directories in the network (LDAP) are
/// not asked.
///
/// # Errors
/// There is none of that name.
pub fn number(name: &str, file: &Path) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("{name} is not found: {}: {error}", file.display()))?;
    find(&text, name).ok_or_else(|| format!("{name} is not in {}; give a number", file.display()))
}

/// A user that a process can become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user's number.
    pub user: u32,
    /// The number of its first group, where the file of users knows it.
    pub group: Option<u32>,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// What `users` and `groups` say of a user, by name or number.
///
/// # Errors
/// There is none of that name.
pub fn account(name: &str, users: &Path, groups: &Path) -> Result<Account, String> {
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

/// The groups whose fourth field names the user.
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

/// The third field of the line that begins with the name.
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
        assert_eq!(account("web", &users, &groups), Ok(web.clone()));
        assert_eq!(account("33", &users, &groups), Ok(web));
        let unknown = Account {
            user: 77,
            group: None,
            groups: vec![],
        };
        assert_eq!(account("77", &users, &groups), Ok(unknown));
        assert!(account("nobody-here", &users, &groups).is_err());
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn names_become_numbers() {
        let text = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\n";
        assert_eq!(find(text, "www-data"), Some(33));
        assert_eq!(find(text, "www"), None);
        assert_eq!(number("1000", Path::new("/nowhere")), Ok(1000));
        assert!(number("nobody-has-this-name", Path::new(USERS)).is_err());
    }
}
