//! Generated pages that are committed.

use std::path::Path;

/// Environment variable that rewrites the committed page instead of comparing it.
const UPDATE: &str = "UPDATE_GENERATED";

/// Compares a committed page with its rendering, or rewrites it for `make generate`.
///
/// # Panics
/// Panics if the two differ, or if the page cannot be written.
pub fn generated(page: impl AsRef<Path>, rendered: &str) {
    let page = page.as_ref();
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(page, rendered).expect("the page can be written");
    }
    let committed = std::fs::read_to_string(page).unwrap_or_default();
    let name = page.display();
    assert!(committed == rendered, "{name} is old: run `make generate`");
}
