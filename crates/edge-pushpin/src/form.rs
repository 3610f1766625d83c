//! Forms as browsers encode them, in bodies and queries.

use fermata_proto::percent::decode_leniently;

/// Returns decoded names and values. A name without `=` has an empty value.
pub fn pairs(form: &[u8]) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let plain = |text: &[u8]| {
        let spaced: Vec<u8> = text
            .iter()
            .map(|&byte| if byte == b'+' { b' ' } else { byte })
            .collect();
        decode_leniently(&spaced)
    };
    form.split(|&byte| byte == b'&').map(move |pair| {
        let at = pair.iter().position(|&byte| byte == b'=');
        let (name, value) = pair.split_at(at.unwrap_or(pair.len()));
        (plain(name), plain(value.get(1..).unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_names_and_values() {
        let found: Vec<(Vec<u8>, Vec<u8>)> = pairs(b"a=1+2&b%3D=%26=&c").collect();
        let pair = |name: &str, value: &str| (name.into(), value.into());
        assert_eq!(found, [pair("a", "1 2"), pair("b=", "&="), pair("c", "")]);
    }
}
