//! Names of channels, whose prefix determines access and caching.

use std::fmt;

/// Maximum length of a channel's name in bytes, as in Pusher.
pub const NAME_BYTES_MAX: usize = 164;

/// Prefix of the channel that belongs to a user.
pub const USER_PREFIX: &str = "#server-to-user-";

/// Access to a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Every client with the key.
    Public,
    /// Clients with a signature of the application.
    Private,
    /// Like a private channel, but the data is encrypted end to end. The server only forwards it.
    Encrypted,
    /// Like private; subscribers receive the list of members.
    Presence,
    /// Only the user of the channel may subscribe, after signing in.
    User,
}

/// An invalid channel name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the channel name {shown} is invalid: {cause}")]
pub struct NameError {
    shown: String,
    cause: &'static str,
}

/// A valid channel name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelName<'a>(&'a str);

impl<'a> ChannelName<'a> {
    /// Checks a name: 1 to 164 letters, digits and `_-=@,.;`, or the channel of a user.
    ///
    /// # Errors
    /// The name is invalid.
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
            Some("") => return Err(wrong("it has no user id")),
            // A user's id may be an e-mail address or a path.
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

    /// Returns the text.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// Returns who may subscribe.
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

    /// Returns true if a new subscriber receives the newest event immediately.
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

    /// Returns the user to whom the channel belongs.
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
    fn prefix_determines_access() {
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
    fn rejects_invalid_names() {
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
