//! Failures of file operations, with messages for the application.

use std::path::Path;

/// Reason of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A system error.
    System {
        /// `errno`.
        errno: i32,
        /// Bytes that were written before the error.
        written: u64,
    },
    /// The file is larger than one read allows.
    TooLarge {
        /// The limit that is exceeded.
        bytes_max: u64,
    },
    /// A line is longer than the caller allows.
    LongLine {
        /// The limit that is exceeded.
        bytes_max: u64,
    },
    /// The file is a pipe, socket or device.
    NotRegular,
    /// The file was closed before.
    Closed,
}

/// Category of a failure, for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The file does not exist.
    NotFound,
    /// Permissions forbid the operation.
    AccessDenied,
    /// The file already exists.
    Exists,
    /// No space is left, or the user's quota is exhausted.
    Full,
    /// The file is a directory.
    IsDirectory,
    /// A component of the path is not a directory.
    NotDirectory,
    /// The directory is not empty.
    NotEmpty,
    /// The process or the system has no descriptors left.
    Exhausted,
    /// Any other error.
    Other,
}

impl From<i32> for Failure {
    fn from(errno: i32) -> Failure {
        Failure::System { errno, written: 0 }
    }
}

impl Failure {
    /// Returns `errno`, or EIO for other failures.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match *self {
            Failure::System { errno, .. } => errno,
            _ => libc::EIO,
        }
    }

    /// Returns the category.
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

    /// Returns "cannot read PATH: cause; fix".
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
                "it was opened only for reading or only for writing; open it with another OpenMode";
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
