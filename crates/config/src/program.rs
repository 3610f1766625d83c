//! Which program reads which of the server's settings.

/// Settings that servers in PHP alone read: what bounds handlers, fibers and their work, forms
/// that are read for them, and where they publish to.
pub(crate) const OF_PHP: [&str; 16] = [
    "grip_url",
    "grip_link_timeout_ms",
    "grip_publish_timeout_ms",
    "fibers_max",
    "handlers_max",
    "worker_memory_bytes_max",
    "fibers_idle_max",
    "fiber_stack_bytes",
    "abandoned_query_ms_max",
    "tasks_queue_max",
    "shared_wait_timeout_ms",
    "file_read_bytes_max",
    "multipart_bytes_max",
    "upload_bytes_max",
    "uploads_max",
    "form_fields_max",
];

/// What reads the settings of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// A server in PHP, which has a meaning for each.
    Php,
    /// `fermata edge`, which has a table of its own besides.
    Edge,
    /// `fermata hub`.
    Hub,
}

impl Program {
    /// Whether it does something with a setting.
    pub(crate) fn reads(self, name: &str) -> bool {
        self == Program::Php || !is_of_php(name)
    }
}

/// Whether only servers in PHP have a setting.
pub(crate) fn is_of_php(name: &str) -> bool {
    OF_PHP.contains(&name)
}
