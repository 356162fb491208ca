//! The table `[encryption]`: which keys there are, which one is active, and where their bytes come from.
//!
//! Promise: bytes of a key are overwritten as soon as the key is derived, and no message shows any. A key may stand in the
//! configuration file itself, in a file of its own, or in a variable of the environment; a file that anybody but its owner
//! may read is refused, because whoever reads it reads everything that the key seals.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bbs::config::{Rotation, RotationMode};
use store::seal::{KEY_BYTES_MAX, KeyName, Keyring, Secret};
use toml::Value;
use zeroize::{Zeroize as _, Zeroizing};

use super::Problem;
use super::check::Reader;
use super::raw::{RawEncryption, RawKeys};
use super::values::{rate, text, word};

const MODES: &[(&str, RotationMode)] = &[("online", RotationMode::Online), ("offline", RotationMode::Offline)];
/// Names of this file; under a configuration of Diego's there are more.
const NAME_EXPECTED: &str = "1 to 127 ASCII letters or digits";
/// What anybody but the owner may do with a file.
const OTHERS: u32 = 0o077;
/// Why nobody else may read a key.
pub(super) const KEY_TOLD: &str = "whoever reads a key reads everything that it seals";
/// A key shorter than this can be guessed.
const SHORT_BYTES: usize = 16;

/// Where the bytes of a key are.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum KeyFrom {
    Here(Secret),
    File(PathBuf),
    Env(String),
}

/// What the file says about keys. Nothing was read yet.
#[derive(Clone)]
pub(crate) struct KeySpec {
    pub(crate) active: KeyName,
    pub(crate) keys: Vec<(KeyName, KeyFrom)>,
    pub(crate) rotation: Rotation,
}

impl KeySpec {
    /// A key that stands in the configuration file itself.
    pub(super) fn inline(&self) -> Option<&KeyName> {
        self.keys.iter().find(|(_, from)| matches!(from, KeyFrom::Here(_))).map(|(name, _)| name)
    }

    pub(super) fn take_paths_from(&mut self, folder: &Path) {
        for (_, from) in &mut self.keys {
            if let KeyFrom::File(path) = from {
                *path = folder.join(&*path);
            }
        }
    }

    /// Reads the bytes of all keys and derives what they seal with. Problems are named by the place in the configuration.
    pub(crate) fn keyring(&self) -> Result<Arc<Keyring>, Vec<(String, String)>> {
        let mut problems = Vec::new();
        let mut keys = Vec::new();
        for (name, from) in &self.keys {
            match from.read() {
                Ok(secret) => {
                    if secret.len() < SHORT_BYTES && !secret.is_empty() {
                        tracing::warn!(
                            key = %name,
                            bytes = secret.len(),
                            "this key is short enough to be guessed; `corkboard keys generate` makes a good one"
                        );
                    }
                    keys.push((name.clone(), secret));
                }
                Err(what) => problems.push((format!("encryption.keys.{name}"), what)),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Keyring::new(keys, &self.active).map(Arc::new).map_err(|error| {
            use store::seal::KeyringError as Wrong;
            let key = match &error {
                Wrong::Empty { name } | Wrong::TooLong { name, .. } | Wrong::Unusable { name } => {
                    format!("encryption.keys.{name}")
                }
                Wrong::SameBytes { other, .. } => format!("encryption.keys.{other}"),
                Wrong::ActiveUnknown { .. } => "encryption.active".to_owned(),
                Wrong::Name { .. } | Wrong::NoKeys | Wrong::TooMany { .. } | Wrong::Duplicate { .. } => {
                    "encryption.keys".to_owned()
                }
            };
            vec![(key, error.to_string())]
        })
    }
}

impl KeyFrom {
    fn read(&self) -> Result<Secret, String> {
        match self {
            Self::Here(secret) => Ok(secret.clone()),
            Self::Env(name) => match std::env::var(name) {
                Ok(text) => Ok(Secret::new(text.into_bytes())),
                Err(std::env::VarError::NotPresent) => {
                    Err(format!("the variable {name} is not set in the environment of this process"))
                }
                Err(std::env::VarError::NotUnicode(_)) => Err(format!("the variable {name} is not text")),
            },
            Self::File(path) => read_file(path, KEY_TOLD),
        }
    }
}

/// The password in a file, which is as secret as a key.
pub(crate) fn read_password(path: &Path) -> Result<Zeroizing<String>, String> {
    let shown = path.display();
    let secret = read_file(path, "whoever reads a password can log in with it")?;
    let text = std::str::from_utf8(secret.bytes()).map_err(|_| format!("{shown} is not text; expected a password"))?;
    match text.len() {
        0 => Err(format!("{shown} is empty; expected a password")),
        1..=KEY_BYTES_MAX => Ok(Zeroizing::new(text.to_owned())),
        _ => Err(format!("{shown} is longer than {KEY_BYTES_MAX} bytes; expected a password and nothing else")),
    }
}

/// The bytes of a file without the line ending at its end, if nobody but its owner may read it.
fn read_file(path: &Path, why: &str) -> Result<Secret, String> {
    let shown = path.display();
    let mut file = File::open(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let meta = file.metadata().map_err(|error| format!("cannot read {shown}: {error}"))?;
    if !meta.is_file() {
        return Err(format!("{shown} is not a file"));
    }
    refuse_readable_by_others(path, meta.permissions().mode(), why)?;
    // One byte more than a key and its line ending may have tells that it is too long.
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_BYTES_MAX + 4));
    let mut part = file.by_ref().take(KEY_BYTES_MAX as u64 + 3);
    part.read_to_end(&mut bytes).map_err(|error| format!("cannot read {shown}: {error}"))?;
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    Ok(Secret::new(std::mem::take(&mut *bytes)))
}

/// `why` nobody else may read it.
pub(super) fn refuse_readable_by_others(path: &Path, mode: u32, why: &str) -> Result<(), String> {
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let shown = path.display();
    Err(format!(
        "others may use {shown} (its permissions are {:03o}), and {why}; give it to its owner alone with `chmod 600 {shown}`",
        mode & 0o777
    ))
}

impl Reader {
    /// `None` without the table, and when it cannot be understood, which is noted.
    pub(super) fn encryption(&mut self, raw: Option<RawEncryption>) -> Option<KeySpec> {
        let raw = raw?;
        self.refuse_unknown("encryption.", RawEncryption::KEYS, &raw.unknown);
        let usual = Rotation::default();
        let rotation = Rotation {
            mode: self.or("encryption.mode", raw.mode, usual.mode, |value| word(value, MODES)),
            records_per_s_max: self.or(
                "encryption.records_per_s_max",
                raw.records_per_s_max,
                usual.records_per_s_max,
                rate,
            ),
        };
        if raw.active.is_none() {
            self.note("encryption.active", "is missing; expected the name of the key that seals what is written");
        }
        let active = self.optional("encryption.active", raw.active, key_name);
        let keys = self.keys(raw.keys);
        let (active, keys) = (active?, keys?);
        if keys.iter().all(|(name, _)| *name != active) {
            let known: Vec<&str> = keys.iter().map(|(name, _)| name.as_str()).collect();
            let what = format!("{:?} is not among the keys; expected one of {}", active.as_str(), known.join(", "));
            self.note("encryption.active", what);
            return None;
        }
        Some(KeySpec { active, keys, rotation })
    }

