//! How many connections a worker can have with the descriptors it may open.
//!
//! A worker whose clients have taken the last descriptor cannot open a file or a database for those that are
//! there already. So a part is kept from clients, and one more of them is told so instead of waiting for ever.

use fermata_config::Settings;

/// Descriptors that a worker needs besides those of its clients.
const SPARE: u64 = 128;

/// Connections that fit below the limit of descriptors. Where that is tiny, half of it is for clients.
fn reachable(limit: u64) -> usize {
    let connections = limit.saturating_sub(SPARE).max(limit / 2).max(1);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

/// Lowers `connections_max` to what descriptors allow. Says so if that is less than was asked for.
pub(super) fn fit(settings: &mut Settings, limit: u64) -> Option<String> {
    let (wanted, reachable) = (settings.connections_max, reachable(limit));
    (reachable < wanted).then(|| {
        settings.connections_max = reachable;
        format!(
            "connections_max is {wanted}, but a process may have only {limit} open files, so a worker takes {reachable} \
             connections; raise the limit to {} (ulimit -n, LimitNOFILE= of systemd) or lower connections_max",
            wanted as u64 + SPARE
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_connections_cannot_reach_is_told_and_kept_from() {
        let mut settings = Settings::default();
        let told = fit(&mut settings, 1024).expect("1024 is too few");
        assert!(
            told.contains("connections_max is 10000") && told.contains("10128"),
            "{told}"
        );
        assert_eq!(settings.connections_max, 896);
        assert_eq!(fit(&mut settings, 1024), None);
        let mut settings = Settings::default();
        assert_eq!(fit(&mut settings, 20_000), None);
        assert_eq!(settings.connections_max, 10_000);
    }

    #[test]
    fn a_tiny_limit_leaves_some_for_clients() {
        assert_eq!(reachable(160), 80);
        assert_eq!(reachable(0), 1);
        assert_eq!(reachable(u64::MAX) as u64, u64::MAX - SPARE);
    }
}
