//! File operations that handlers wait for.
//!
//! All resources (ring, thread, watched descriptor) are created on first use.

use fermata_config::LogLevel;
use fermata_io::Driver;
use fermata_io::files::{Backend, Bounds, Files, Full, Job, JobId, Outcome, Started};

use crate::embed::waiting::Waiting;
use crate::net::Net;
use crate::net::token::TOKEN_FILES;

/// Why a file operation was not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileJobError {
    /// The queue has its maximum number of operations.
    #[error(
        "{0} file operations (file_queue_max) are pending; wait for some before you start more"
    )]
    Full(usize),
    /// The queued writes have their maximum size in bytes.
    #[error(
        "writes of {0} bytes (file_queue_bytes_max) are pending; wait for some before you start more"
    )]
    FullOfBytes(usize),
    /// The system lacks resources.
    #[error("cannot start file operations: {0}")]
    System(String),
}

/// File operations of handlers. Empty until the first one.
#[derive(Default)]
pub struct FileJobs {
    files: Option<Box<Files>>,
}

impl FileJobs {
    /// Starts an operation. If it is pending, [`crate::Event::Wake`] announces its result in
    /// [`FileJobs::next_file_job`], which also returns `user`.
    pub fn begin_file_job<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &mut Waiting,
        job: Job,
        user: u64,
    ) -> Result<Started, FileJobError> {
        let files = self.open(net)?;
        let started = files.start(job, user);
        let has_results = files.has_results();
        if has_results {
            waiting.wake_now();
        }
        started.map_err(|full| match full {
            Full::Jobs => FileJobError::Full(net.settings.file_queue_max),
            Full::Bytes => FileJobError::FullOfBytes(net.settings.file_queue_bytes_max),
        })
    }

    /// Runs an operation synchronously, after the earlier operations that must precede it.
    pub fn run_file_job(&mut self, waiting: &mut Waiting, job: Job) -> Outcome {
        let Some(files) = &mut self.files else {
            return job.run_now();
        };
        let outcome = files.run(job);
        if files.has_results() {
            waiting.wake_now();
        }
        outcome
    }

    /// Returns true if the application may make a short call itself: see [`Files::may_try`].
    /// [`FileJobs::tried_file`] must follow.
    pub fn may_try_file<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        written: Option<(u64, u64)>,
        bytes: usize,
    ) -> bool {
        self.open(net)
            .is_ok_and(|files| files.may_try(written, bytes))
    }

    /// Notes that the call has returned.
    pub fn tried_file(&mut self) {
        if let Some(files) = &mut self.files {
            files.tried();
        }
    }

    /// Completes pending writes to a file before a synchronous write.
    pub fn settle_file(&mut self, waiting: &mut Waiting, device: u64, inode: u64) {
        if let Some(files) = &mut self.files {
            files.settle(device, inode);
            if files.has_results() {
                waiting.wake_now();
            }
        }
    }

    /// Returns the next finished operation: its number and `user`.
    pub fn next_file_job(&mut self) -> Option<(JobId, u64)> {
        self.files.as_mut()?.next_over()
    }

    /// Removes and returns the result of an operation; `None` while it is unfinished.
    pub fn take_file_job(&mut self, id: JobId) -> Option<Outcome> {
        self.files.as_mut()?.take(id)
    }

    /// Stops waiting for an operation. The operation still runs to its end.
    pub fn forget_file_job(&mut self, id: JobId) {
        if let Some(files) = &mut self.files {
            files.forget(id);
        }
    }

    /// Returns true if operations are unfinished.
    pub(crate) fn has_file_jobs(&self) -> bool {
        self.files.as_ref().is_some_and(|files| !files.is_idle())
    }

    /// Handles finished operations.
    pub(crate) fn on_files(&mut self, waiting: &mut Waiting) {
        if let Some(files) = &mut self.files {
            files.on_ready();
            if files.has_results() {
                waiting.wake_now();
            }
        }
    }

    fn open<D: Driver>(&mut self, net: &mut Net<D>) -> Result<&mut Files, FileJobError> {
        if self.files.is_none() {
            self.open_files(net)?;
        }
        self.files
            .as_deref_mut()
            .ok_or_else(|| FileJobError::System("they could not be opened".to_owned()))
    }

    fn open_files<D: Driver>(&mut self, net: &mut Net<D>) -> Result<(), FileJobError> {
        let bounds = Bounds {
            jobs_max: net.settings.file_operations_max,
            waiting_max: net.settings.file_queue_max,
            waiting_bytes_max: net.settings.file_queue_bytes_max,
            threads_max: net.settings.file_threads_max,
            inline_bytes_max: net.settings.file_inline_bytes_max,
        };
        let backend = match net.settings.file_io.as_str() {
            "threads" => Backend::Threads,
            _ => Backend::Auto,
        };
        let system = |error: std::io::Error| FileJobError::System(error.to_string());
        let (files, ring) = Files::new(bounds, backend).map_err(system)?;
        if ring.is_err() {
            let cause = fermata_io::probe::io_uring().err();
            let cause = cause.map_or_else(
                || "it cannot be opened".to_owned(),
                |cause| cause.to_string(),
            );
            net.log(
                LogLevel::Info,
                &format!("files: io_uring is not available ({cause}); using threads"),
            );
        }
        net.driver
            .add_wake(files.fd(), TOKEN_FILES)
            .map_err(system)?;
        self.files = Some(Box::new(files));
        Ok(())
    }
}
