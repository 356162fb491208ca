//! The configuration file: read, understood, and checked against the disk, or refused with everything that is wrong.
//!
//! `raw.rs` is the file, `check.rs` and `store.rs` what it means, `values.rs` how single values are read, `files.rs` whether
//! the files it names can be used, `encryption.rs` where the keys come from, `diego/` how the file of Diego's own BBS is
//! read instead. Relative paths are taken from the folder of the configuration
//! file, so that it does not matter where the server is started. There is no second source: the environment changes nothing
//! but the keys that the file says are there.

pub(crate) mod check;
mod diego;
pub(crate) mod encryption;
pub(crate) mod files;
pub(crate) mod locket;
pub(crate) mod raw;
mod store;
pub(crate) mod values;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::store::etcd::Options;
use ::store::seal::Keyring;
use api::client::TlsFiles;
use bbs::config::{Config, Encryption, KeySource, Store};
use check::{Checked, Reader};
pub(crate) use check::{DEFAULT_HEALTH, DEFAULT_LISTEN};
pub(crate) use diego::Account;
use encryption::KeySpec;
pub(crate) use locket::DEFAULT_LOCKET;
pub(crate) use raw::{RawConfig, RawEncryption, RawKeys, RawMigration, RawStore};
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::logging::lager::Shape;
use crate::ring::{Subject, recognised};

/// A file with every key and its default. `config example` prints it, and a test checks that it is true.
pub(crate) const EXAMPLE: &str = include_str!("example.toml");

/// One thing that is wrong, with the key and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) key: String,
    pub(crate) what: String,
    /// Bytes of the file; `None` for what is missing.
    span: Option<Range<usize>>,
}

/// Everything that is wrong with a configuration that has no file, as that of `corkboard up`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0))]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    /// The one thing that is wrong with the flags themselves.
    pub(crate) fn of_flag(flag: &str, what: String) -> Self {
        Self(vec![Problem { key: flag.to_owned(), what, span: None }])
    }
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| format!("{}: {}", problem.key, problem.what)).collect();
    lines.join("\n")
}

/// The configuration cannot be used. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration file {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "--store is for the configuration file of Diego's BBS, and {} is one of Corkboard's own: its table [store] says where \
         the records are. Nothing was started", path.display()
    )]
    StoreTwice { path: PathBuf },
    #[error("{}", Listing(path, findings))]
    Wrong { path: PathBuf, findings: Vec<Finding> },
}

/// A problem and the line on which it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    line: Option<usize>,
    what: String,
}

/// Reads and checks a file, the files that it names included.
pub(crate) fn load(path: &Path) -> Result<Config, ConfigError> {
    File::read(path)?.check(None).map(|settings| settings.config)
}

/// What a file says: the state server, and what else the process does.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// What became of the keys, for a file of Diego's.
    pub(crate) account: Option<Account>,
    /// Where Locket is served on the store of this node, if it is.
    pub(crate) serve_locket: Option<SocketAddr>,
}

/// A file that was read, and not yet checked. Which of the two formats it has is told by its content: Diego's is an object of
/// JSON, which no file of ours can be.
pub(crate) struct File {
    path: PathBuf,
    /// It may hold a key.
    text: Zeroizing<String>,
    diego: Option<diego::Document>,
}

impl File {
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let path = path.to_owned();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => Zeroizing::new(text),
            Err(source) => return Err(ConfigError::Read { path, source }),
        };
        let diego = match diego::Document::parse(&text) {
            Ok(diego) => diego,
            Err(finding) => return Err(ConfigError::Wrong { path, findings: vec![finding] }),
        };
        Ok(Self { path, text, diego })
    }

    pub(crate) fn is_diego(&self) -> bool {
        self.diego.is_some()
    }

    /// The program that it is for. Diego's file is that of its BBS.
    pub(crate) fn subject(&self) -> Subject {
        if self.is_diego() { Subject::Bbs } else { recognised(&self.text) }
    }

    /// How the log shall look, if the file says it.
    pub(crate) fn shape(&self) -> Option<Shape> {
        self.diego.as_ref().map(|diego| diego.shape(&self.text))
    }

    /// `store` is the directory of the records, where it does not stand in the file.
    pub(crate) fn check(&self, store: Option<&Path>) -> Result<Settings, ConfigError> {
        let path = self.path.clone();
        match &self.diego {
            Some(diego) => match diego.check(&self.text, &self.path, store) {
                Ok((config, account)) => Ok(Settings { config, account: Some(account), serve_locket: None }),
                Err(problems) => Err(ConfigError::Wrong { path, findings: located(&self.text, problems) }),
            },
            None if store.is_some() => Err(ConfigError::StoreTwice { path }),
            None => match check_own(&self.text, &self.path) {
                Ok((config, serve_locket)) => Ok(Settings { config, account: None, serve_locket }),
                Err(findings) => Err(ConfigError::Wrong { path, findings }),
            },
        }
    }
}

