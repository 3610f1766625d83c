//! Mapping from programs to the server settings they read.

/// Settings that only servers in PHP read: limits of handlers, fibers and parsed forms, and the
/// edges to publish to.
pub(crate) const OF_PHP: [&str; 21] = [
    "grip_url",
    "grip_link_timeout_ms",
    "grip_publish_timeout_ms",
    "fibers_max",
    "handlers_max",
    "worker_memory_bytes_max",
    "fibers_idle_max",
    "fiber_stack_bytes",
    "abandoned_query_ms_max",
    "abandoned_wait_ms_max",
    "tasks_queue_max",
    "callback_wait",
    "callback_wait_ms_max",
    "tasks_per_request_max",
    "shared_wait_timeout_ms",
    "sapi_name",
    "file_read_bytes_max",
    "multipart_bytes_max",
    "upload_bytes_max",
    "uploads_max",
    "form_fields_max",
];

/// Program that reads the server's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Server in PHP; reads every setting.
    Php,
    /// `fermata edge`; also has its own table.
    Edge,
    /// `fermata hub`.
    Hub,
}

impl Program {
    /// Returns true if the program uses the setting.
    pub(crate) fn reads(self, name: &str) -> bool {
        self == Program::Php || !is_of_php(name)
    }
}

/// Returns true if only servers in PHP read the setting.
pub(crate) fn is_of_php(name: &str) -> bool {
    OF_PHP.contains(&name)
}
