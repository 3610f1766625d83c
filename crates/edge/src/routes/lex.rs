//! Lines, sections and properties.

/// Reason why a line cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LexError {
    /// An unclosed quote.
    #[error("a quote is not closed; add \" at its end")]
    Quote,
    /// A backslash in quotes before a character other than a quote or a backslash.
    #[error(r#"a backslash in quotes stands before something else than \ or "; write \\"#)]
    Escape,
    /// Two commas in a row, or a comma at the start or end.
    #[error("a property is empty; remove a comma")]
    Empty,
    /// `=value`.
    #[error("a property has no name; write NAME=VALUE")]
    Name,
}

/// A condition or a target: `VALUE[,PROP[=VAL]]…`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// Empty when the first token is a property.
    pub value: String,
    /// Name and value, in order; a property without `=` has no value.
    pub props: Vec<(String, Option<String>)>,
}

/// Returns the sections of a line; none for an empty line or a comment.
pub(super) fn sections(line: &str) -> Result<Vec<Section>, LexError> {
    let mut sections = Vec::new();
    let mut tokens: Vec<String> = Vec::new();
    let mut token = String::new();
    let mut is_inside = false;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            '#' => break,
            ' ' if is_inside => {
                tokens.push(std::mem::take(&mut token));
                sections.push(section(std::mem::take(&mut tokens))?);
                is_inside = false;
            }
            ' ' => {}
            ',' => {
                tokens.push(std::mem::take(&mut token));
                is_inside = true;
            }
            '"' => {
                quoted(&mut chars, &mut token)?;
                is_inside = true;
            }
            char => {
                token.push(char);
                is_inside = true;
            }
        }
    }
    if is_inside {
        tokens.push(token);
        sections.push(section(tokens)?);
    }
    Ok(sections)
}

fn quoted(chars: &mut std::str::Chars<'_>, token: &mut String) -> Result<(), LexError> {
    loop {
        match chars.next().ok_or(LexError::Quote)? {
            '"' => return Ok(()),
            '\\' => match chars.next().ok_or(LexError::Quote)? {
                char @ ('\\' | '"') => token.push(char),
                _ => return Err(LexError::Escape),
            },
            char => token.push(char),
        }
    }
}

fn section(tokens: Vec<String>) -> Result<Section, LexError> {
    let mut section = Section::default();
    for (at, token) in tokens.into_iter().enumerate() {
        match token.split_once('=') {
            None if at == 0 => section.value = token,
            _ if token.is_empty() => return Err(LexError::Empty),
            Some(("", _)) => return Err(LexError::Name),
            Some((name, value)) => section
                .props
                .push((name.to_owned(), Some(value.to_owned()))),
            None => section.props.push((token, None)),
        }
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `value|name=value|name` for each section.
    fn read(line: &str) -> Result<Vec<String>, LexError> {
        let shown = |section: Section| {
            let props = section.props.into_iter().map(|(name, value)| match value {
                Some(value) => format!("|{name}={value}"),
                None => format!("|{name}"),
            });
            section.value + &props.collect::<String>()
        };
        Ok(sections(line)?.into_iter().map(shown).collect())
    }

    #[test]
    fn lines_are_taken_apart() {
        for (line, expected) in [
            ("", &[][..]),
            ("   ", &[]),
            ("# comment", &[]),
            ("* a:80", &["*", "a:80"]),
            ("  *   a:80  b:80 # rest", &["*", "a:80", "b:80"]),
            ("*,id=x,debug a:80,ssl", &["*|id=x|debug", "a:80|ssl"]),
            ("id=x,path_beg=/a a:80", &["|id=x|path_beg=/a", "a:80"]),
            (
                r#"*,header="A: b, c #d" a:80"#,
                &["*|header=A: b, c #d", "a:80"],
            ),
            (r#"*,"header=A:\"\\" a:80"#, &[r#"*|header=A:"\"#, "a:80"]),
            ("* zhttp/ipc://a,sub=", &["*", "zhttp/ipc://a|sub="]),
            ("*,a=b=c x:1", &["*|a=b=c", "x:1"]),
            ("\t a", &["\t", "a"]),
        ] {
            assert_eq!(
                read(line)
                    .as_deref()
                    .map(|found| found.iter().map(String::as_str).collect::<Vec<_>>()),
                Ok(expected.to_vec()),
                "{line}"
            );
        }
    }

    #[test]
    fn reports_the_kind_of_error() {
        for (line, error) in [
            ("\"a", LexError::Quote),
            (r#""a\"#, LexError::Quote),
            (r#""a\n""#, LexError::Escape),
            ("a,,b c:1", LexError::Empty),
            ("a, c:1", LexError::Empty),
            ("a,=b c:1", LexError::Name),
            ("=b c:1", LexError::Name),
        ] {
            assert_eq!(sections(line), Err(error), "{line}");
        }
    }

    proptest! {
        #[test]
        fn quoted_values_read_back(value in r#"[a-z=,# "\\]{0,12}"#) {
            let quoted = value.replace('\\', r"\\").replace('"', "\\\"");
            let found = sections(&format!("*,p=\"{quoted}\" a:1")).expect("well-formed");
            prop_assert_eq!(&found[0].props, &[("p".to_owned(), Some(value))]);
        }

        #[test]
        fn any_line_is_read_or_refused(line in r#"[a=,# "\\]{0,20}"#) {
            if let Ok(sections) = sections(&line) {
                prop_assert!(sections.iter().all(|section| section.props.iter().all(|(name, _)| !name.is_empty())));
            }
        }
    }
}
