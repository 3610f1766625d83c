//! Names of application channels on the ring. They start with a prefix of the application, because two applications may have
//! channels of the same name.

use fermata_pusher::App;

/// Prefix of ring names of applications that share no channels.
const PUSHER: &str = "pusher:";
/// The channel of all Mercure updates.
pub const UPDATES: &str = "mercure:updates";
/// Prefixes that are reserved for the hub.
pub const RESERVED: [&str; 2] = [PUSHER, "mercure:"];

/// Returns true if only clients of Pusher or Mercure can subscribe to a channel of the ring.
pub fn is_own(ring_name: &[u8]) -> bool {
    let mut own = RESERVED.iter();
    own.any(|prefix| ring_name.starts_with(prefix.as_bytes()))
}

/// Returns the prefix of an application's channels on the ring.
pub fn prefix(app: &App) -> String {
    ring_name(app, "")
}

/// Returns the ring name of an application's channel.
pub fn ring_name(app: &App, channel: &str) -> String {
    let prefix = match &app.shared_prefix {
        Some(shared) => [shared.as_str(), "", ""],
        None => [PUSHER, &app.id, ":"],
    };
    // Allocate only once, because this runs for each subscription and unsubscription.
    let [kind, id, end] = prefix;
    [kind, id, end, channel].concat()
}

/// Splits a ring name into the index of its application and the channel. No application's prefix starts with the prefix of another
/// one.
pub fn split<'a>(apps: &[App], ring_name: &'a str) -> Option<(usize, &'a str)> {
    let channels = apps.iter().enumerate().filter_map(|(at, app)| {
        let channel = match &app.shared_prefix {
            Some(shared) => ring_name.strip_prefix(shared.as_str())?,
            None => {
                let rest = ring_name.strip_prefix(PUSHER)?;
                rest.strip_prefix(app.id.as_str())?.strip_prefix(':')?
            }
        };
        Some((at, channel))
    });
    { channels }.next()
}

/// Returns the name under which an application's user is counted.
pub fn user_name(app: &str, user: &str) -> String {
    format!("{app}:{user}")
}

/// Splits a user's name on the ring into application and user.
pub fn split_user(user_name: &str) -> Option<(&str, &str)> {
    user_name.split_once(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let mut apps: Vec<App> = ["1", "11", "2"]
            .map(|id| App::new(id, id, "secret").expect("an application"))
            .into();
        apps[2].shared_prefix = Some("live.".to_owned());
        for (at, app) in apps.iter().enumerate() {
            for channel in ["private-a", "#server-to-user-a:b", "live.x"] {
                assert_eq!(split(&apps, &ring_name(app, channel)), Some((at, channel)));
            }
        }
        assert_eq!(ring_name(&apps[2], "news"), "live.news");
        assert!(is_own(ring_name(&apps[0], "a").as_bytes()) && is_own(UPDATES.as_bytes()));
        assert!(!is_own(b"live.news"));
        for other in ["news", "pusher:3:news", "pusher:2:news", UPDATES] {
            assert_eq!(split(&apps, other), None, "{other}");
        }
        assert_eq!(split_user(&user_name("1", "a:b")), Some(("1", "a:b")));
    }
}
