//! Parser for the part of DER that keys need. It reads one element after the other.

/// Tag of a SEQUENCE.
pub(super) const SEQUENCE: u8 = 0x30;
/// Tag of a BIT STRING.
pub(super) const BIT_STRING: u8 = 0x03;
/// Tag of an INTEGER.
pub(super) const INTEGER: u8 = 0x02;
/// Tag of an OCTET STRING.
pub(super) const OCTET_STRING: u8 = 0x04;
/// Tag of the public key in a SEC 1 private key: `[1]`.
pub(super) const SEC1_PUBLIC: u8 = 0xa1;

/// Returns the tag and the content of the first element, and the bytes after it.
pub(super) fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (
                digits
                    .iter()
                    .fold(0, |len, &byte| len << 8 | usize::from(byte)),
                rest,
            )
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    Some((tag, content, rest))
}

/// Returns the content of the first element, which must have this tag, and the bytes after it.
pub(super) fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(bytes)
        .filter(|(found, _, _)| *found == tag)
        .map(|(_, content, rest)| (content, rest))
}

/// Returns the bytes of a leading BIT STRING without unused bits.
pub(super) fn bits(bytes: &[u8]) -> Option<&[u8]> {
    expect(bytes, BIT_STRING)?.0.strip_prefix(&[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_short_and_long_lengths() {
        assert_eq!(element(&[2, 1, 7, 9]), Some((2, &[7][..], &[9][..])));
        let mut long = vec![4, 0x82, 1, 0];
        long.extend([5; 256]);
        assert_eq!(
            expect(&long, 4).map(|(content, _)| content.len()),
            Some(256)
        );
        for bad in [
            &[][..],
            &[2],
            &[2, 2, 1],
            &[2, 0x80],
            &[2, 0x84, 0, 0, 0, 0],
            &[2, 0x81],
        ] {
            assert_eq!(element(bad), None, "{bad:?}");
        }
        assert_eq!(bits(&[3, 2, 0, 7]), Some(&[7][..]));
        assert_eq!(bits(&[3, 2, 1, 7]), None);
    }
}
