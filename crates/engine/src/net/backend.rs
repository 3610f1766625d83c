//! Selection of the kernel interface for workers.

use fermata_config::{LogLevel, Settings};
use fermata_io::{Backend, Kernel, probe};

use crate::log::Logger;

/// Returns the interface selected by the setting `io`. If it is unavailable, returns epoll and the
/// reason for the log.
pub(crate) fn choose(settings: &Settings) -> (Backend, Option<String>) {
    let wanted = match settings.io.as_str() {
        "epoll" => Backend::Epoll,
        "io_uring" => Backend::IoUring,
        _ => Backend::AUTO,
    };
    if wanted == Backend::IoUring
        && let Err(why) = probe::io_uring()
    {
        return (Backend::Epoll, Some(refusal(&why.to_string())));
    }
    (wanted, None)
}

/// Opens the selected interface. A worker that starts later may find io_uring forbidden or out of
/// memory; it then uses epoll.
pub(crate) fn open(backend: Backend, logger: &Logger) -> std::io::Result<Kernel> {
    match Kernel::open(backend) {
        Err(error) if backend == Backend::IoUring => {
            let message = refusal(&error.to_string());
            logger.write(LogLevel::Warning, fermata_io::clock::unix_ms(), &message);
            Kernel::open(Backend::Epoll)
        }
        opened => opened,
    }
}

fn refusal(why: &str) -> String {
    format!("io_uring is not available: {why}; using epoll")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_the_backend_by_the_setting() {
        let backend = |io: &str| {
            let io = io.to_owned();
            choose(&Settings {
                io,
                ..Settings::default()
            })
            .0
        };
        assert_eq!(backend("epoll"), Backend::Epoll);
        assert_eq!(backend("auto"), Backend::AUTO);
        let allowed = if probe::io_uring().is_ok() {
            Backend::IoUring
        } else {
            Backend::Epoll
        };
        assert_eq!(backend("io_uring"), allowed);
    }
}
