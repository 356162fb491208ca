//! Checksums that definitions name: md5, sha1, sha256 and sha512.
//!
//! The first two protect against damage and not against malice; they are here because definitions have them.

use aws_lc_rs::digest;
use md5::Digest;

/// What a file must have. Algorithm and value are compared without regard to case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checksum {
    algorithm: Algorithm,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha1,
    Sha256,
    Sha512,
}

impl Checksum {
    /// Nothing where nothing is asked for.
    pub(crate) fn parse(algorithm: &str, value: &str) -> Result<Option<Self>, String> {
        let algorithm = match algorithm.to_ascii_lowercase().as_str() {
            "" if value.is_empty() => return Ok(None),
            "md5" => Algorithm::Md5,
            "sha1" => Algorithm::Sha1,
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            other => return Err(format!("the checksum algorithm `{other}` is not known")),
        };
        if value.is_empty() {
            return Err("the checksum has an algorithm and no value".to_owned());
        }
        Ok(Some(Self { algorithm, value: value.to_ascii_lowercase() }))
    }

    pub(crate) fn begin(&self) -> Running {
        match self.algorithm {
            Algorithm::Md5 => Running::Md5(Box::default()),
            Algorithm::Sha1 => Running::Sha(digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY)),
            Algorithm::Sha256 => Running::Sha(digest::Context::new(&digest::SHA256)),
            Algorithm::Sha512 => Running::Sha(digest::Context::new(&digest::SHA512)),
        }
    }

    pub(crate) fn check(&self, running: Running) -> Result<(), String> {
        let found = running.finish();
        match found == self.value {
            true => Ok(()),
            false => Err(format!("its {:?} checksum is {found} and should be {}", self.algorithm, self.value)),
        }
    }

    /// As text that two equal checksums have in common.
    pub(crate) fn shown(&self) -> String {
        format!("{:?}:{}", self.algorithm, self.value)
    }
}

pub(crate) enum Running {
    Md5(Box<md5::Md5>),
    Sha(digest::Context),
}

impl Running {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Running::Md5(state) => state.update(bytes),
            Running::Sha(state) => state.update(bytes),
        }
    }

    fn finish(self) -> String {
        match self {
            Running::Md5(state) => hex(&state.finalize()),
            Running::Sha(state) => hex(state.finish().as_ref()),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        for (algorithm, value) in [
            ("md5", "900150983cd24fb0d6963f7d28e17f72"),
            ("sha1", "A9993E364706816ABA3E25717850C26C9CD0D89D"),
            ("SHA256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ] {
            let checksum = Checksum::parse(algorithm, value).unwrap().unwrap();
            let mut running = checksum.begin();
            running.update(b"a");
            running.update(b"bc");
            checksum.check(running).unwrap();
            let mut other = checksum.begin();
            other.update(b"abd");
            assert!(checksum.check(other).is_err());
        }
        assert_eq!(Checksum::parse("", ""), Ok(None));
        assert!(Checksum::parse("crc32", "1").is_err());
        assert!(Checksum::parse("md5", "").is_err());
        assert!(Checksum::parse("", "1").is_err());
    }
}
