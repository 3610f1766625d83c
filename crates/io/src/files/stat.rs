//! What a file is.

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// What the file system says about a file. Times are seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// Its kind.
    pub file_type: FileType,
    /// Bytes.
    pub size: u64,
    /// The last twelve bits of its mode.
    pub permissions: u32,
    /// Number of its owner.
    pub owner: u32,
    /// Number of its group.
    pub group: u32,
    /// Number of its inode.
    pub inode: u64,
    /// Number of its device, as `stat` has it.
    pub device: u64,
    /// Names it has.
    pub links: u64,
    /// When its content was last changed.
    pub modified_s: f64,
    /// When it was last read.
    pub accessed_s: f64,
    /// When anything about it was last changed.
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
