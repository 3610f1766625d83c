//! Pages that are generated and committed.

use std::path::Path;

/// Set to rewrite the committed page instead of comparing with it.
const UPDATE: &str = "UPDATE_GENERATED";

/// Compares a committed page with what it is rendered as, or rewrites it for `make generate`.
///
/// # Panics
/// They differ, or the page cannot be written.
pub fn generated(page: impl AsRef<Path>, rendered: &str) {
    let page = page.as_ref();
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(page, rendered).expect("the page can be written");
    }
    let committed = std::fs::read_to_string(page).unwrap_or_default();
    let name = page.display();
    assert!(committed == rendered, "{name} is old: run `make generate`");
}