fn check_own(text: &str, path: &Path) -> Result<(Config, Option<SocketAddr>), Vec<Finding>> {
    let raw: RawConfig = toml::from_str(text).map_err(|error| vec![syntax(text, &error)])?;
    let Checked { mut config, places, keys, password_file, serve_locket } =
        check::check(raw).map_err(|problems| located(text, problems.0))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    take_paths_from(folder, &mut config);
    let mut problems = files::problems(&config, &places);
    if let Some(mut keys) = keys {
        keys.take_paths_from(folder);
        match read_keys(&keys, path) {
            Ok(keyring) => {
                let again = path.to_owned();
                let source = KeySource::new(move || reload_keys(&again, None));
                config.encryption = Some(Encryption { keyring, rotation: keys.rotation, source });
            }
            Err(found) => problems.extend(encryption::problems(found, &places)),
        }
    }
    if let (Some(file), Store::Etcd(Options { user: Some(user), .. })) = (password_file, &mut config.store) {
        match encryption::read_password(&folder.join(file)) {
            Ok(password) => user.password = password,
            Err(what) => problems.extend(encryption::problems(vec![("store.password_file".to_owned(), what)], &places)),
        }
    }
    if problems.is_empty() { Ok((config, serve_locket)) } else { Err(located(text, problems)) }
}

fn read_keys(keys: &KeySpec, path: &Path) -> Result<Arc<Keyring>, Vec<(String, String)>> {
    if let Some(name) = keys.inline() {
        let mode = std::fs::metadata(path).map_or(0, |meta| meta.permissions().mode());
        encryption::refuse_readable_by_others(path, mode, encryption::KEY_TOLD)
            .map_err(|what| vec![(format!("encryption.keys.{name}"), what)])?;
    }
    keys.keyring()
}

/// For a server that runs: the keys that the file names now, if all of the file is right.
fn reload_keys(path: &Path, store: Option<&Path>) -> Result<Arc<Keyring>, String> {
    let settings = File::read(path).and_then(|file| file.check(store)).map_err(|error| error.to_string())?;
    let keys =
        settings.config.encryption.ok_or_else(|| format!("{} has no table [encryption] any more", path.display()))?;
    Ok(keys.keyring)
}

/// Reads the file of another program than the state server, through the same door: everything that is wrong is told at once,
/// with its line. `understand` is given the folder from which relative paths are taken.
pub(crate) fn read<R: DeserializeOwned, T>(
    path: &Path,
    understand: impl FnOnce(&mut Reader, R, &Path) -> Option<T>,
) -> Result<T, ConfigError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(source) => return Err(ConfigError::Read { path: path.to_owned(), source }),
    };
    let wrong = |findings| ConfigError::Wrong { path: path.to_owned(), findings };
    let raw: R = toml::from_str(&text).map_err(|error| wrong(vec![syntax(&text, &error)]))?;
    let mut reader = Reader::default();
    let understood = understand(&mut reader, raw, path.parent().unwrap_or(Path::new("")));
    match understood {
        Some(understood) if reader.problems.is_empty() => Ok(understood),
        _ => Err(wrong(located(&text, reader.problems))),
    }
}

fn take_paths_from(folder: &Path, config: &mut Config) {
    let outbound = &mut config.outbound;
    let tables = [&mut config.tls, &mut outbound.auctioneer_tls, &mut outbound.cell_tls, &mut outbound.callback_tls];
    let of_locket = config.locket.as_mut().map(|locket| &mut locket.tls);
    let tls = tables.into_iter().flatten().chain(of_locket).flat_map(|TlsFiles { ca, cert, key, .. }| [ca, cert, key]);
    let of_store: Vec<&mut PathBuf> = match &mut config.store {
        Store::Embedded { dir } => vec![dir],
        Store::Etcd(Options { tls: Some(files), .. }) => {
            let identity = files.identity.iter_mut().flat_map(|(cert, key)| [cert, key]);
            std::iter::once(&mut files.ca).chain(identity).collect()
        }
        Store::Etcd(_) => Vec::new(),
    };
    for path in tls.chain(of_store).chain([&mut config.identity]).chain(config.cells_file.as_mut()) {
        // Joining with an absolute path gives that path.
        *path = folder.join(&*path);
    }
}

