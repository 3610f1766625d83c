//! Limits of one connection.

use super::flood::{Flood, Rate};

/// Limits for the peer, and the settings that this side announces. All calls of one [`super::Connection`] must use the
/// same limits.
///
/// The caller sets each one; the defaults suit a server on the open Internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum concurrent streams: SETTINGS_MAX_CONCURRENT_STREAMS; REFUSED_STREAM above it. A stream counts until
    /// [`super::Connection::release`]. Reset streams whose handlers have not returned may exceed the limit by a quarter,
    /// because the client no longer counts them. Default 100.
    pub streams_max: u16,
    /// Maximum size of a head with its trailers, with 32 octets per field in addition to name and value (RFC 9113,
    /// section 6.5.2). Status 431 above it; a header block of more than twice the size closes the connection. Default
    /// 16,384.
    pub header_list_bytes_max: u32,
    /// Maximum number of fields of a head with its trailers; each `cookie` field counts. Status 431 above it. Default
    /// 128.
    pub headers_count_max: u16,
    /// Maximum bytes of `:path`; status 414 above it. Default 8,192.
    pub target_bytes_max: u32,
    /// Maximum size of the decoder's dynamic table: SETTINGS_HEADER_TABLE_SIZE. Default 4,096.
    pub header_table_bytes: u16,
    /// Receive window of a stream: SETTINGS_INITIAL_WINDOW_SIZE. Default 65,535.
    pub stream_window_bytes: u32,
    /// Receive window of the connection; at least 65,535. Default 1 MiB.
    pub connection_window_bytes: u32,
    /// Maximum number of CONTINUATION frames per header block. Default 20.
    pub continuations_max: u8,
    /// Time-out for the acknowledgement of SETTINGS. Default 10,000.
    pub settings_timeout_ms: u32,
    /// Time that output of a stream may wait for a window before the stream is reset. Default 30,000.
    pub write_timeout_ms: u32,
    /// Time-out of the first phase of a shutdown: then the final GOAWAY is sent without waiting for the client. Default
    /// 1,000.
    pub drain_timeout_ms: u32,
    /// True to announce extended CONNECT (RFC 8441). Default false.
    pub connect_protocol: bool,
    /// RST_STREAM from the peer (Rapid Reset). Default 33/s, burst 1,000.
    pub resets: Rate,
    /// Streams that the peer makes this side reset or refuse (MadeYouReset). Default 33/s, burst 1,000.
    pub resets_caused: Rate,
    /// PING and its acknowledgements. Default 100/s, burst 100.
    pub pings: Rate,
    /// SETTINGS. Default 50/s, burst 50.
    pub settings: Rate,
    /// Empty DATA without END_STREAM. Default 100/s, burst 100.
    pub empty_data: Rate,
    /// WINDOW_UPDATE of the connection for which HEADERS and DATA gave no credit. Default 100/s, burst 100.
    pub connection_window_updates: Rate,
    /// WINDOW_UPDATE of all streams without credit, except the first of each stream. Default 500/s, burst
    /// 1,000.
    pub stream_window_updates: Rate,
    /// PRIORITY and PRIORITY_UPDATE. Default 200/s, burst 500.
    pub priorities: Rate,
    /// Frames of unknown types, and GOAWAY after the first. Default 100/s, burst 200.
    pub unknown_frames: Rate,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams_max: 100,
            header_list_bytes_max: 16_384,
            headers_count_max: 128,
            target_bytes_max: 8_192,
            header_table_bytes: 4_096,
            stream_window_bytes: 65_535,
            connection_window_bytes: 1 << 20,
            continuations_max: 20,
            settings_timeout_ms: 10_000,
            write_timeout_ms: 30_000,
            drain_timeout_ms: 1_000,
            connect_protocol: false,
            resets: Rate::new(33, 1_000),
            resets_caused: Rate::new(33, 1_000),
            pings: Rate::new(100, 100),
            settings: Rate::new(50, 50),
            empty_data: Rate::new(100, 100),
            connection_window_updates: Rate::new(100, 100),
            stream_window_updates: Rate::new(500, 1_000),
            priorities: Rate::new(200, 500),
            unknown_frames: Rate::new(100, 200),
        }
    }
}

impl Limits {
    /// Returns the maximum size of a compressed header block in bytes. The size of the decoded list includes 32 octets
    /// per field (RFC 9113, section 6.5.2), so a usual encoder makes no block longer than that.
    #[must_use]
    pub fn block_bytes_max(&self) -> usize {
        2 * self.header_list_bytes_max as usize
    }

    /// Returns the rate limit of `flood`; CONTINUATION is limited per header block instead.
    pub(super) fn rate(&self, flood: Flood) -> Rate {
        match flood {
            Flood::Resets => self.resets,
            Flood::ResetsCaused => self.resets_caused,
            Flood::Pings => self.pings,
            Flood::Settings => self.settings,
            Flood::EmptyData => self.empty_data,
            Flood::ConnectionWindowUpdates => self.connection_window_updates,
            Flood::StreamWindowUpdates => self.stream_window_updates,
            Flood::Priorities => self.priorities,
            Flood::UnknownFrames => self.unknown_frames,
            Flood::Continuations => Rate::new(u32::MAX, u32::MAX),
        }
    }
}
