//! `keys verify`: every record is read from the store and opened, and what came of it is told by key.

use std::fmt::Write as _;

use bbs::errand;
use serde_json::json;

use super::ask;
use super::document::{Broken, Keys, State, Tally, Verification, quoted};
use crate::commands::migrate::{
    Document, EXIT_DONE, Errand, Place, StoreFlag, Via, grouped, moment, nothing_to_do, size, watch,
};
use crate::console::{Console, JsonFlag};
use crate::failure::{CommandError, EXIT_LOSS};
use crate::output::{laid_out, table};

#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    store: StoreFlag,
    #[command(flatten)]
    json: JsonFlag,
}

impl Errand for Verify {
    fn json(&self) -> JsonFlag {
        self.json
    }

    fn place(&self) -> Place<'_> {
        self.store.or(Place::Server)
    }
}

pub(crate) async fn verify(via: &Via, _: Verify, console: &mut Console) -> Result<u8, CommandError> {
    let client = match via {
        Via::Server(client) | Via::Health(client) => client,
        Via::Store(config) => {
            return match ask::work_alone(config, console, errand::verify_keys).await {
                Ok(document) => told(&document, console),
                Err(error) => nothing_to_do(error, console),
            };
        }
    };
    client.ask(&ask::question("verify", &json!({}))).await?;
    let is_over = |now: &Keys| now.state != State::Checking;
    let (_, document) = watch::watch(async || ask::status(via).await, console, watch::Tell::Nothing, is_over).await?;
    told(&document, console)
}

fn told(document: &Document, console: &mut Console) -> Result<u8, CommandError> {
    let Keys { verification: Some(found), .. } = document.read()? else {
        return Err(CommandError::Unfinished(
            "not every record was opened, because the server was restarted or told to rotate meanwhile; nothing was changed. \
             Give the command again when `corkboard keys status` calls it settled"
                .to_owned(),
        ));
    };
    if console.is_json() {
        console.line(&document.one_line())?;
    } else {
        console.write(report(&found).as_bytes())?;
    }
    Ok(if found.broken_total == 0 { EXIT_DONE } else { EXIT_LOSS })
}

fn report(found: &Verification) -> String {
    let Verification { at_ns, records, bytes, broken_total, .. } = found;
    let (records, size, at) = (grouped(*records), size(*bytes), moment(*at_ns));
    let mut text = match broken_total {
        0 => format!("All {records} records ({size}) can be opened. Looked at on {at} UTC.\n"),
        broken => {
            format!("{} of {records} records ({size}) CANNOT be opened. Looked at on {at} UTC.\n", grouped(*broken))
        }
    };
    let mut rows = table();
    rows.set_header(["KEY", "RECORDS", "OLDEST (UTC)", "OLDEST RECORD"]);
    let plain = ("(not encrypted)", &found.plain);
    let of_keys = found.keys.iter().map(|(name, tally)| (name.as_str(), tally));
    let mut is_empty = true;
    for (name, Tally { records, oldest_ns, oldest_id }) in of_keys.chain([plain]).filter(|(_, it)| it.records > 0) {
        let (oldest, id) = (oldest_ns.map(moment).unwrap_or_default(), oldest_id.clone().unwrap_or_default());
        rows.add_row([name.to_owned(), grouped(*records), oldest, id]);
        is_empty = false;
    }
    if !is_empty {
        text.push('\n');
        for line in laid_out(rows).lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    broken(&mut text, &found.broken, found.broken_total);
    text
}

fn broken(text: &mut String, named: &[Broken], total: u64) {
    if total == 0 {
        return;
    }
    text.push_str("\nCannot be opened:\n");
    for Broken { id, why } in named {
        let _ = writeln!(text, "  {id}: {why}");
    }
    let unnamed = total.saturating_sub(named.len() as u64);
    if unnamed > 0 {
        let _ = writeln!(text, "  and {} more", grouped(unnamed));
    }
    if let Some(first) = named.first() {
        let _ = write!(text, "\nNext: corkboard quarantine show {}\n", quoted(&first.id));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use expect_test::{Expect, expect};

    use super::*;

    fn check(members: &str, expected: &Expect) {
        let json = format!(r#"{{"at_ns":1794700800000000000,{members}}}"#);
        let found: Verification = Document::of(&Bytes::from(json)).unwrap().read().unwrap();
        expected.assert_eq(&report(&found));
    }

    const NONE: &str = r#""plain":{"records":0,"oldest_ns":null,"oldest_id":null,"ids":[]}"#;

    #[test]
    fn all_can_be_opened() {
        check(
            &format!(
                r#"{NONE},"records":12000,"bytes":12300000,"broken":[],"broken_total":0,"keys":{{"A":{{"records":12000,
                   "oldest_ns":1794700700000000000,"oldest_id":"/v1794700800/task/once","ids":["/v1794700800/task/once"]}}}}"#
            ),
            &expect![[r#"
                All 12,000 records (12.3 MB) can be opened. Looked at on 2026-11-15 00:00:00 UTC.

                  KEY  RECORDS  OLDEST (UTC)         OLDEST RECORD
                  A    12,000   2026-11-14 23:58:20  /v1794700800/task/once
            "#]],
        );
        check(
            &format!(r#"{NONE},"records":0,"bytes":0,"broken":[],"broken_total":0,"keys":{{}}"#),
            &expect![[r#"
            All 0 records (0 bytes) can be opened. Looked at on 2026-11-15 00:00:00 UTC.
        "#]],
        );
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        check(
            r#""records":1203,"bytes":999,"plain":{"records":1,"oldest_ns":null,"oldest_id":null,"ids":["/v1/task/p"]},
               "keys":{"A":{"records":1,"oldest_ns":0,"oldest_id":"/v1/task/a","ids":["/v1/task/a"]},
                       "B":{"records":1201,"oldest_ns":1794700700000000000,"oldest_id":"/v1/task/b","ids":["/v1/task/b"]}},
               "broken":[{"id":"/v1/task/a","key":"A","why":"the record is sealed with key A and is cut off"}],
               "broken_total":1200"#,
            &expect![[r#"
                1,200 of 1,203 records (999 bytes) CANNOT be opened. Looked at on 2026-11-15 00:00:00 UTC.

                  KEY              RECORDS  OLDEST (UTC)         OLDEST RECORD
                  A                1        1970-01-01 00:00:00  /v1/task/a
                  B                1,201    2026-11-14 23:58:20  /v1/task/b
                  (not encrypted)  1

                Cannot be opened:
                  /v1/task/a: the record is sealed with key A and is cut off
                  and 1,199 more

                Next: corkboard quarantine show '/v1/task/a'
            "#]],
        );
    }
}
