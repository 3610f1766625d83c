//! What channels of applications are called on the ring: two applications may have channels of the same name.

/// In front of the names of channels of the Pusher protocol.
const PREFIX: &str = "pusher:";

/// The ring's name of an application's channel.
pub fn ring_name(app: &str, channel: &str) -> String {
    format!("{PREFIX}{app}:{channel}")
}

/// The application and channel of a name on the ring. Ids of applications have no colon.
pub fn split(ring_name: &str) -> Option<(&str, &str)> {
    ring_name.strip_prefix(PREFIX)?.split_once(':')
}

/// What a user of an application is counted by.
pub fn user_name(app: &str, user: &str) -> String {
    format!("{app}:{user}")
}

/// The application and the user of such a name.
pub fn split_user(user_name: &str) -> Option<(&str, &str)> {
    user_name.split_once(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        assert_eq!(
            split(&ring_name("1", "private-a")),
            Some(("1", "private-a"))
        );
        let user = "#server-to-user-a:b";
        assert_eq!(split(&ring_name("1", user)), Some(("1", user)));
        assert_eq!(split("news"), None);
        assert_eq!(split_user(&user_name("1", "a:b")), Some(("1", "a:b")));
    }
}
