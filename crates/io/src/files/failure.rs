//! Why work on a file has failed, in words for the one who asked for it.

use std::path::Path;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The system has said so, after that many bytes were written.
    System {
        /// `errno`.
        errno: i32,
        /// Bytes that are in the file all the same.
        written: u64,
    },
    /// It has more bytes than may be read at once.
    TooLarge {
        /// The bound that is exceeded.
        bytes_max: u64,
    },
    /// A line has more bytes than the caller wants.
    LongLine {
        /// The bound that is exceeded.
        bytes_max: u64,
    },
    /// It is a pipe, a socket or a device.
    NotRegular,
    /// It was closed before.
    Closed,
}

/// What a program can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There is no such file.
    NotFound,
    /// Permissions forbid it.
    AccessDenied,
    /// There is one already.
    Exists,
    /// No space, or no more of it for this user.
    Full,
    /// It is a directory.
    IsDirectory,
    /// Something in the path is not a directory.
    NotDirectory,
    /// The directory is not empty.
    NotEmpty,
    /// The process or the system has no descriptors left.
    Exhausted,
    /// Anything else.
    Other,
}

impl From<i32> for Failure {
    fn from(errno: i32) -> Failure {
        Failure::System { errno, written: 0 }
    }
}

impl Failure {
    /// The system's number for it, or the nearest.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match *self {
            Failure::System { errno, .. } => errno,
            _ => libc::EIO,
        }
    }

    /// What a program can tell apart.
    #[must_use]
    pub fn kind(&self) -> Kind {
        let Failure::System { errno, .. } = self else {
            return Kind::Other;
        };
        match *errno {
            libc::ENOENT => Kind::NotFound,
            libc::EACCES | libc::EPERM | libc::EROFS => Kind::AccessDenied,
            libc::EEXIST => Kind::Exists,
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => Kind::Full,
            libc::EISDIR => Kind::IsDirectory,
            libc::ENOTDIR => Kind::NotDirectory,
            libc::ENOTEMPTY => Kind::NotEmpty,
            libc::EMFILE | libc::ENFILE => Kind::Exhausted,
            _ => Kind::Other,
        }
    }

    /// "cannot read PATH: cause; fix".
    #[must_use]
    pub fn sentence(&self, action: &str, path: &Path) -> String {
        let path = path.display();
        let cause = match *self {
            Failure::TooLarge { bytes_max } => format!(
                "it has more than {bytes_max} bytes (file_read_bytes_max); read it with File::blocks() or File::lines()"
            ),
            Failure::LongLine { bytes_max } => {
                format!("a line has more than {bytes_max} bytes; allow more or read blocks")
            }
            Failure::NotRegular => {
                "it is a pipe, a socket or a device; use PHP's streams for it".to_owned()
            }
            Failure::Closed => "it was closed before; open it again".to_owned(),
            Failure::System { errno, written } => {
                let mut cause = self.cause(errno);
                if written > 0 {
                    cause.push_str(&format!(
                        "; {written} bytes are in the file, which WriteMode::Atomic would have left as it was"
                    ));
                }
                cause
            }
        };
        format!("cannot {action} {path}: {cause}")
    }

    fn cause(&self, errno: i32) -> String {
        if errno == libc::EBADF {
            let cause =
                "it was opened for reading or for writing alone; open it with another OpenMode";
            return cause.to_owned();
        }
        let text = std::io::Error::from_raw_os_error(errno).to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        let fix = match self.kind() {
            Kind::NotFound => {
                let folder = std::env::current_dir().unwrap_or_default();
                format!("; a relative path starts at {}", folder.display())
            }
            Kind::AccessDenied if errno == libc::EROFS => "; mount it for writing".to_owned(),
            Kind::AccessDenied => {
                let user = rustix::process::geteuid().as_raw();
                format!(
                    "; the server runs as user {user}, who needs the right to it and to all directories above"
                )
            }
            Kind::Exists => "; remove it first or choose another name".to_owned(),
            Kind::Full if errno == libc::EDQUOT => "; raise the quota or remove files".to_owned(),
            Kind::Full => "; make room on the file system".to_owned(),
            Kind::IsDirectory => "; name a file in it".to_owned(),
            Kind::NotDirectory => "; a part of the path is a file".to_owned(),
            Kind::NotEmpty => "; recursive: true removes what is in it as well".to_owned(),
            Kind::Exhausted => "; raise the limit of open files (ulimit -n)".to_owned(),
            Kind::Other => String::new(),
        };
        format!("{text}{fix}")
    }
}
