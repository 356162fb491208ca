//! Whether the files that a configuration names can be used: certificates load and fit their keys, the list of cells can be
//! read, the directories above the records and above the copy of their identity exist. Done before anything is started,
//! because a server that finds out at its first handshake is already in the way.

use std::error::Error as StdError;
use std::path::Path;

use api::client::TlsFiles;
use api::client::tls::{self, TlsError};
use bbs::config::{Config, Store};
use store::etcd;

use super::Problem;
use super::check::Places;

/// Everything that is wrong with the files, in the order of the configuration.
pub(super) fn problems(config: &Config, places: &Places) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut note = |key: String, what: String| {
        let span = places.iter().find(|(place, _)| *place == key).map(|(_, span)| span.clone());
        found.push(Problem { key, what, span });
    };
    let store_dir = match &config.store {
        Store::Embedded { dir } => Some(dir),
        Store::Etcd(options) => {
            if let Some(files) = &options.tls
                && let Err((key, what)) = etcd_files(files)
            {
                note(format!("store.{key}"), what);
            }
            None
        }
    };
    let above_store = store_dir.and_then(|dir| dir.parent()).filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = above_store
        && !parent.is_dir()
    {
        let what =
            format!("the directory above, {}, does not exist; create it, or is a disk not mounted?", parent.display());
        note("store.dir".to_owned(), what);
    }
    if let Some(parent) = config.identity.parent().filter(|parent| !parent.as_os_str().is_empty())
        && Some(parent) != above_store
        && !parent.is_dir()
    {
        let what = format!("the directory above, {}, does not exist; create it", parent.display());
        note("identity".to_owned(), what);
    }
    if let Some(files) = &config.tls
        && let Err(error) = tls::server_config(&files.ca, &files.cert, &files.key)
    {
        note(format!("tls.{}", culprit(&error, files)), told(&error));
    }
    if let Some(path) = &config.cells_file
        && let Err(error) = readable(path)
    {
        note("cells.file".to_owned(), format!("cannot read {}: {error}", path.display()));
    }
    let outbound = &config.outbound;
    let of_locket = config.locket.as_ref().map(|locket| &locket.tls);
    for (table, files) in [
        ("auctioneer", outbound.auctioneer_tls.as_ref()),
        ("cells", outbound.cell_tls.as_ref()),
        ("callbacks", outbound.callback_tls.as_ref()),
        ("locket", of_locket),
    ] {
        let Some(files) = files else { continue };
        // Without files of their own callbacks use those of the API, which were checked above.
        if Some(files) == config.tls.as_ref() {
            continue;
        }
        if let Err(error) = tls::client_config(files) {
            note(format!("{table}.{}", culprit(&error, files)), told(&error));
        }
    }
    found
}

/// What is wrong with an identity that others are shown, with the key that names the file.
pub(crate) fn client_problem(files: &TlsFiles) -> Option<(&'static str, String)> {
    tls::client_config(files).err().map(|error| (culprit(&error, files), told(&error)))
}

/// What is wrong with the same files for a port of our own.
pub(crate) fn server_problem(files: &TlsFiles) -> Option<(&'static str, String)> {
    let served = tls::server_config(&files.ca, &files.cert, &files.key);
    served.err().map(|error| (culprit(&error, files), told(&error)))
}

/// What is wrong with the files of a port for everybody.
pub(crate) fn public_problem(cert: &Path, key: &Path) -> Option<(&'static str, String)> {
    let error = tls::public_server_config(cert, key).err()?;
    let files = TlsFiles { ca: Default::default(), cert: cert.to_owned(), key: key.to_owned(), skip_verify: false };
    Some((culprit(&error, &files), told(&error)))
}

/// Without a certificate of our own the authority is all there is to look at.
fn etcd_files(files: &etcd::TlsFiles) -> Result<(), (&'static str, String)> {
    let Some((cert, key)) = &files.identity else {
        return tls::authorities(&files.ca).map(drop).map_err(|error| ("ca", told(&error)));
    };
    let files = TlsFiles { ca: files.ca.clone(), cert: cert.clone(), key: key.clone(), skip_verify: false };
    tls::client_config(&files).map(drop).map_err(|error| (culprit(&error, &files), told(&error)))
}

/// The key whose file the error is about. For a pair that does not fit, either could be wrong; we name the key file.
fn culprit(error: &TlsError, files: &TlsFiles) -> &'static str {
    match error {
        TlsError::Read { path, .. } | TlsError::Pem { path, .. } | TlsError::NoCertificate { path } => {
            if *path == files.ca {
                "ca"
            } else if *path == files.cert {
                "cert"
            } else {
                "key"
            }
        }
        TlsError::Authority { .. } | TlsError::Verifier { .. } => "ca",
        TlsError::NoKey { .. } | TlsError::KeyMismatch { .. } => "key",
        TlsError::Unusable { .. } | TlsError::Library(_) => "cert",
    }
}

/// The error with its causes, in one line.
fn told(error: &TlsError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

fn readable(path: &Path) -> std::io::Result<()> {
    let file = std::fs::File::open(path)?;
    if file.metadata()?.is_dir() { Err(std::io::ErrorKind::IsADirectory.into()) } else { Ok(()) }
}
