//! Decimal numbers of the NATS protocol, without allocation: each record has several.

/// Number of digits of `u64::MAX`.
pub(crate) const DIGITS_MAX: usize = 20;

/// Writes a number to the end of the buffer and returns its digits.
pub(crate) fn write(mut number: u64, buffer: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[at..];
        }
    }
}

/// Parses digits. A sign or any other byte is an error.
pub(crate) fn read(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let value = digit.wrapping_sub(b'0');
        (value < 10)
            .then(|| number.checked_mul(10)?.checked_add(u64::from(value)))
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_written_numbers() {
        for number in [0, 7, 10, 4_294_967_296, u64::MAX] {
            let mut buffer = [0; DIGITS_MAX];
            let text = write(number, &mut buffer);
            assert_eq!(text, number.to_string().as_bytes());
            assert_eq!(read(text), Some(number));
        }
        for text in [
            "",
            "+1",
            "-1",
            "1 ",
            "18446744073709551616",
            "99999999999999999999",
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
