//! Names of headers as programs may fold them: CGI, WSGI and their like make one variable of `X-User` and `X_User`, so what
//! one of them means has to be taken from clients in every spelling.

/// Names that are told from others are no longer.
const BYTES_MAX: usize = 64;

/// A name in lower case, with a hyphen for whatever is no letter and no digit.
#[derive(Clone, Copy, Debug)]
pub struct Folded {
    bytes: [u8; BYTES_MAX],
    len: usize,
}

impl Folded {
    /// Folds a name.
    pub fn new(name: &[u8]) -> Self {
        let mut bytes = [0; BYTES_MAX];
        for (to, &byte) in bytes.iter_mut().zip(name) {
            *to = match byte {
                byte if byte.is_ascii_alphanumeric() => byte.to_ascii_lowercase(),
                _ => b'-',
            };
        }
        Self {
            bytes,
            len: name.len(),
        }
    }

    /// Whether it is this name, which is given folded.
    pub fn is(&self, name: &str) -> bool {
        self.len == name.len() && self.starts_with(name)
    }

    /// Whether it begins so.
    pub fn starts_with(&self, start: &str) -> bool {
        self.len >= start.len() && self.bytes.starts_with(start.as_bytes())
    }
}

/// Whether a program may take one name for the other.
pub fn same(one: &[u8], other: &[u8]) -> bool {
    let fold = |byte: &u8| match byte {
        byte if byte.is_ascii_alphanumeric() => byte.to_ascii_lowercase(),
        _ => b'-',
    };
    one.len() == other.len() && one.iter().map(fold).eq(other.iter().map(fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_one_name() {
        for name in ["Grip-Sig", "GRIP_SIG", "grip.sig", "gRiP_SiG"] {
            let folded = Folded::new(name.as_bytes());
            assert!(
                folded.is("grip-sig") && folded.starts_with("grip-"),
                "{name}"
            );
            assert!(same(name.as_bytes(), b"Grip-Sig"), "{name}");
        }
        for name in ["Grip-Sigs", "Grip-Si", "Grip"] {
            assert!(!Folded::new(name.as_bytes()).is("grip-sig"), "{name}");
            assert!(!same(name.as_bytes(), b"grip-sig"), "{name}");
        }
    }

    #[test]
    fn long_names_are_no_known_ones() {
        let name = [b'a'; 2 * BYTES_MAX];
        assert!(Folded::new(&name).starts_with("aaa"));
        assert!(!Folded::new(&name).is("aaa"));
    }
}
