//! The form of an item for one client.

use fermata_engine::{Left, RequestId};
use fermata_grip::filter::Subscriber;
use fermata_grip::instruct::Meta;
use fermata_grip::item::{Body as ItemBody, Item, MessageAction, ResponseAction, StreamAction};

use crate::client::delivery::Delivery;
use crate::client::poll::patched;
use crate::client::session::{Kind, Session};

/// State of the client when the item is delivered, from which ids are built.
pub(super) struct Having<'a> {
    pub(super) session: &'a Session,
    pub(super) channel: &'a [u8],
    pub(super) prev_id: Option<&'a [u8]>,
}

impl Subscriber for Having<'_> {
    fn meta(&self) -> &Meta {
        self.session.meta()
    }

    fn is_subscribed(&self, channel: &[u8]) -> bool {
        self.session.is_subscribed(channel)
    }

    fn last_id(&self, channel: &[u8]) -> Option<&[u8]> {
        let mut subscriptions = self.session.subscriptions.iter();
        let found = subscriptions.find(|it| it.own.as_deref() == Some(channel))?;
        if found.channel == self.channel {
            self.prev_id
        } else {
            found.prev_id.as_deref()
        }
    }
}

/// The form of an item for one client.
pub(super) struct Format<'a> {
    pub(super) content_filters: Option<&'a [Vec<u8>]>,
    /// Content; `None` if the item has an action without content.
    pub(super) content: Option<Vec<u8>>,
    pub(super) action: Action<'a>,
}

/// The action of an item on the client of a handle.
pub(super) enum Action<'a> {
    Poll(RequestId, &'a ResponseAction),
    Stream(RequestId, &'a StreamAction),
    Socket(RequestId, &'a MessageAction),
}

/// The action for a client, with the content after all filters.
#[derive(Debug)]
pub(crate) enum Filtered {
    Poll(RequestId, ResponseAction),
    Stream(RequestId, Delivery),
    Socket(RequestId, MessageAction, Option<Vec<u8>>),
}

impl<'a> Format<'a> {
    /// Returns the client's form of an item; `None` if the item has no form for this client.
    pub(super) fn new(session: &Session, client: Left, item: &'a Item) -> Option<Self> {
        let (content_filters, content, action) = match client {
            Left::Request(handle) => {
                let format = item.http_response.as_ref()?;
                let content = match (&format.action, &session.kind) {
                    (ResponseAction::Send(response), Kind::Poll(poll)) => match &response.body {
                        ItemBody::Bytes(body) => Some(body.clone()),
                        ItemBody::Patch(patch) => patched(&poll.body, patch),
                    },
                    (ResponseAction::Close | ResponseAction::Refresh, _) => return None,
                    _ => None,
                };
                let action = Action::Poll(handle, &format.action);
                (&format.content_filters, content, action)
            }
            Left::Held(handle) => {
                let format = item.http_stream.as_ref()?;
                let content = match &format.action {
                    StreamAction::Send(content) => Some(content.clone()),
                    StreamAction::Refresh => return None,
                    StreamAction::Hint | StreamAction::Close => None,
                };
                let action = Action::Stream(handle, &format.action);
                (&format.content_filters, content, action)
            }
            Left::Socket(socket) => {
                let format = item.ws_message.as_ref()?;
                let content = match &format.action {
                    MessageAction::Send { content, .. } => Some(content.clone()),
                    MessageAction::Hint => return None,
                    MessageAction::Close { .. } | MessageAction::Refresh => None,
                };
                let action = Action::Socket(socket.handshake(), &format.action);
                (&format.content_filters, content, action)
            }
        };
        Some(Self {
            content_filters: content_filters.as_deref(),
            content,
            action,
        })
    }
}

impl Action<'_> {
    /// Returns the action with the content after all filters.
    pub(super) fn with(self, content: Option<Vec<u8>>) -> Filtered {
        match self {
            Self::Poll(handle, action) => {
                let mut action = action.clone();
                if let (ResponseAction::Send(response), Some(content)) = (&mut action, content) {
                    response.body = ItemBody::Bytes(content);
                }
                Filtered::Poll(handle, action)
            }
            Self::Stream(handle, action) => match content {
                Some(content) => Filtered::Stream(handle, Delivery::Content(content)),
                None => Filtered::Stream(handle, Delivery::Act(action.clone())),
            },
            Self::Socket(handle, action) => Filtered::Socket(handle, action.clone(), content),
        }
    }
}
