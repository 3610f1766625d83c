//! Suggests the most similar existing name for an unknown one.

/// Maximum length of compared names; bounds the cost of the edit distance for untrusted input.
const NAME_BYTES_MAX: usize = 64;

/// Returns the candidate with the smallest Levenshtein distance from `name`, and that distance.
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