/// In the order of the file; what is missing comes last.
fn located(text: &str, problems: Vec<Problem>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = problems
        .into_iter()
        .map(|problem| Finding {
            line: problem.span.map(|span| line_of(text, span.start)),
            what: format!("{}: {}", problem.key, problem.what),
        })
        .collect();
    findings.sort_by_key(|finding| finding.line.unwrap_or(usize::MAX));
    findings
}

fn syntax(text: &str, error: &toml::de::Error) -> Finding {
    let what = error.message().replace('\n', "; ");
    Finding { line: error.span().map(|span| line_of(text, span.start)), what }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

struct Listing<'a>(&'a Path, &'a [Finding]);

impl fmt::Display for Listing<'_> {
    /// `file:line: key: what`, one a line, as editors understand it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.0.display();
        for finding in self.1 {
            match finding.line {
                Some(line) => writeln!(f, "{path}:{line}: {}", finding.what)?,
                None => writeln!(f, "{path}: {}", finding.what)?,
            }
        }
        let count = self.1.len();
        write!(f, "{count} {}; nothing was started", if count == 1 { "problem" } else { "problems" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(text: &str) -> String {
        let raw: RawConfig = toml::from_str(text).unwrap();
        format!("{:#?}", Config::try_from(raw).unwrap())
    }

    /// A default in the example that differs from the one in the code would be a lie that nobody could see.
    #[test]
    fn the_example_says_the_defaults() {
        assert_eq!(meaning(EXAMPLE), meaning("[store]\ndir = \"board\"\n"));
    }

    #[test]
    fn the_example_has_every_key() {
        let tables: &[(&str, &[&str])] = &[
            ("", RawConfig::KEYS),
            ("store", RawStore::KEYS),
            ("tls", raw::RawTls::KEYS),
            ("timing", raw::RawTiming::KEYS),
            ("limits", raw::RawLimits::KEYS),
            ("auctioneer", raw::RawAuctioneer::KEYS),
            ("cells", raw::RawCells::KEYS),
            ("callbacks", raw::RawCallbacks::KEYS),
            ("locket", raw::RawLocket::KEYS),
            ("serve_locket", raw::RawServeLocket::KEYS),
            ("migration", RawMigration::KEYS),
            ("encryption", &["active", "mode", "records_per_s_max"]),
        ];
        for (table, keys) in tables {
            let is_here = |key: &&&str| {
                let section = if table.is_empty() {
                    EXAMPLE
                } else {
                    let (_, rest) = EXAMPLE.split_once(&format!("[{table}]\n")).unwrap();
                    rest.split("\n[").next().unwrap()
                };
                let starts = |line: &str| {
                    let line = line.trim_start_matches("# ");
                    line.starts_with(&format!("{key} = ")) || line == format!("[{key}]")
                };
                section.lines().any(starts)
            };
            let missing: Vec<_> = keys.iter().filter(|key| !is_here(key)).collect();
            assert!(missing.is_empty(), "[{table}] lacks {missing:?}");
        }
    }

    /// A copy inside of the store would be wiped together with it.
    #[test]
    fn the_identity_lies_beside_the_store() {
        for (text, expected) in [
            ("[store]\ndir = \"board/\"\n", "board.identity"),
            ("[store]\ndir = \"/var/lib/board\"\n", "/var/lib/board.identity"),
            ("[store]\ndir = \"board.d\"\n", "board.d.identity"),
            ("identity = \"/etc/id\"\n[store]\ndir = \"board\"\n", "/etc/id"),
        ] {
            let raw: RawConfig = toml::from_str(text).unwrap();
            assert_eq!(Config::try_from(raw).unwrap().identity, Path::new(expected), "{text}");
        }
    }

    #[test]
    fn paths_are_taken_from_the_folder_of_the_file() {
        let raw: RawConfig = toml::from_str("[store]\ndir = \"a\"\n[cells]\nfile = \"/b\"\n").unwrap();
        let mut config = Config::try_from(raw).unwrap();
        take_paths_from(Path::new("/etc/corkboard"), &mut config);
        assert_eq!(config.store.to_string(), "embedded, /etc/corkboard/a");
        assert_eq!(config.cells_file.as_deref(), Some(Path::new("/b")));
        assert_eq!(config.identity, Path::new("/etc/corkboard/a.identity"));
    }
}
