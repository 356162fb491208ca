//! `backup --verify`: whether a file is a whole backup, and what is in it.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

use serde_json::json;
use store::Version;
use store::backup::{BackupError, Contents, Header, Summary, check};
use store::record::DataVersion;

use super::Backup;
use super::progress::Bar;
use crate::commands::migrate::{EXIT_DONE, grouped, moment, size};
use crate::console::Console;
use crate::failure::{CommandError, EXIT_LOSS};

pub(crate) fn verify(args: &Backup, console: &mut Console) -> Result<u8, CommandError> {
    let mut file = open(&args.file)?;
    let shown = args.file.display().to_string();
    match looked_into(&mut file, console)? {
        Ok(contents) if console.is_json() => console.line(&document(&shown, &contents))?,
        Ok(contents) => console.write(report(&shown, &contents).as_bytes())?,
        Err(error) => {
            let why = error.to_string();
            console.line(&match console.is_json() {
                true => json!({ "file": shown, "whole": false, "why": why }).to_string(),
                false => format!("{shown} is NOT a whole backup: {why}."),
            })?;
            return Ok(EXIT_LOSS);
        }
    }
    Ok(EXIT_DONE)
}

pub(super) fn open(path: &Path) -> Result<File, CommandError> {
    File::open(path)
        .map_err(|error| CommandError::Usage(format!("cannot open {}: {error}. Nothing was changed", path.display())))
}

/// Reads all of it, showing how far it is.
pub(super) fn looked_into(
    file: &mut File,
    console: &mut Console,
) -> Result<Result<Contents, BackupError>, CommandError> {
    let mut bar = Bar::new("checking");
    let mut drawn = Ok(());
    let found = check(file, |header, records| {
        if drawn.is_ok() {
            drawn = bar.show(console, records, header.records);
        }
    });
    drawn?;
    bar.end(console)?;
    Ok(found)
}

fn report(file: &str, contents: &Contents) -> String {
    let Contents { header, summary, sealed, plain, versions, quarantined } = contents;
    let mut text =
        format!("{file} is a whole backup: {} records, {}.\n\n", grouped(summary.records), size(summary.bytes));
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<10}{value}");
    };
    row("taken", format!("{} UTC, by release {}", moment(header.taken_ns), header.release));
    row("cluster", header.cluster_id.clone().unwrap_or_else(|| "has no id".to_owned()));
    row("revision", header.revision.to_string());
    row("version", named(header.data_version));
    if header.target_version != header.data_version {
        row("", format!("a migration to {} was under way", named(header.target_version)));
    }
    for (version, records) in versions {
        row("", format!("{} records of {}", grouped(*records), named(*version)));
    }
    for (key, records) in sealed {
        row("key", format!("{key} opens {} records; it is not in the backup", grouped(*records)));
    }
    if *plain > 0 {
        row("key", format!("{} records are not encrypted", grouped(*plain)));
    }
    if *quarantined > 0 {
        row("aside", format!("{} records in quarantine", grouped(*quarantined)));
    }
    row("sha256", summary.sha256.clone());
    text
}

fn named(version: DataVersion) -> String {
    match Version::of(version) {
        Some(known) => format!("{version} ({})", known.name()),
        None => format!("{version} (not known to this release)"),
    }
}

fn document(file: &str, contents: &Contents) -> String {
    let Contents { header, summary, sealed, plain, versions, quarantined } = contents;
    let Header { release, taken_ns, cluster_id, revision, data_version, target_version, .. } = header;
    let Summary { records, bytes, sha256 } = summary;
    let versions: serde_json::Map<_, _> =
        versions.iter().map(|(version, records)| (version.to_string(), json!(records))).collect();
    json!({
        "file": file, "whole": true, "records": records, "bytes": bytes, "revision": revision, "sha256": sha256,
        "release": release, "taken_ns": taken_ns, "cluster_id": cluster_id, "data_version": data_version,
        "target_version": target_version, "records_by_version": versions, "records_by_key": sealed,
        "records_not_encrypted": plain, "records_in_quarantine": quarantined,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::expect;

    use super::*;

    #[test]
    fn what_is_in_a_backup_is_told() {
        let contents = Contents {
            header: Header {
                release: "0.4.0".to_owned(),
                taken_ns: 1_794_700_800_000_000_000,
                cluster_id: Some("5f2c6a61".to_owned()),
                revision: 1_042,
                data_version: Version::EARLIEST.number(),
                target_version: Version::LATEST.number(),
                keys: vec!["A".to_owned(), "B".to_owned()],
                records: 12_004,
            },
            summary: Summary { records: 12_004, bytes: 12_300_000, sha256: "e3b0c442".to_owned() },
            sealed: BTreeMap::from([("A".to_owned(), 11_000), ("B".to_owned(), 900)]),
            plain: 100,
            versions: BTreeMap::from([(DataVersion(1), 6_000), (DataVersion(7), 5_998)]),
            quarantined: 2,
        };
        expect![[r#"
            board.bak is a whole backup: 12,004 records, 12.3 MB.

              taken     2026-11-15 00:00:00 UTC, by release 0.4.0
              cluster   5f2c6a61
              revision  1042
              version   1 (initial_json)
                        a migration to 1794700800 (lrp_definitions) was under way
                        6,000 records of 1 (initial_json)
                        5,998 records of 7 (not known to this release)
              key       A opens 11,000 records; it is not in the backup
              key       B opens 900 records; it is not in the backup
              key       100 records are not encrypted
              aside     2 records in quarantine
              sha256    e3b0c442
        "#]]
        .assert_eq(&report("board.bak", &contents));
    }
}
