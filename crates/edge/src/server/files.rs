//! Targets that are folders. The engine serves their files.

use std::path::Path;
use std::sync::Arc;

use fermata_engine::files::{ContentHeaders, Directory, StaticOptions};
use fermata_engine::{RequestId, StaticFound};
use fermata_fastcgi::codec::is_denied;
use fermata_proto::percent;

use crate::client::clients::Clients;
use crate::client::request::ClientRequest;
use crate::client::source::{Engine, Owner};
use crate::routes::{Rule, Target, is_program};
use crate::server::policy::EdgePolicy;
use crate::upstream::error::UpstreamError;
use crate::upstream::exchange::{Step, Stop, UpstreamExchange};
use crate::upstream::folders::{Filed, Folders};
use crate::upstream::response::Head;

/// Maximum number of open folders. A larger number would include folders of former routes.
const FOLDERS_MAX: usize = 256;

impl Clients {
    /// Responds to a request with a file.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub(super) fn ask_folder(
        &mut self,
        policy: &EdgePolicy,
        folders: &mut Folders,
        worker: &mut Engine,
        exchange: &UpstreamExchange,
        rule: &Rule,
        (target, folder): (&Target, &str),
    ) -> Result<Filed, UpstreamError> {
        let Owner::Client(handle) = exchange.owner else {
            // Unreachable: `choose` selects folders only for requests of clients.
            let reason = format!("{folder}: files are for requests of clients");
            return Err(UpstreamError::Local(reason));
        };
        let request = &exchange.source.request;
        if !matches!(&request.method[..], b"GET" | b"HEAD") {
            let head = Head {
                status: 405,
                headers: vec![(b"Allow".to_vec(), b"GET, HEAD".to_vec())],
                ..Head::default()
            };
            return Ok(Filed::Nothing(head, "Files are read by GET.".to_owned()));
        }
        if self.is_script(handle) {
            // JSON-P responses are converted to scripts, which is not done for files.
            return Ok(nothing(404, "Files are not read by JSON-P."));
        }
        let path = rule.backend_path(request.path());
        let mut decoded = Vec::new();
        let mut slashes = Vec::new();
        let path = match percent::decode_path(&path, &mut decoded, &mut slashes) {
            // File names have no trailing slash.
            Ok(_) if !slashes.is_empty() => return Ok(nothing(404, "Nothing is here.")),
            Ok(true) => &decoded[..],
            Ok(false) => &path[..],
            Err(refusal) => return Ok(nothing(400, &format!("{refusal}."))),
        };
        let name = path.rsplit(|&byte| byte == b'/').next();
        if name.is_some_and(is_program) || is_denied(path, &target.denied) {
            return Ok(nothing(404, "Nothing is here."));
        }
        let directory = folders.open(worker, folder, target)?;
        let mut asked = ContentHeaders::default();
        for (name, value) in &request.headers {
            asked.take(name, value);
        }
        let mut headers = Vec::new();
        policy.add_cross_origin(&exchange.source, &mut headers);
        let lines: Vec<(&[u8], &[u8])> = headers
            .iter()
            .map(|(name, value)| (&name[..], &value[..]))
            .collect();
        match worker.respond_tree(handle, &directory, path, &lines, &asked) {
            Ok(StaticFound::Nothing) => Ok(nothing(404, "Nothing is here.")),
            Ok(StaticFound::Directory) => {
                self.send_to_folder(worker, handle, request);
                Ok(Filed::Answered)
            }
            Ok(StaticFound::File | StaticFound::Failed) | Err(_) => {
                self.forget_request(worker, handle);
                Ok(Filed::Answered)
            }
        }
    }

    /// Redirects a client from a folder's name to the name with a slash.
    pub(super) fn send_to_folder(
        &mut self,
        worker: &mut Engine,
        handle: RequestId,
        request: &ClientRequest,
    ) {
        // Redirect to the client's own path, so that relative links of the page work.
        let (own, query) = request.target.split_at(request.path().len());
        let location = [own, b"/", query].concat();
        let head = Head {
            status: 308,
            headers: vec![(b"Location".to_vec(), location)],
            ..Head::default()
        };
        self.respond(worker, handle, &head, b"");
    }

    /// Sends the response of the last folder tried.
    pub(super) fn answer_nothing(
        &mut self,
        policy: &EdgePolicy,
        worker: &mut Engine,
        exchange: &UpstreamExchange,
        head: Head,
        text: &str,
    ) -> Step {
        if let Owner::Client(handle) = exchange.owner {
            let mut head = head;
            let line = (b"Content-Type".to_vec(), b"text/plain".to_vec());
            head.headers.push(line);
            policy.add_cross_origin(&exchange.source, &mut head.headers);
            self.respond(worker, handle, &head, format!("{text}\n").as_bytes());
        }
        Err(Stop::Over)
    }
}

impl Folders {
    fn open(
        &mut self,
        worker: &mut Engine,
        folder: &str,
        target: &Target,
    ) -> Result<Arc<Directory>, UpstreamError> {
        let options = (target.index.clone(), target.cache_s, target.follows_links);
        let known = self
            .0
            .iter()
            .find(|(path, of, _)| path == folder && *of == options);
        if let Some((_, _, directory)) = known {
            return Ok(Arc::clone(directory));
        }
        if self.0.len() >= FOLDERS_MAX {
            return Err(UpstreamError::Local(format!(
                "{folder}: {FOLDERS_MAX} other folders have been served since the start; restart the edge"
            )));
        }
        let defaults = StaticOptions::default();
        let directory = worker
            .http
            .open_tree(
                Path::new(folder),
                StaticOptions {
                    cache_seconds: target.cache_s,
                    links: target.follows_links,
                    index: target.index.clone().unwrap_or(defaults.index),
                    ..StaticOptions::default()
                },
            )
            .map_err(|error| UpstreamError::Target(format!("{folder}: {error}")))?;
        self.0
            .push((folder.to_owned(), options, Arc::clone(&directory)));
        Ok(directory)
    }
}

fn nothing(status: u16, text: &str) -> Filed {
    let head = Head {
        status,
        ..Head::default()
    };
    Filed::Nothing(head, text.to_owned())
}
