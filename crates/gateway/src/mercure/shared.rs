//! Channels and topics of the same name that share their events.

use fermata_engine::check_channel;
use fermata_pusher::App;
use fermata_pusher::channel::{Access, ChannelName};

use super::settings::MercureSettings;
use crate::names;

/// Prefix of a channel whose topic has private updates.
const PRIVATE: &str = "private-";
/// Prefixes of channel names that only members, one user, or holders of a key may read.
const GUARDED: [&str; 3] = ["presence-", "#server-to-user-", "private-encrypted-"];

/// Defines the channels that are shared.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    /// Prefix of the ring names of shared channels.
    prefix: String,
    /// True if topics that are not valid Pusher channel names are also shared, because the PHP application may use them.
    has_any_topic: bool,
}

impl Shared {
    /// Creates the value from the settings; `None` if no channels are shared.
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

    /// Returns the ring name of the channel that shares a topic.
    pub fn channel_of(&self, topic: &str, is_private: bool) -> Option<String> {
        let channel = if is_private {
            format!("{PRIVATE}{topic}")
        } else {
            topic.to_owned()
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
        // Topics may be longer than channel names.
        (is_shared && check_channel(ring_name.as_bytes()).is_ok()).then_some(ring_name)
    }

    /// Returns the topic that shares a channel of the ring, and true if the topic's updates are private.
    pub fn topic_of<'a>(&self, ring_name: &'a str) -> Option<(&'a str, bool)> {
        let channel = ring_name.strip_prefix(self.prefix.as_str())?;
        match ChannelName::new(channel).map(ChannelName::access) {
            Ok(Access::Public) => Some((channel, false)),
            Ok(Access::Private) => Some((channel.strip_prefix(PRIVATE)?, true)),
            Ok(_) => None,
            // Names that are not valid in Pusher use the same prefixes for access control.
            Err(_) if self.has_any_topic && !channel.is_empty() && !is_guarded(channel) => Some(
                channel
                    .strip_prefix(PRIVATE)
                    .map_or((channel, false), |topic| (topic, true)),
            ),
            Err(_) => None,
        }
    }
}

/// Returns true if the prefix of a name restricts it to members or one user, although the name is invalid in Pusher.
fn is_guarded(channel: &str) -> bool {
    GUARDED.iter().any(|it| channel.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_channels_to_topics_and_back() {
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
            // A public update must become neither a private update of another topic nor a presence announcement.
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
