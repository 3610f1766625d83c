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
    fn names_become_numbers() {
        let text = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\n";
        assert_eq!(find(text, "www-data"), Some(33));
        assert_eq!(find(text, "www"), None);
        assert_eq!(number("1000", Path::new("/nowhere")), Ok(1000));
        assert!(number("nobody-has-this-name", Path::new(USERS)).is_err());
    }
}
