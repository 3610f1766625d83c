//! Operations on an open file, each as one job.

use std::path::PathBuf;

use super::data::Data;
use super::failure::Failure;
use super::handle::Handle;
use super::job::{Job, Ops, Outcome, Output};
use super::key::absolute;
use super::op::Op;
use super::stat::Stat;
use super::work::{self, BLOCK_BYTES};

impl Handle {
    /// Reads at most `len` bytes from the position; fewer only at the end of the file.
    #[must_use]
    pub fn read(&self, len: usize) -> Job {
        let handle = self.clone();
        self.job(None, move |ops| async move {
            let mut bytes = handle.take_ahead(len);
            let file = handle.file()?;
            let offset = handle.position();
            let had = bytes.len();
            let read = work::read(&ops, &file, &mut bytes, len - had, offset).await;
            if let Err(failure) = read {
                // The bytes can be read again.
                handle.put_ahead(bytes, had);
                return Err(failure);
            }
            handle.advance((bytes.len() - had) as u64);
            Ok(Output::Bytes(Some(bytes)))
        })
    }

    /// Reads a line and returns it without its line end. Returns `Output::Bytes(None)` after the last line.
    #[must_use]
    pub fn read_line(&self, bytes_max: usize) -> Job {
        let handle = self.clone();
        self.job(None, move |ops| async move {
            let file = handle.file()?;
            let mut searched = 0;
            loop {
                if let Some(line) = handle.take_line(searched, bytes_max)? {
                    return Ok(Output::Bytes(Some(line)));
                }
                // An incomplete line stays at the front of the block.
                let mut block = handle.take_ahead(usize::MAX);
                searched = block.len();
                let offset = handle.position();
                let read = work::read(&ops, &file, &mut block, BLOCK_BYTES, offset).await;
                let has_more = block.len() > searched;
                handle.put_ahead(block, searched);
                read?;
                if !has_more {
                    let rest = handle.take_ahead(usize::MAX);
                    return Ok(Output::Bytes((!rest.is_empty()).then_some(rest)));
                }
            }
        })
    }

    /// Writes all bytes at the position, or at the end of a file opened for appending.
    #[must_use]
    pub fn write(&self, data: Data) -> Job {
        let handle = self.clone();
        self.job(Some(data.clone()), move |ops| async move {
            let file = handle.file()?;
            handle.drop_ahead();
            let written = work::write(&ops, &file, &data, handle.position(), BLOCK_BYTES).await;
            let count = match &written {
                Ok(count) => *count,
                Err(Failure::System { written, .. }) => *written,
                Err(_) => 0,
            };
            handle.advance(count);
            written.map(Output::Count)
        })
    }

    /// Sets the position.
    #[must_use]
    pub fn seek(&self, position: u64) -> Job {
        let handle = self.clone();
        self.job(None, move |_| async move {
            handle.file()?;
            handle.go_to(position);
            Ok(Output::Done)
        })
    }

    /// Truncates the file to `len` bytes, or extends it with zero bytes.
    #[must_use]
    pub fn truncate(&self, len: u64) -> Job {
        let handle = self.clone();
        self.job(None, move |ops| async move {
            let file = handle.file()?;
            handle.drop_ahead();
            ops.call(Op::Truncate { file, len }).await?;
            Ok(Output::Done)
        })
    }

    /// Completes when the disk has all data.
    #[must_use]
    pub fn sync(&self) -> Job {
        let handle = self.clone();
        self.job(None, move |ops| async move {
            let file = handle.file()?;
            ops.call(Op::Sync { file }).await?;
            Ok(Output::Done)
        })
    }

    /// Returns the file's current metadata.
    #[must_use]
    pub fn stat(&self) -> Job {
        let handle = self.clone();
        self.job(None, move |ops| async move {
            let found = work::stat_file(&ops, &handle.file()?).await?;
            Ok(Output::Stat(Stat::from(&*found)))
        })
    }

    /// Renames a temporary file, which replaces an existing file and is then permanent. Returns `None` if the file is not temporary
    /// or already being renamed.
    #[must_use]
    pub fn keep(&self, path: PathBuf) -> Option<Job> {
        let keeping = self.begin_keeping()?;
        let to = absolute(path.clone());
        let mut keys = keeping
            .place()
            .map_or_else(Vec::new, |place| work::both(place, &to));
        keys.push(self.key());
        let work = move |ops| async move {
            if let Some(place) = keeping.place() {
                work::rename_to(&ops, place, &to, true).await?;
            }
            keeping.end(path);
            Ok(Output::Done)
        };
        Some(Job::new(keys, None, work))
    }

    fn job<F>(&self, data: Option<Data>, work: impl FnOnce(Ops) -> F) -> Job
    where
        F: Future<Output = Outcome> + 'static,
    {
        Job::new(vec![self.key()], data, work)
    }
}
