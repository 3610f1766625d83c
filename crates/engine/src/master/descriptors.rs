//! How many connections a worker can have with the descriptors it may open.
//!
//! A worker whose clients have taken the last descriptor cannot open a file or a database for those that are
//! there already. So a part is kept from clients, and one more of them is told so instead of waiting for ever.

use fermata_config::Settings;

/// Descriptors that are kept from the clients of a worker, at least.
const SPARE: u64 = 128;

/// Of those, what is for files, uploads and the program, however many all workers share.
const OWN: u64 = 64;

/// What is kept from clients when all workers share so many descriptors.
fn spare(shared: u64) -> u64 {
    SPARE.max(shared + OWN)
}

/// Connections that fit below the limit of descriptors. Where that is tiny, half of it is for clients.
fn reachable(limit: u64, spare: u64) -> usize {
    let connections = limit.saturating_sub(spare).max(limit / 2).max(1);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

/// Lowers `connections_max` to what descriptors allow, of which every worker has `shared` from its start. Says so if
/// that is less than was asked for.
pub(super) fn fit(settings: &mut Settings, limit: u64, shared: usize) -> Option<String> {
    let spare = spare(shared as u64);
    let (wanted, reachable) = (settings.connections_max, reachable(limit, spare));
    (reachable < wanted).then(|| {
        settings.connections_max = reachable;
        format!(
            "connections_max is {wanted}, but a process may have only {limit} open files, so a worker takes {reachable} \
             connections; raise the limit to {} (ulimit -n, LimitNOFILE= of systemd) or lower connections_max",
            wanted as u64 + spare
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_connections_cannot_reach_is_told_and_kept_from() {
        let mut settings = Settings::default();
        let told = fit(&mut settings, 1024, 3).expect("1024 is too few");
        assert!(
            told.contains("connections_max is 10000") && told.contains("10128"),
            "{told}"
        );
        assert_eq!(settings.connections_max, 896);
        assert_eq!(fit(&mut settings, 1024, 3), None);
        let mut settings = Settings::default();
        assert_eq!(fit(&mut settings, 20_000, 3), None);
        assert_eq!(settings.connections_max, 10_000);
    }

    #[test]
    fn a_tiny_limit_leaves_some_for_clients() {
        assert_eq!(reachable(160, SPARE), 80);
        assert_eq!(reachable(0, SPARE), 1);
        assert_eq!(reachable(u64::MAX, SPARE) as u64, u64::MAX - SPARE);
    }

    #[test]
    fn many_workers_share_more_than_is_spared_for_one() {
        let mut settings = Settings::default();
        let told = fit(&mut settings, 1024, 384).expect("1024 is too few");
        assert!(told.contains("a worker takes 576"), "{told}");
    }
}
