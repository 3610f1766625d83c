//! Compares header names as applications see them. CGI, WSGI and similar interfaces map `X-User` and `X_User` to one variable.
//! So if the edge sets a header, it removes that header from clients' requests in every spelling.

/// Maximum length of names that [`Folded::is`] compares, in bytes. A longer name equals no name.
const BYTES_MAX: usize = 64;

/// A name in lower case, with a hyphen for every byte that is neither a letter nor a digit.
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

    /// Returns true if the name equals `name`, which must be folded.
    pub fn is(&self, name: &str) -> bool {
        self.len == name.len() && self.starts_with(name)
    }

    /// Returns true if the name starts with `start`, which must be folded.
    pub fn starts_with(&self, start: &str) -> bool {
        self.len >= start.len() && self.bytes.starts_with(start.as_bytes())
    }
}

/// Returns true if an application may confuse the two names.
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
    fn folds_every_spelling_to_one_name() {
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
    fn long_names_equal_no_known_name() {
        let name = [b'a'; 2 * BYTES_MAX];
        assert!(Folded::new(&name).starts_with("aaa"));
        assert!(!Folded::new(&name).is("aaa"));
    }
}