    fn keys(&mut self, raw: Option<RawKeys>) -> Option<Vec<(KeyName, KeyFrom)>> {
        let RawKeys(raw) = raw.unwrap_or_default();
        if raw.is_empty() {
            self.note(
                "encryption.keys",
                "is missing or empty; expected at least one key, such as A = { file = \"keys/A\" }",
            );
            return None;
        }
        let mut keys = Vec::new();
        let mut is_whole = true;
        for (name, value) in raw {
            let place = format!("encryption.keys.{}", name.get_ref());
            self.places.push((place.clone(), value.span()));
            let read = key_name(&Value::String(name.get_ref().clone()))
                .and_then(|name| Ok((name, key_from(value.into_inner())?)));
            match read {
                Ok(key) => keys.push(key),
                Err(what) => {
                    self.note(&place, what);
                    is_whole = false;
                }
            }
        }
        is_whole.then_some(keys)
    }
}

fn key_name(value: &Value) -> Result<KeyName, String> {
    let name = text(value)?;
    let is_allowed = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let parsed = KeyName::parse(&name).ok().filter(|_| is_allowed);
    parsed.ok_or_else(|| format!("{name:?} is not a name for a key; expected {NAME_EXPECTED}"))
}

fn key_from(value: Value) -> Result<KeyFrom, String> {
    const EXPECTED: &str = "the key itself in quotes, { file = \"…\" } or { env = \"…\" }";
    match value {
        Value::String(mut key) => {
            let secret = Secret::new(key.as_bytes().to_vec());
            key.zeroize();
            Ok(KeyFrom::Here(secret))
        }
        Value::Table(table) => match table.iter().collect::<Vec<_>>()[..] {
            [(kind, value)] if kind == "file" => Ok(KeyFrom::File(text(value)?.into())),
            [(kind, value)] if kind == "env" => Ok(KeyFrom::Env(text(value)?)),
            _ => Err(format!("is not where a key can be; expected {EXPECTED}")),
        },
        other => Err(format!("is of type {}; expected {EXPECTED}", other.type_str())),
    }
}

/// Problems as the configuration names them, with their places.
pub(super) fn problems(found: Vec<(String, String)>, places: &super::check::Places) -> Vec<Problem> {
    let place = |key: &str| places.iter().find(|(place, _)| place == key).map(|(_, span)| span.clone());
    found.into_iter().map(|(key, what)| Problem { span: place(&key), key, what }).collect()
}
