//! Filters of a subscription: they decide whether an item is delivered, and may change its content.
//!
//! They run once per subscriber. To avoid overhead for subscriptions without filters, callers check [`Filters::is_empty`]
//! first.

use std::borrow::Cow;

use crate::encoding::to_hex;
use crate::instruct::Meta;
use crate::template::{self, Template, TemplateError};

/// Maximum number of filters of one subscription.
pub const FILTERS_MAX: usize = 5;

/// Value of `Grip-Feature`, which announces features to origins.
pub const FEATURES: &str = "status, session, link:next, link:gone, filter:skip-self, filter:skip-users, \
filter:require-sub, filter:build-id, filter:var-subst, filter:http-check, filter:http-modify";

/// One filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Does not deliver the item to the user that sent it.
    SkipSelf,
    /// Not to the users listed in the item.
    SkipUsers,
    /// Delivers the item only to clients that are also subscribed to another channel, which the item names.
    RequireSub,
    /// Replaces `%I` in content by an id made from the ids of channels.
    BuildId,
    /// Replaces `%(name)s` in content by metadata of the connection.
    VarSubst,
    /// Asks a server of the origin whether the item is delivered.
    HttpCheck,
    /// Like `HttpCheck`; the server may also replace the content.
    HttpModify,
}

impl Filter {
    /// Returns the filter with this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"skip-self" => Some(Self::SkipSelf),
            b"skip-users" => Some(Self::SkipUsers),
            b"require-sub" => Some(Self::RequireSub),
            b"build-id" => Some(Self::BuildId),
            b"var-subst" => Some(Self::VarSubst),
            b"http-check" => Some(Self::HttpCheck),
            b"http-modify" => Some(Self::HttpModify),
            _ => None,
        }
    }

    fn content_name(self) -> Option<&'static [u8]> {
        match self {
            Self::BuildId => Some(b"build-id"),
            Self::VarSubst => Some(b"var-subst"),
            Self::HttpModify => Some(b"http-modify"),
            Self::SkipSelf | Self::SkipUsers | Self::RequireSub | Self::HttpCheck => None,
        }
    }

    fn asks(self) -> bool {
        matches!(self, Self::HttpCheck | Self::HttpModify)
    }

    /// Returns true if an item with this metadata is delivered to the subscriber, as far as the filter can decide without a
    /// server.
    fn delivers(self, subscriber: &dyn Subscriber, item: &Meta) -> bool {
        let value = |meta: &'_ Meta, name: &str| -> Vec<u8> {
            meta.get(name.as_bytes()).cloned().unwrap_or_default()
        };
        match self {
            Self::SkipSelf => {
                let user = value(subscriber.meta(), "user");
                // A connection without a user is no sender.
                user.is_empty() || user != value(item, "sender")
            }
            Self::SkipUsers => {
                let user = value(subscriber.meta(), "user");
                user.is_empty()
                    || !value(item, "skip_users")
                        .split(|&byte| byte == b',')
                        .any(|skipped| skipped.trim_ascii() == user)
            }
            Self::RequireSub => {
                let channel = value(item, "require_sub");
                channel.is_empty() || subscriber.is_subscribed(&channel)
            }
            Self::BuildId | Self::VarSubst => true,
            // These filters need a request to a server. Without that request, the item is not delivered.
            Self::HttpCheck | Self::HttpModify => false,
        }
    }

    /// Returns the content as changed by this filter. `None`: the filter does not change it.
    fn content(
        self,
        subscriber: &dyn Subscriber,
        content: &[u8],
    ) -> Result<Option<Vec<u8>>, FilterError> {
        match self {
            Self::BuildId => {
                let mut ids = BuildId::new(subscriber)?;
                let mut out = Vec::with_capacity(content.len());
                ids.feed(content, &mut out)?;
                ids.finish()?;
                Ok(Some(out))
            }
            Self::VarSubst => Ok(Some(template::render(
                content,
                &mut |name, letter, out| variable(subscriber.meta(), name, letter, out),
            )?)),
            Self::SkipSelf
            | Self::SkipUsers
            | Self::RequireSub
            | Self::HttpCheck
            | Self::HttpModify => Ok(None),
        }
    }
}

/// State of a connection that filters query.
pub trait Subscriber {
    /// Returns the metadata that the subscriber's origin has set.
    fn meta(&self) -> &Meta;
    /// Returns true if the subscriber is subscribed to the channel with this name, given without prefix.
    fn is_subscribed(&self, channel: &[u8]) -> bool;
    /// Returns the id of the last item that the subscriber received from the channel with this name.
    fn last_id(&self, channel: &[u8]) -> Option<&[u8]>;
}

