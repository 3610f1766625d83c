//! Connection limit of a worker from its limit of descriptors.
//!
//! If clients use a worker's last descriptor, the worker cannot open a file or a database
//! connection for them. So some descriptors are reserved, and a client beyond the limit gets a
//! response instead of waiting forever.

use fermata_config::Settings;

/// Minimum number of descriptors reserved from a worker's clients.
const SPARE: u64 = 128;

/// Part of the reserve for files, uploads and the application. The number of descriptors that all
/// workers share is added to it.
const OWN: u64 = 64;

/// Returns the reserve if all workers share `shared` descriptors.
fn spare(shared: u64) -> u64 {
    SPARE.max(shared + OWN)
}

/// Returns the number of connections that fit below the limit of descriptors. If the limit is tiny,
/// half of it is for clients.
fn reachable(limit: u64, spare: u64) -> usize {
    let connections = limit.saturating_sub(spare).max(limit / 2).max(1);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

/// Lowers `connections_max` to the number that the descriptor limit allows; every worker starts
/// with `shared` open descriptors. Returns a warning if the result is less than requested.
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
    fn warns_of_a_connection_limit_above_the_descriptors() {
        let mut settings = Settings::default();
        let warning = fit(&mut settings, 1024, 3).expect("1024 is too few");
        assert!(
            warning.contains("connections_max is 10000") && warning.contains("10128"),
            "{warning}"
        );
        assert_eq!(settings.connections_max, 896);
        assert_eq!(fit(&mut settings, 1024, 3), None);
        let mut settings = Settings::default();
        assert_eq!(fit(&mut settings, 20_000, 3), None);
        assert_eq!(settings.connections_max, 10_000);
    }

    #[test]
    fn leaves_descriptors_for_clients_at_a_tiny_limit() {
        assert_eq!(reachable(160, SPARE), 80);
        assert_eq!(reachable(0, SPARE), 1);
        assert_eq!(reachable(u64::MAX, SPARE) as u64, u64::MAX - SPARE);
    }

    #[test]
    fn raises_the_reserve_for_many_workers() {
        let mut settings = Settings::default();
        let warning = fit(&mut settings, 1024, 384).expect("1024 is too few");
        assert!(warning.contains("a worker takes 576"), "{warning}");
    }
}
