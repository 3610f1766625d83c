//! Publishing from a process that is not a worker.

use std::mem::MaybeUninit;

use fermata_engine::{PublisherError, control_path};

use crate::abi::{
    FM_BACKPRESSURE, FM_IO, FM_MISUSE, FM_TIMEOUT, FmError, FmId, FmMessage, FmStr, guard, misuse,
    put,
};
use crate::worker::{id_of, lend_message};

/// Publishes through the control socket `unix:/path` of a running server and waits for its reply. FM_IO, FM_TIMEOUT,
/// FM_MISUSE, FM_BACKPRESSURE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_publisher_publish(
    control: FmStr,
    timeout_ms: u32,
    channel: FmStr,
    message: Option<&FmMessage>,
    id: Option<&mut MaybeUninit<FmId>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(message, error, |message| {
        fermata_engine::check_channel(channel.bytes()).map_err(misuse)?;
        let path = control_path(&control.text());
        let message = lend_message(message);
        let published =
            fermata_engine::publish(&path, u64::from(timeout_ms), channel.bytes(), message)
                .map_err(|error| {
                    let code = match &error {
                        PublisherError::Connection { .. } => FM_IO,
                        PublisherError::Timeout { .. } => FM_TIMEOUT,
                        PublisherError::Backpressure(_) => FM_BACKPRESSURE,
                        PublisherError::Misuse(_) => FM_MISUSE,
                    };
                    (code, error.to_string())
                })?;
        put(id, id_of(&published));
        Ok(())
    })
}
