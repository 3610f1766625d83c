//! Channels and topics that are called the same, and hear of each other.

use fermata_engine::check_channel;
use fermata_pusher::App;
use fermata_pusher::channel::{Access, ChannelName};

use super::settings::MercureSettings;
use crate::names;

/// In front of the name of a channel whose topic has private updates.
const PRIVATE: &str = "private-";
/// In front of names that members, one user, or the holders of a key may read.
const GUARDED: [&str; 3] = ["presence-", "#server-to-user-", "private-encrypted-"];

/// Which channels these are.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    /// What stands in front of their names.
    prefix: String,
    /// Topics that no channel of Pusher's can be called as are shared, too: the program may.
    has_any_topic: bool,
}

impl Shared {
    /// Those that the settings say; `None`: there are none.
    pub fn of(settings: &MercureSettings, apps: &[App]) -> Option<Shared> {
        if let Some(prefix) = &settings.shared_prefix {
            return Some(Shared {
                prefix: prefix.clone(),
                has_any_topic: true,
            });
        }
        let id = settings.pusher_app.as_deref()?;
        let app = apps.iter().find(|app| app.id == id)?;
        Some(Shared {
            prefix: names::prefix(app),
            has_any_topic: false,
        })
    }

    /// The channel on the ring that is called as a topic.
    pub fn channel_of(&self, topic: &str, is_private: bool) -> Option<String> {
        let channel = match is_private {
            true => format!("{PRIVATE}{topic}"),
            false => topic.to_owned(),
        };
        let is_shared = match ChannelName::new(&channel).map(ChannelName::access) {
            Ok(Access::Public) => !is_private,
            Ok(Access::Private) => is_private,
            Ok(_) => false,
            Err(_) => {
                self.has_any_topic
                    && (is_private || !topic.starts_with(PRIVATE))
                    && !is_guarded(&channel)
            }
        };
        let ring_name = format!("{}{channel}", self.prefix);
        // Topics may be longer than names of channels.
        (is_shared && check_channel(ring_name.as_bytes()).is_ok()).then_some(ring_name)
    }

    /// The topic that a channel on the ring is called as, and whether its updates are private.
    pub fn topic_of<'a>(&self, ring_name: &'a str) -> Option<(&'a str, bool)> {
        let channel = ring_name.strip_prefix(self.prefix.as_str())?;
        match ChannelName::new(channel).map(ChannelName::access) {
            Ok(Access::Public) => Some((channel, false)),
            Ok(Access::Private) => Some((channel.strip_prefix(PRIVATE)?, true)),
            Ok(_) => None,
            // The names that no channel of Pusher's has say in the same way who may read.
            Err(_) if self.has_any_topic && !channel.is_empty() && !is_guarded(channel) => Some(
                channel
                    .strip_prefix(PRIVATE)
                    .map_or((channel, false), |topic| (topic, true)),
            ),
            Err(_) => None,
        }
    }
}

/// Whether the beginning of a name says that members or one user alone may read it, although it is no name of Pusher's.
fn is_guarded(channel: &str) -> bool {
    GUARDED.iter().any(|it| channel.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_and_topics_are_called_the_same() {
        for has_any_topic in [false, true] {
            let shared = Shared {
                prefix: "live.".to_owned(),
                has_any_topic,
            };
            for (topic, is_private, channel) in [
                ("news", false, "live.news"),
                ("news", true, "live.private-news"),
            ] {
                let found = shared.channel_of(topic, is_private);
                assert_eq!(found.as_deref(), Some(channel));
                assert_eq!(shared.topic_of(channel), Some((topic, is_private)));
            }
            let url = "https://example.com/books/1";
            for is_private in [false, true] {
                let channel = shared.channel_of(url, is_private);
                assert_eq!(channel.is_some(), has_any_topic);
                if let Some(channel) = channel {
                    assert_eq!(shared.topic_of(&channel), Some((url, is_private)));
                }
            }
            // A public update must not be read as a private one of another topic, nor as who is present.
            let long = format!("https://example.com/{}", "x".repeat(255));
            for topic in [
                "private-news",
                "private-https://x",
                "presence-room",
                "presence-room/1",
                "#server-to-user-1",
                "#server-to-user-é",
                "private-encrypted-a/1",
                &long,
            ] {
                assert_eq!(shared.channel_of(topic, false), None, "{topic}");
            }
            for channel in [
                "live.presence-room",
                "live.presence-room/1",
                "live.#server-to-user-é",
                "live.private-encrypted-a",
                "live.private-encrypted-a/1",
                "news",
            ] {
                assert_eq!(shared.topic_of(channel), None, "{channel}");
            }
        }
    }
}