/// Reason why a filter failed. The edge drops the item for this connection and counts the failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// The filter `build-id` lacks the metadata that it needs.
    #[error("filter build-id needs the meta value id_format; set it with Grip-Set-Meta")]
    IdFormat,
    /// `build-id` with an unknown encoding.
    #[error("filter build-id supports only the id_encoding hex, not {0:?}")]
    IdEncoding(String),
    /// Error in content or in `id_format`.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// Progress of a subscription's filters with an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// Deliver the item with this content.
    Deliver(Option<Vec<u8>>),
    /// Do not deliver the item.
    Drop,
    /// Ask the server of the filter at this index, then continue with the next filter.
    Ask {
        /// Index of the filter.
        at: usize,
        /// The server receives the content, and may respond with another.
        modifies: bool,
        /// The content after the preceding filters.
        content: Option<Vec<u8>>,
    },
}

/// The filters of one subscription, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters(Box<[Filter]>);

impl Filters {
    /// Returns the first name that is not a filter. The caller must then refuse the instruction. Otherwise the edge would deliver
    /// items unchanged that the filter would drop or change.
    pub fn unknown<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
        names
            .into_iter()
            .find(|name| Filter::from_name(name).is_none())
    }

    /// Returns the filters with these names. Check the names with [`unknown`](Self::unknown) first.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self(
            names
                .into_iter()
                .filter_map(Filter::from_name)
                .take(FILTERS_MAX)
                .collect(),
        )
    }

    /// Returns true if there are no filters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if an item with this metadata is delivered to the subscriber.
    pub fn delivers(&self, subscriber: &dyn Subscriber, item: &Meta) -> bool {
        let mut filters = self.0.iter();
        filters.all(|filter| filter.delivers(subscriber, item))
    }

    /// Returns true if a filter needs a request to a server. Then [`run`](Self::run) replaces
    /// [`delivers`](Self::delivers) and [`content`](Self::content).
    pub fn asks(&self) -> bool {
        self.0.iter().any(|filter| filter.asks())
    }

    /// Runs the filters from the one at `from`, up to one that needs a server. `content` is `None` if the item has no content, such
    /// as an item that only closes the connection.
    ///
    /// # Errors
    /// A filter failed.
    pub fn run(
        &self,
        from: usize,
        subscriber: &dyn Subscriber,
        item: &Meta,
        content: Option<Vec<u8>>,
    ) -> Result<Run, FilterError> {
        let mut content = content;
        for (at, filter) in self.0.iter().enumerate().skip(from) {
            if filter.asks() {
                let modifies = *filter == Filter::HttpModify;
                return Ok(Run::Ask {
                    at,
                    modifies,
                    content,
                });
            }
            if !filter.delivers(subscriber, item) {
                return Ok(Run::Drop);
            }
            if let Some(before) = &content
                && let Some(after) = filter.content(subscriber, before)?
            {
                content = Some(after);
            }
        }
        Ok(Run::Deliver(content))
    }

    /// Returns true if the content filters of the subscription are exactly those that the publisher expects.
    pub fn are_content_filters(&self, expected: &[Vec<u8>]) -> bool {
        let own = self.0.iter().filter_map(|filter| filter.content_name());
        own.eq(expected.iter().map(Vec::as_slice))
    }

    /// Returns the content for the subscriber. The content is borrowed if no filter changes it.
    ///
    /// # Errors
    /// A filter failed.
    pub fn content<'a>(
        &self,
        subscriber: &dyn Subscriber,
        content: &'a [u8],
    ) -> Result<Cow<'a, [u8]>, FilterError> {
        let mut content = Cow::Borrowed(content);
        for filter in &self.0 {
            if let Some(after) = filter.content(subscriber, &content)? {
                content = Cow::Owned(after);
            }
        }
        Ok(content)
    }

    /// Returns the filter for the body of the origin's own response, if there is one. `build-id` is the only filter that changes
    /// that body.
    ///
    /// # Errors
    /// A filter failed.
    pub fn response(&self, subscriber: &dyn Subscriber) -> Result<Option<BuildId>, FilterError> {
        if self.0.contains(&Filter::BuildId) {
            BuildId::new(subscriber).map(Some)
        } else {
            Ok(None)
        }
    }
}

/// Replaces `%I` in content by the connection's id, and `%(ID)I` by the id in parentheses, both in the connection's encoding.
#[derive(Clone, Debug)]
pub struct BuildId {
    id: Vec<u8>,
    is_hex: bool,
    template: Template,
}

