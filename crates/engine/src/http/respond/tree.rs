//! File responses from a directory that the application names at run time: a static directory
//! without a route.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use fermata_config::LogLevel;
use fermata_io::Driver;

use crate::http::Http;
use crate::http::files::{
    self, ContentHeaders, Directory, DirectoryError, FileError, StaticOptions,
};
use crate::http::respond::Gone;
use crate::http::respond::file::{Line, Sending, StaticFound, status_of};
use crate::id::RequestId;
use crate::net::Net;

impl Http {
    /// Opens a directory for file responses. It stays open, so the application should open each
    /// directory once.
    ///
    /// # Errors
    /// The directory cannot be served.
    pub fn open_tree(
        &mut self,
        root: &Path,
        options: StaticOptions,
    ) -> Result<Arc<Directory>, DirectoryError> {
        let number = self.router.directories_len() + self.roots.added();
        let directory = Directory::new(root, options, number)?;
        // A failed call uses no index.
        self.roots.add();
        Ok(Arc::new(directory))
    }
}

impl Http {
    /// See `Worker::respond_tree`.
    pub(crate) fn respond_tree<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: RequestId,
        directory: &Arc<Directory>,
        rest: &[u8],
        headers: &[(&[u8], &[u8])],
        asked: &ContentHeaders<'_>,
    ) -> Result<StaticFound, Gone> {
        let index = net.open_request(handle)?;
        let codings = asked.codings();
        let found = files::resolve(&mut self.roots, directory, rest, &codings, self.date_unix_s);
        let file = match found {
            Ok(file) => file,
            Err(FileError::NotFound) => return Ok(StaticFound::Nothing),
            Err(FileError::Directory) => return Ok(StaticFound::Directory),
            Err(FileError::Io(error)) => {
                let path = String::from_utf8_lossy(rest);
                let message = format!("static file {}: {error}", path.escape_debug());
                net.log_for_client(LogLevel::Error, &message);
                self.answer_error(
                    net,
                    index,
                    status_of(&error),
                    None,
                    "The file cannot be read.",
                );
                return Ok(StaticFound::Failed);
            }
        };
        let mut lines: Vec<Line<'_>> = headers.to_vec();
        if let Some(value) = &directory.cache_control {
            lines.push((b"Cache-Control", value.as_bytes()));
        }
        let options = &directory.options;
        let sending = Sending {
            status: 200,
            content_type: Cow::Owned(file.content_type.as_bytes().to_vec()),
            lines: &lines,
            compresses: options.compress,
            varies: options.precompressed || options.compress,
        };
        self.send_file(net, index, file, asked, &sending);
        Ok(StaticFound::File)
    }
}
