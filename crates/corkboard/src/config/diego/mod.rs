//! The configuration file of Diego's own BBS, so that Corkboard can stand in its place with the file that is there.
//!
//! Promise: what the Go BBS takes is taken, and what it does not start with is refused, all of it at once and with the line.
//! Keys that mean nothing here, and keys that nobody knows, are passed over as Go passes over them, but not in silence: the
//! [`Account`] names them. Neither a passphrase nor the connection string of the database is ever shown. Paths are taken as
//! they are, from the folder in which the process was started, since Go does so.
//!
//! `known.rs` is the list of keys, `members.rs` the JSON with its places, `meaning.rs` what the values mean.
//! Why the two formats differ in what they refuse is in `docs/decisions/0017-diegos-own-file.md`.

mod known;
mod meaning;
mod members;
#[cfg(test)]
mod tests;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bbs::config::{Config, Encryption, KeySource};
use known::STORE;
use meaning::{Reading, Understood};
use members::{Member, members};

use super::{Finding, Problem, files};
use crate::logging::lager::Shape;

/// What anybody who is neither the owner nor of the group may do. BOSH renders the file for a group, which is no mistake.
const STRANGERS: u32 = 0o007;

/// How the checks of files name their keys, and how this file does.
const NAMES: &[(&str, &str)] = &[
    ("tls.ca", "ca_file"),
    ("tls.cert", "cert_file"),
    ("tls.key", "key_file"),
    ("auctioneer.ca", "auctioneer_ca_cert"),
    ("auctioneer.cert", "auctioneer_client_cert"),
    ("auctioneer.key", "auctioneer_client_key"),
    ("cells.ca", "rep_ca_cert"),
    ("cells.cert", "rep_client_cert"),
    ("cells.key", "rep_client_key"),
    ("locket.ca", "locket_ca_cert_file"),
    ("locket.cert", "locket_client_cert_file"),
    ("locket.key", "locket_client_key_file"),
    ("store.dir", STORE),
    ("encryption.active", "active_key_label"),
    ("encryption.keys", "encryption_keys"),
];

/// What became of the keys of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) used: Vec<&'static str>,
    /// With the reason.
    pub(crate) ignored: Vec<(&'static str, &'static str)>,
    pub(crate) unknown: Vec<String>,
    /// The kind of database that the file asks for, and that is not used.
    pub(crate) database: &'static str,
    /// What is not wrong, and not as it should be.
    pub(crate) remarks: Vec<String>,
}

/// A file that is an object of JSON.
#[derive(Debug)]
pub(super) struct Document {
    members: Vec<Member>,
}

impl Document {
    /// `None` for a file of the other format.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, Finding> {
        if !text.trim_start().starts_with('{') {
            return Ok(None);
        }
        members(text, 0..text.len()).map(|members| Some(Self { members })).map_err(|error| {
            let said = error.to_string();
            // The line stands in front, where editors look for it.
            let what = said.split(" at line ").next().unwrap_or_default();
            Finding { line: Some(error.line()), what: format!("is not JSON: {what}") }
        })
    }

    /// Where the file says it wrongly, which the check finds, it is the usual one: somebody has to be told.
    pub(super) fn shape(&self, text: &str) -> Shape {
        Reading::new(text, &self.members).shape()
    }

    pub(super) fn check(
        &self,
        text: &str,
        path: &Path,
        store: Option<&Path>,
    ) -> Result<(Config, Account), Vec<Problem>> {
        let Understood { mut config, keys, mut account, places } =
            Reading::new(text, &self.members).understood(store, path)?;
        let ours = |problem: Problem| {
            let (table, rest) = named(&problem.key);
            let span = places.get(table).cloned();
            let key = if table == STORE && store.is_some() { "--store".to_owned() } else { format!("{table}{rest}") };
            Problem { key, what: problem.what, span }
        };
        let mut problems: Vec<Problem> = files::problems(&config, &Vec::new()).into_iter().map(ours).collect();
        match keys.keyring() {
            Ok(keyring) => {
                let (again, store) = (path.to_owned(), store.map(Path::to_owned));
                let source = KeySource::new(move || super::reload_keys(&again, store.as_deref()));
                config.encryption = Some(Encryption { keyring, rotation: keys.rotation, source });
            }
            Err(found) => problems.extend(super::encryption::problems(found, &Vec::new()).into_iter().map(ours)),
        }
        account.remarks.extend(remark_on_permissions(path));
        if problems.is_empty() { Ok((config, account)) } else { Err(problems) }
    }
}

/// The key of this file, and what follows it: the label of an encryption key.
fn named(key: &str) -> (&str, &str) {
    let found = NAMES.iter().find_map(|(theirs, ours)| {
        let rest = key.strip_prefix(theirs)?;
        (rest.is_empty() || rest.starts_with('.')).then_some((*ours, rest))
    });
    found.unwrap_or((key, ""))
}

fn remark_on_permissions(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    (mode & STRANGERS != 0).then(|| {
        let shown = path.display();
        format!(
            "everybody on this machine may use {shown} (its permissions are {:03o}), which holds passphrases and the password \
             of a database; close it with `chmod o= {shown}`",
            mode & 0o777
        )
    })
}