impl BuildId {
    fn new(subscriber: &dyn Subscriber) -> Result<Self, FilterError> {
        let format = subscriber
            .meta()
            .get(&b"id_format"[..])
            .ok_or(FilterError::IdFormat)?;
        let id = template::render(
            format,
            &mut |channel, letter, out| match (channel, letter) {
                (Some(channel), b's') => match subscriber.last_id(channel) {
                    Some(id) => {
                        out.extend_from_slice(id);
                        Ok(())
                    }
                    None => Err(unknown_name(channel)),
                },
                _ => Err(template::unknown(channel, letter)),
            },
        )?;
        let is_hex = match subscriber
            .meta()
            .get(&b"id_encoding"[..])
            .map(Vec::as_slice)
        {
            None | Some(b"") => false,
            Some(b"hex") => true,
            Some(other) => {
                return Err(FilterError::IdEncoding(
                    String::from_utf8_lossy(other).into_owned(),
                ));
            }
        };
        Ok(Self {
            id,
            is_hex,
            template: Template::default(),
        })
    }

    /// Reads a piece of the content and appends the output for it.
    ///
    /// # Errors
    /// The content is not a valid template.
    pub fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), FilterError> {
        let (id, is_hex) = (&self.id, self.is_hex);
        let fill = &mut |argument: Option<&[u8]>, letter, out: &mut Vec<u8>| {
            if letter != b'I' {
                return Err(template::unknown(argument, letter));
            }
            let id = argument.unwrap_or(id);
            if is_hex {
                to_hex(out, id)
            } else {
                out.extend_from_slice(id)
            }
            Ok(())
        };
        Ok(self.template.feed(piece, out, fill)?)
    }

    /// Checks the end of the content.
    ///
    /// # Errors
    /// The content ended inside a directive.
    pub fn finish(&self) -> Result<(), FilterError> {
        Ok(self.template.finish()?)
    }
}

fn variable(
    meta: &Meta,
    name: Option<&[u8]>,
    letter: u8,
    out: &mut Vec<u8>,
) -> Result<(), TemplateError> {
    let (Some(name), b's') = (name, letter) else {
        return Err(template::unknown(name, letter));
    };
    out.extend_from_slice(meta.get(name).ok_or_else(|| unknown_name(name))?);
    Ok(())
}

