//! Which kernel interface workers use.

use fermata_config::{LogLevel, Settings};
use fermata_io::{Backend, Kernel, probe};

use crate::log::Logger;

/// What the setting `io` asks for, if this machine allows it; else why not, for the log.
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

/// Opens what was chosen. A worker that starts later may find that it is forbidden now, or that there
/// is no memory for it; it serves all the same.
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
    fn each_value_of_the_setting_chooses() {
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
