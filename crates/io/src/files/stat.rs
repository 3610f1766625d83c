//! File metadata.

/// Type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Other,
}

/// Metadata of a file. Times are seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// File type.
    pub file_type: FileType,
    /// Size in bytes.
    pub size: u64,
    /// Low twelve bits of the mode.
    pub permissions: u32,
    /// User ID of the owner.
    pub owner: u32,
    /// Group ID.
    pub group: u32,
    /// Inode number.
    pub inode: u64,
    /// Device number, as in `stat`.
    pub device: u64,
    /// Number of hard links.
    pub links: u64,
    /// Time of the last change of the content.
    pub modified_s: f64,
    /// Time of the last read.
    pub accessed_s: f64,
    /// Time of the last change of content or metadata.
    pub changed_s: f64,
}

impl From<&libc::statx> for Stat {
    fn from(found: &libc::statx) -> Stat {
        let mode = u32::from(found.stx_mode);
        let seconds = |time: &libc::statx_timestamp| {
            time.tv_sec as f64 + f64::from(time.tv_nsec) / 1_000_000_000.0
        };
        Stat {
            file_type: match mode & libc::S_IFMT {
                libc::S_IFREG => FileType::File,
                libc::S_IFDIR => FileType::Directory,
                libc::S_IFLNK => FileType::Link,
                _ => FileType::Other,
            },
            size: found.stx_size,
            permissions: mode & 0o7777,
            owner: found.stx_uid,
            group: found.stx_gid,
            inode: found.stx_ino,
            device: libc::makedev(found.stx_dev_major, found.stx_dev_minor),
            links: u64::from(found.stx_nlink),
            modified_s: seconds(&found.stx_mtime),
            accessed_s: seconds(&found.stx_atime),
            changed_s: seconds(&found.stx_ctime),
        }
    }
}
