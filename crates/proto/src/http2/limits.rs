//! The bounds of one connection.

use super::flood::{Flood, Rate};

/// What a peer may do, and what this side tells it. The same for all calls of one [`super::Connection`].
///
/// Each is set by the embedder of the state machine; the defaults are those of a server on the open Internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Streams at a time: SETTINGS_MAX_CONCURRENT_STREAMS. A stream counts until [`super::Connection::release`]. For those that
    /// were reset and whose handlers have not returned there is room for a quarter more, as the client counts them no longer.
    /// Above it REFUSED_STREAM. Default 100.
    pub streams_max: u16,
    /// Size of a head with its trailers by RFC 9113, 6.5.2: 32 octets per field beside name and value. Above it status 431;
    /// a block of more than twice that ends the connection. Default 16,384.
    pub header_list_bytes_max: u32,
    /// Fields of a head with its trailers, each crumb of a cookie being one. Above it status 431. Default 128.
    pub headers_count_max: u16,
    /// Bytes of `:path`. Above it status 414. Default 8,192.
    pub target_bytes_max: u32,
    /// Size of the decoder's dynamic table: SETTINGS_HEADER_TABLE_SIZE. Default 4,096.
    pub header_table_bytes: u16,
    /// What a peer may send of one stream before it was consumed: SETTINGS_INITIAL_WINDOW_SIZE. Default 65,535.
    pub stream_window_bytes: u32,
    /// The same of all streams; at least 65,535. Default 1 MiB.
    pub connection_window_bytes: u32,
    /// CONTINUATION frames per header block. Default 20.
    pub continuations_max: u8,
    /// How long SETTINGS may wait for their acknowledgement. Default 10,000.
    pub settings_timeout_ms: u32,
    /// How long output of a stream may wait for a window; then the stream is reset. Default 30,000.
    pub write_timeout_ms: u32,
    /// How long a client is asked to finish before GOAWAY names the last stream, if it does not answer sooner. Default 1,000.
    pub drain_timeout_ms: u32,
    /// Whether extended CONNECT is offered (RFC 8441). Default off.
    pub connect_protocol: bool,
    /// RST_STREAM that the peer sends: Rapid Reset. Default 33/s, burst 1,000.
    pub resets: Rate,
    /// Streams that the peer makes this side reset or refuse: MadeYouReset. Default 33/s, burst 1,000.
    pub resets_caused: Rate,
    /// PING, and answers to it. Default 100/s, burst 100.
    pub pings: Rate,
    /// SETTINGS. Default 50/s, burst 50.
    pub settings: Rate,
    /// DATA that holds nothing and does not end its stream. Default 100/s, burst 100.
    pub empty_data: Rate,
    /// WINDOW_UPDATE of the connection beyond one per 1,024 bytes sent. Default 100/s, burst 100.
    pub connection_window_updates: Rate,
    /// The same of streams, taken together and but for the first of each. Default 500/s, burst 1,000.
    pub stream_window_updates: Rate,
    /// PRIORITY and PRIORITY_UPDATE. Default 200/s, burst 500.
    pub priorities: Rate,
    /// Frames of unknown kinds, and GOAWAY behind the first. Default 100/s, burst 200.
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
    /// Bytes of a header block, still compressed. No honest encoder makes one longer than its list.
    #[must_use]
    pub fn block_bytes_max(&self) -> usize {
        2 * self.header_list_bytes_max as usize
    }

    /// What bounds `flood`; CONTINUATION is bounded per block instead.
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
