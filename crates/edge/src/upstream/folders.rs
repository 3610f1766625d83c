//! Folders that routes serve files from.

use std::sync::Arc;

use fermata_engine::files::Directory;

use crate::upstream::response::Head;

/// What a folder's target says besides its name.
type Options = (Option<String>, Option<u32>);

/// Folders of targets that have been asked for.
#[derive(Default)]
pub(crate) struct Folders(pub(crate) Vec<(String, Options, Arc<Directory>)>);

/// What a folder has for a request.
pub(crate) enum Filed {
    /// It was answered.
    Answered,
    /// Nothing: the next target may have it; the last one answers as this says.
    Nothing(Head, String),
}
