//! Folders from which routes serve files.

use std::sync::Arc;

use fermata_engine::files::Directory;

use crate::upstream::response::Head;

/// Options of a folder's target.
type Options = (Option<String>, Option<u32>, bool);

/// Folders opened so far.
#[derive(Default)]
pub(crate) struct Folders(pub(crate) Vec<(String, Options, Arc<Directory>)>);

/// Result of a request to a folder.
pub(crate) enum Filed {
    /// The response was sent.
    Answered,
    /// The file does not exist. The next target is tried; if this was the last target, the client receives this response.
    Nothing(Head, String),
}
