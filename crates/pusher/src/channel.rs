//! The names of channels, which say by their beginnings who may subscribe and what is remembered.

use std::fmt;

/// Bytes of a channel's name, as Pusher has it.
pub const NAME_BYTES_MAX: usize = 164;

/// The beginning of the channel that belongs to a user.
pub const USER_PREFIX: &str = "#server-to-user-";

/// Who may subscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Every client with the key.
    Public,
    /// Clients that the application has signed for.
    Private,
    /// The same, and data is encrypted from end to end: the server only passes it on.
    Encrypted,
    /// The same as private, and who is subscribed is told.
    Presence,
    /// The user who has signed in.
    User,
}

/// A name that cannot be one of a channel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the channel name {shown} is invalid: {cause}")]
pub struct NameError {
    shown: String,
    cause: &'static str,
}

/// The name of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelName<'a>(&'a str);

impl<'a> ChannelName<'a> {
    /// Checks a name: 1 to 164 letters, digits and `_-=@,.;`, or the channel of a user.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(name: &'a str) -> Result<ChannelName<'a>, NameError> {
        let wrong = |cause| NameError {
            shown: format!("\"{}\"", name.escape_debug().take(200).collect::<String>()),
            cause,
        };
        if name.is_empty() {
            return Err(wrong("it is empty"));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(wrong("it has more than 164 characters"));
        }
        let (rest, extra): (_, &[u8]) = match name.strip_prefix(USER_PREFIX) {
            Some("") => return Err(wrong("it names no user")),
            // An id of a user may be an address of mail or a path.
            Some(user) => (user, b"_-=@,.;:+/|~%!$'()* "),
            None => (name, b"_-=@,.;"),
        };
        if !rest
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || extra.contains(&byte))
        {
            return Err(wrong("use letters, digits and _-=@,.;"));
        }
        Ok(ChannelName(name))
    }

    /// The text.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// Who may subscribe.
    pub fn access(self) -> Access {
        if self.0.starts_with("presence-") {
            Access::Presence
        } else if self.0.starts_with("private-encrypted-") {
            Access::Encrypted
        } else if self.0.starts_with("private-") {
            Access::Private
        } else if self.0.starts_with(USER_PREFIX) {
            Access::User
        } else {
            Access::Public
        }
    }

    /// Whether a new subscriber gets the newest event at once.
    pub fn is_cache(self) -> bool {
        [
            "cache-",
            "private-cache-",
            "private-encrypted-cache-",
            "presence-cache-",
        ]
        .iter()
        .any(|prefix| self.0.starts_with(prefix))
    }

    /// The user whose channel it is.
    pub fn user(self) -> Option<&'a str> {
        self.0.strip_prefix(USER_PREFIX)
    }
}

impl fmt::Display for ChannelName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_say_who_may_subscribe() {
        for (name, access, is_cache) in [
            ("news", Access::Public, false),
            ("cache-news", Access::Public, true),
            ("private-orders.1", Access::Private, false),
            ("private-cache-orders.1", Access::Private, true),
            ("private-encrypted-x", Access::Encrypted, false),
            ("private-encrypted-cache-x", Access::Encrypted, true),
            ("presence-room", Access::Presence, false),
            ("presence-cache-room", Access::Presence, true),
            ("#server-to-user-12", Access::User, false),
            ("presence", Access::Public, false),
        ] {
            let channel = ChannelName::new(name).expect(name);
            assert_eq!((channel.access(), channel.is_cache()), (access, is_cache));
        }
    }

    #[test]
    fn other_names_are_refused() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in [
            "",
            "a b",
            "a/b",
            "é",
            "a\n",
            "a\"b",
            "#x",
            "#server-to-user-",
            "#server-to-user-a\nb",
            &long,
        ] {
            assert!(ChannelName::new(name).is_err(), "{name:?}");
        }
    }
}
