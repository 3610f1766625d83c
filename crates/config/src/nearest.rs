//! What was probably meant by a name that does not exist.

/// Longer than any name that is mistyped; keeps the distance cheap for a hostile variable.
const NAME_BYTES_MAX: usize = 64;

/// The candidate that the name becomes by the fewest insertions, deletions and replacements, and how many.
pub fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<(&'a str, usize)> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (candidate, strsim::levenshtein(candidate, name)))
        .min_by_key(|(_, distance)| *distance)
}
