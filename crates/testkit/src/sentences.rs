//! String literals of source files, to test that messages name existing settings.

/// Returns the string literals of a source file that contain a space, without placeholders, up to its tests.
#[must_use]
pub fn sentences(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let (mut rest, mut found) = (source.chars().peekable(), Vec::new());
    let (mut before, mut text) = (' ', None::<String>);
    while let Some(character) = rest.next() {
        match (&mut text, character) {
            (Some(_), '\\') => {
                rest.next();
            }
            (Some(_), '"') => found.extend(text.take()),
            (Some(_), '{') => {
                while rest.next_if(|&it| it != '}' && it != '"').is_some() {}
                rest.next_if_eq(&'}');
            }
            (Some(text), character) => text.push(character),
            (None, '/') if before == '/' => while rest.next_if(|&it| it != '\n').is_some() {},
            // A quotation mark as a character literal.
            (None, '"') if before == '\'' => {}
            (None, '"') => text = Some(String::new()),
            (None, _) => {}
        }
        before = character;
    }
    found.retain(|text| text.contains(' '));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_without_what_is_put_into_them() {
        let sample = r#"fn a() { '"' } // "no b_c" {
        format!("raise x_max \"{d_e}\" "), "one_word" #[cfg(test)] "f g_h""#;
        assert_eq!(sentences(sample), ["raise x_max  "]);
    }
}