fn unknown_name(name: &[u8]) -> TemplateError {
    TemplateError::Name(String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Client(Meta, Vec<(&'static str, &'static str)>);

    impl Subscriber for Client {
        fn meta(&self) -> &Meta {
            &self.0
        }
        fn is_subscribed(&self, channel: &[u8]) -> bool {
            self.1.iter().any(|(name, _)| name.as_bytes() == channel)
        }
        fn last_id(&self, channel: &[u8]) -> Option<&[u8]> {
            let found = self.1.iter().find(|(name, _)| name.as_bytes() == channel);
            found.map(|(_, id)| id.as_bytes())
        }
    }

    fn meta(entries: &[(&str, &str)]) -> Meta {
        let owned = |&(name, value): &(&str, &str)| (name.into(), value.into());
        entries.iter().map(owned).collect()
    }

    fn filters(names: &[&str]) -> Filters {
        Filters::from_names(names.iter().map(|name| name.as_bytes()))
    }

    #[test]
    fn delivery_depends_on_metadata_of_both_sides() {
        let client = Client(meta(&[("user", "alice")]), vec![("room", "1")]);
        let nobody = Client(Meta::new(), Vec::new());
        for (filter, item, to_client, to_nobody) in [
            ("skip-self", &[][..], true, true),
            ("skip-self", &[("sender", "alice")], false, true),
            ("skip-self", &[("sender", "bob")], true, true),
            ("skip-self", &[("sender", "")], true, true),
            (
                "skip-users",
                &[("skip_users", "bob, alice ,carol")],
                false,
                true,
            ),
            ("skip-users", &[("skip_users", "bob,alic")], true, true),
            ("skip-users", &[("skip_users", "")], true, true),
            ("require-sub", &[("require_sub", "room")], true, false),
            ("require-sub", &[("require_sub", "other")], false, false),
            ("require-sub", &[], true, true),
            ("unknown", &[("sender", "alice")], true, true),
        ] {
            let filters = filters(&[filter]);
            assert_eq!(
                filters.delivers(&client, &meta(item)),
                to_client,
                "{filter} {item:?}"
            );
            assert_eq!(
                filters.delivers(&nobody, &meta(item)),
                to_nobody,
                "{filter} {item:?}"
            );
        }
    }

    #[test]
    fn build_id_uses_the_ids_of_channels() {
        for (encoding, content, expected) in [
            ("", "id: %I%%\n", "id: C-5%\n"),
            ("hex", "%I", "432d35"),
            ("hex", "%(R2D2)I", "52324432"),
            ("", "%(R2D2)I", "R2D2"),
        ] {
            let client = Client(
                meta(&[("id_format", "C-%(room)s"), ("id_encoding", encoding)]),
                vec![("room", "5")],
            );
            let content = filters(&["build-id"])
                .content(&client, content.as_bytes())
                .map(Cow::into_owned);
            assert_eq!(content, Ok(expected.as_bytes().to_vec()));
        }
    }

    #[test]
    fn var_subst_uses_metadata_of_the_connection() {
        let client = Client(meta(&[("user", "alice"), ("a)b", "c")]), Vec::new());
        let filters = filters(&["skip-self", "var-subst"]);
        let render = |content: &'static str| {
            filters
                .content(&client, content.as_bytes())
                .map(Cow::into_owned)
        };
        assert_eq!(
            render(r"hi %(user)s, %(a\)b)s %%"),
            Ok(b"hi alice, c %".to_vec())
        );
        assert_eq!(
            render("%(nobody)s"),
            Err(FilterError::Template(TemplateError::Name("nobody".into())))
        );
        assert!(render("%s").is_err() && render("%(user)d").is_err() && render("50%").is_err());
    }

    #[test]
    fn failed_filter_reports_its_cause() {
        let filters = filters(&["build-id"]);
        for (entries, part) in [
            (&[][..], "id_format"),
            (&[("id_format", "a"), ("id_encoding", "rot13")], "rot13"),
            (&[("id_format", "%(other)s")], "other"),
            (&[("id_format", "%x")], "%x"),
        ] {
            let error = filters
                .content(&Client(meta(entries), Vec::new()), b"%I")
                .expect_err(part);
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn publisher_can_require_content_filters() {
        let own = filters(&["skip-self", "build-id", "unknown", "var-subst"]);
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.into())
                .collect::<Vec<Vec<u8>>>()
        };
        assert!(own.are_content_filters(&names(&["build-id", "var-subst"])));
        for other in [
            &["build-id"][..],
            &["var-subst", "build-id"],
            &["skip-self", "build-id", "var-subst"],
            &[],
        ] {
            assert!(!own.are_content_filters(&names(other)), "{other:?}");
        }
        assert!(Filters::default().are_content_filters(&[]));
    }

    #[test]
    fn borrows_content_without_content_filters() {
        let client = Client(Meta::new(), Vec::new());
        let content = filters(&["skip-self"])
            .content(&client, b"%")
            .expect("untouched");
        assert!(matches!(content, Cow::Borrowed(b"%")));
    }

    #[test]
    fn runs_filters_in_order_up_to_one_that_needs_a_server() {
        let client = Client(meta(&[("user", "alice")]), Vec::new());
        let filters = filters(&["skip-self", "var-subst", "http-modify", "http-check"]);
        assert!(
            filters.asks()
                && filters.are_content_filters(&[b"var-subst".into(), b"http-modify".into()])
        );
        let run = |from: usize, sender: &str, content: Option<&str>| {
            let content = content.map(|it| it.as_bytes().to_vec());
            filters.run(from, &client, &meta(&[("sender", sender)]), content)
        };
        let ask = |at: usize, modifies: bool, content: Option<&str>| Run::Ask {
            at,
            modifies,
            content: content.map(|it| it.as_bytes().to_vec()),
        };
        assert_eq!(run(0, "alice", Some("x")), Ok(Run::Drop));
        assert_eq!(
            run(0, "bob", Some("hi %(user)s")),
            Ok(ask(2, true, Some("hi alice")))
        );
        assert_eq!(run(3, "bob", Some("%")), Ok(ask(3, false, Some("%"))));
        assert_eq!(
            run(4, "bob", Some("%")),
            Ok(Run::Deliver(Some(b"%".to_vec())))
        );
        assert_eq!(run(0, "bob", None), Ok(ask(2, true, None)));
        assert!(run(0, "bob", Some("50%")).is_err());
        // `delivers` without a request to the server does not deliver the item.
        assert!(!filters.delivers(&client, &Meta::new()));
    }

    #[test]
    fn announces_every_filter() {
        for name in [
            "skip-self",
            "skip-users",
            "require-sub",
            "build-id",
            "var-subst",
            "http-check",
            "http-modify",
        ] {
            assert!(Filter::from_name(name.as_bytes()).is_some());
            assert!(FEATURES.contains(&format!("filter:{name}")));
        }
        assert_eq!(FEATURES.matches("filter:").count(), 7);
    }
}
