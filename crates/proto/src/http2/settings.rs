//! SETTINGS (RFC 9113, section 6.5; RFC 8441, section 3; RFC 9218, section 2.1).

use super::Role;
use super::error::Violation;
use super::frame::{self, Kind, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_USUAL, WINDOW_INITIAL};
use super::limits::Limits;

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;
const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
const NO_RFC7540_PRIORITIES: u16 = 0x9;

/// Length of one setting in bytes.
const SETTING_BYTES: usize = 6;

/// Settings of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Initial send window of each new stream.
    pub window: i32,
    /// Maximum payload of frames to the peer.
    pub frame_bytes_max: u32,
    /// Maximum number of concurrent streams that the peer accepts.
    pub streams_max: u32,
    /// Size of the peer's decoder table.
    pub header_table_bytes: u32,
    /// True if the peer accepts extended CONNECT.
    pub connect_protocol: bool,
}

impl Settings {
    /// Returns the settings that apply before the peer's first SETTINGS.
    pub(super) fn initial() -> Self {
        Self {
            window: WINDOW_INITIAL,
            frame_bytes_max: PAYLOAD_BYTES_USUAL,
            streams_max: u32::MAX,
            header_table_bytes: 4096,
            connect_protocol: false,
        }
    }

    /// Applies the payload of SETTINGS that `receiver` received. Ignores unknown settings.
    pub(super) fn apply(&mut self, payload: &[u8], receiver: Role) -> Result<(), Violation> {
        for setting in payload.chunks_exact(SETTING_BYTES) {
            let [n1, n0, v3, v2, v1, v0] = *setting else {
                continue;
            };
            let value = u32::from_be_bytes([v3, v2, v1, v0]);
            match u16::from_be_bytes([n1, n0]) {
                HEADER_TABLE_SIZE => self.header_table_bytes = value,
                ENABLE_PUSH if value > u32::from(receiver == Role::Server) => {
                    return Err(Violation::SettingValue);
                }
                MAX_CONCURRENT_STREAMS => self.streams_max = value,
                INITIAL_WINDOW_SIZE => {
                    self.window = i32::try_from(value).map_err(|_| Violation::SettingWindow)?;
                }
                MAX_FRAME_SIZE if (PAYLOAD_BYTES_USUAL..=PAYLOAD_BYTES_MAX).contains(&value) => {
                    self.frame_bytes_max = value;
                }
                MAX_FRAME_SIZE => return Err(Violation::SettingValue),
                ENABLE_CONNECT_PROTOCOL if value == 1 || (value == 0 && !self.connect_protocol) => {
                    self.connect_protocol = value == 1;
                }
                ENABLE_CONNECT_PROTOCOL => return Err(Violation::SettingValue),
                NO_RFC7540_PRIORITIES if value > 1 => return Err(Violation::SettingValue),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Appends the initial SETTINGS of `role`.
pub(super) fn write_own(out: &mut Vec<u8>, role: Role, limits: &Limits) {
    let mut payload = Vec::with_capacity(6 * SETTING_BYTES);
    let mut set = |number: u16, value: u32| {
        payload.extend_from_slice(&number.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    };
    if limits.header_table_bytes != 4096 {
        set(HEADER_TABLE_SIZE, u32::from(limits.header_table_bytes));
    }
    match role {
        Role::Client => set(ENABLE_PUSH, 0),
        Role::Server => set(MAX_CONCURRENT_STREAMS, u32::from(limits.streams_max)),
    }
    set(
        INITIAL_WINDOW_SIZE,
        limits.stream_window_bytes.min(i32::MAX as u32),
    );
    set(MAX_HEADER_LIST_SIZE, limits.header_list_bytes_max);
    if role == Role::Server && limits.connect_protocol {
        set(ENABLE_CONNECT_PROTOCOL, 1);
    }
    set(NO_RFC7540_PRIORITIES, 1);
    frame::write(out, Kind::Settings, 0, 0, &payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(receiver: Role, settings: &[(u16, u32)]) -> Result<Settings, Violation> {
        let mut payload = Vec::new();
        for (number, value) in settings {
            payload.extend_from_slice(&number.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        let mut peer = Settings::initial();
        peer.apply(&payload, receiver).map(|()| peer)
    }

    /// RFC 9113, section 6.5.2; RFC 8441, section 3; RFC 9218, section 2.1.
    #[test]
    fn values() {
        let both = [Role::Server, Role::Client];
        for role in both {
            assert_eq!(
                apply(role, &[(0x4, 0x8000_0000)]),
                Err(Violation::SettingWindow)
            );
            for bad in [(0x2, 2), (0x5, 16_383), (0x5, 1 << 24), (0x8, 2), (0x9, 2)] {
                assert_eq!(apply(role, &[bad]), Err(Violation::SettingValue), "{bad:?}");
            }
            assert_eq!(
                apply(role, &[(0x8, 1), (0x8, 0)]),
                Err(Violation::SettingValue)
            );
            let peer = apply(
                role,
                &[(0x1, 7), (0x4, 1), (0x3, 5), (0x5, 20_000), (0x4, 9)],
            );
            let peer = peer.expect("valid");
            assert_eq!((peer.header_table_bytes, peer.window), (7, 9));
            assert_eq!((peer.streams_max, peer.frame_bytes_max), (5, 20_000));
            // Unknown settings. Some clients send them so that servers keep ignoring unknown
            // settings.
            assert_eq!(
                apply(role, &[(0x0a0a, 7), (0xfafa, u32::MAX)]),
                Ok(Settings::initial())
            );
        }
        assert!(apply(Role::Server, &[(0x2, 1)]).is_ok());
        assert!(apply(Role::Client, &[(0x2, 1)]).is_err());
    }

    #[test]
    fn what_a_server_begins_with() {
        let mut out = Vec::new();
        let limits = Limits {
            connect_protocol: true,
            ..Limits::default()
        };
        write_own(&mut out, Role::Server, &limits);
        assert_eq!(
            out,
            b"\x00\x00\x1e\x04\x00\x00\x00\x00\x00\
              \x00\x03\x00\x00\x00\x64\x00\x04\x00\x00\xff\xff\x00\x06\x00\x00\x40\x00\
              \x00\x08\x00\x00\x00\x01\x00\x09\x00\x00\x00\x01"
        );
    }
}
