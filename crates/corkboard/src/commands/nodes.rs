//! `nodes`: who is master, who could be, and who says that it could not; an exit code for scripts.
//!
//! Every node knows all of it, so any of them is asked, or the store itself, also while servers run on it.

use std::fmt::Write as _;
use std::path::PathBuf;

use api::client::Question;
use bbs::clock::{Clock as _, SystemClock};
use bbs::errand;
use bbs::nodes::{Listed, NodeList};

use super::migrate::{Document, EXIT_DONE, Errand, OPERATOR_ROOT, Place, Via, time};
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;
use crate::output::{laid_out, table};

/// Nobody is master, and somebody may be in a moment.
const EXIT_NO_MASTER: u8 = 10;
/// Nobody is master, and nobody here can be.
const EXIT_STUCK: u8 = 12;

/// The phase of a node that is not master.
const WAITING: &str = "waiting";
const NANOS_PER_S: f64 = 1e9;

#[derive(Debug, clap::Args)]
pub(crate) struct Nodes {
    /// Ask the health port at this URL instead, on any node and in any phase [env: CORKBOARD_HEALTH_URL]
    #[arg(long = "healthURL", alias = "health-url", value_name = "URL", conflicts_with_all = ["bbs_url", "config"])]
    health_url: Option<String>,
    /// Ask no server, but the store that this configuration file names; on etcd also while servers run
    #[arg(long, value_name = "FILE", conflicts_with = "bbs_url")]
    config: Option<PathBuf>,
    #[command(flatten)]
    json: JsonFlag,
}

impl Errand for Nodes {
    fn json(&self) -> JsonFlag {
        self.json
    }

    fn place(&self) -> Place<'_> {
        self.config.as_deref().map_or(Place::AnyNode(self.health_url.as_deref()), Place::Store)
    }
}

pub(crate) async fn nodes(via: &Via, _: Nodes, console: &mut Console) -> Result<u8, CommandError> {
    let document = ask(via).await?;
    let list: NodeList = document.read()?;
    if console.is_json() {
        console.line(&document.one_line())?;
    } else {
        console.write(screen(&list, SystemClock.now_ns()).as_bytes())?;
    }
    Ok(exit_code(&list))
}

pub(super) async fn ask(via: &Via) -> Result<Document, CommandError> {
    match via {
        Via::Server(client) => Document::of(&client.ask(&Question::get(&format!("{OPERATOR_ROOT}/nodes"), &[])).await?),
        Via::Health(client) => Document::of(&client.ask(&Question::get("/nodes", &[])).await?),
        Via::Store(config) => Document::from(&errand::nodes(config).await?),
    }
}

/// A store that is used by one process at a time does not know its master by name.
fn has_master(list: &NodeList) -> bool {
    list.master.is_some() || list.nodes.iter().any(|node| node.is_master)
}

fn exit_code(list: &NodeList) -> u8 {
    if has_master(list) {
        EXIT_DONE
    } else if list.nodes.iter().any(|node| node.card.cannot_take_over.is_none()) {
        EXIT_NO_MASTER
    } else {
        EXIT_STUCK
    }
}

/// The sentences stand below the table, so that no terminal is too narrow for them.
fn screen(list: &NodeList, now_ns: i64) -> String {
    let mut text = String::new();
    if !list.nodes.is_empty() {
        let mut rows = table();
        rows.set_header(["ROLE", "NODE", "RELEASE", "DATA VERSION", "PHASE", "SINCE", "WARM", "URL"]);
        rows.add_rows(list.nodes.iter().map(|node| row(node, now_ns)));
        let _ = writeln!(text, "{}", laid_out(rows));
    }
    let notes = notes(list);
    if !list.nodes.is_empty() && !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

pub(super) fn row(node: &Listed, now_ns: i64) -> [String; 8] {
    let Listed { is_master, card } = node;
    let age_s = now_ns.saturating_sub(card.since_ns).max(0) as f64 / NANOS_PER_S;
    let role = match (*is_master, was_master(node)) {
        (true, _) => "master",
        (false, true) => "former",
        (false, false) => "standby",
    };
    // Whoever serves has the records in memory; the question is only one for those that wait.
    let warm = match (card.phase == WAITING, card.is_warm) {
        (false, _) => "",
        (true, true) => "yes",
        (true, false) => "no",
    };
    [
        role.to_owned(),
        card.node.clone(),
        card.release.clone(),
        format!("{} ({})", card.data_version_name, card.data_version),
        card.phase.clone(),
        time(age_s),
        warm.to_owned(),
        card.url.clone().unwrap_or_default(),
    ]
}

/// Only a master does anything else than wait, so this one was it when it was heard of last.
fn was_master(node: &Listed) -> bool {
    !node.is_master && node.card.phase != WAITING
}

pub(super) fn notes(list: &NodeList) -> Vec<String> {
    let mut notes = Vec::new();
    if list.nodes.is_empty() {
        notes.push("no nodes: none that runs was heard of".to_owned());
    }
    let former = list.nodes.iter().filter(|node| was_master(node)).map(|node| &node.card.node);
    notes
        .extend(former.map(|node| format!("{node} was master and is not any more: it has ended, or will in a moment")));
    let cannot = list.nodes.iter().filter_map(|node| Some((&node.card.node, node.card.cannot_take_over.as_ref()?)));
    notes.extend(cannot.map(|(node, why)| format!("{node} cannot take over: {why}")));
    notes.extend(list.warnings.iter().map(|warning| format!("warning: {warning}")));
    let verdict = match exit_code(list) {
        EXIT_NO_MASTER => {
            "no node is master at the moment; one that waits takes over when the last lease has ended. If none does, its log \
             says why"
        }
        EXIT_STUCK if list.nodes.is_empty() => "no node is master; start one: corkboard bbs --config FILE",
        EXIT_STUCK => "no node is master, and none of these can be: see above, and start them again",
        _ => return notes,
    };
    notes.push(verdict.to_owned());
    notes
}

#[cfg(test)]
mod tests {
    use bbs::nodes::Card;
    use expect_test::{Expect, expect};

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn node(name: &str, is_master: bool) -> Listed {
        let card = Card {
            node: name.into(),
            instance: format!("i-{name}"),
            release: "1.0.0".into(),
            data_version: 1_794_700_800,
            data_version_name: "lrp_definitions".into(),
            url: Some(format!("https://{name}.example.org:8889")),
            health: "127.0.0.1:1".into(),
            phase: if is_master { "serving" } else { "waiting" }.into(),
            since_ns: 10 * SECOND,
            started_ns: SECOND,
            is_warm: true,
            cannot_take_over: None,
        };
        Listed { is_master, card }
    }

    fn unfit(name: &str) -> Listed {
        let mut unfit = node(name, false);
        unfit.card.is_warm = false;
        unfit.card.url = None;
        unfit.card.cannot_take_over = Some("this node has not key B. Add it".to_owned());
        unfit
    }

    fn check(master: Option<&str>, nodes: &[Listed], warnings: &[&str], code: u8, expected: &Expect) {
        let list = NodeList {
            master: master.map(ToOwned::to_owned),
            nodes: nodes.to_vec(),
            warnings: warnings.iter().map(ToString::to_string).collect(),
        };
        expected.assert_eq(&screen(&list, 82 * SECOND));
        assert_eq!(exit_code(&list), code);
    }

    #[test]
    fn a_master_and_those_that_wait() {
        check(
            Some("a"),
            &[node("a", true), node("b", false), unfit("c")],
            &["something is odd"],
            EXIT_DONE,
            &expect![[r#"
                ROLE     NODE  RELEASE  DATA VERSION                  PHASE    SINCE       WARM  URL
                master   a     1.0.0    lrp_definitions (1794700800)  serving  1 min 12 s        https://a.example.org:8889
                standby  b     1.0.0    lrp_definitions (1794700800)  waiting  1 min 12 s  yes   https://b.example.org:8889
                standby  c     1.0.0    lrp_definitions (1794700800)  waiting  1 min 12 s  no

                c cannot take over: this node has not key B. Add it
                warning: something is odd
            "#]],
        );
        let mut former = node("c", false);
        former.card.phase = "serving".to_owned();
        check(
            Some("a"),
            &[node("a", true), former],
            &[],
            EXIT_DONE,
            &expect![[r#"
            ROLE    NODE  RELEASE  DATA VERSION                  PHASE    SINCE       WARM  URL
            master  a     1.0.0    lrp_definitions (1794700800)  serving  1 min 12 s        https://a.example.org:8889
            former  c     1.0.0    lrp_definitions (1794700800)  serving  1 min 12 s        https://c.example.org:8889

            c was master and is not any more: it has ended, or will in a moment
        "#]],
        );
        check(
            None,
            &[node("board", true)],
            &[],
            EXIT_DONE,
            &expect![[r#"
            ROLE    NODE   RELEASE  DATA VERSION                  PHASE    SINCE       WARM  URL
            master  board  1.0.0    lrp_definitions (1794700800)  serving  1 min 12 s        https://board.example.org:8889
        "#]],
        );
    }

    #[test]
    fn nobody_is_master() {
        check(
            None,
            &[node("b", false), unfit("c")],
            &[],
            EXIT_NO_MASTER,
            &expect![[r#"
                ROLE     NODE  RELEASE  DATA VERSION                  PHASE    SINCE       WARM  URL
                standby  b     1.0.0    lrp_definitions (1794700800)  waiting  1 min 12 s  yes   https://b.example.org:8889
                standby  c     1.0.0    lrp_definitions (1794700800)  waiting  1 min 12 s  no

                c cannot take over: this node has not key B. Add it
                no node is master at the moment; one that waits takes over when the last lease has ended. If none does, its log says why
            "#]],
        );
        check(
            None,
            &[unfit("c")],
            &[],
            EXIT_STUCK,
            &expect![[r#"
            ROLE     NODE  RELEASE  DATA VERSION                  PHASE    SINCE       WARM  URL
            standby  c     1.0.0    lrp_definitions (1794700800)  waiting  1 min 12 s  no

            c cannot take over: this node has not key B. Add it
            no node is master, and none of these can be: see above, and start them again
        "#]],
        );
        check(
            None,
            &[],
            &[],
            EXIT_STUCK,
            &expect![[r#"
            no nodes: none that runs was heard of
            no node is master; start one: corkboard bbs --config FILE
        "#]],
        );
        check(
            Some("a"),
            &[],
            &["the master, a, was not heard of for 15 s"],
            EXIT_DONE,
            &expect![[r#"
            no nodes: none that runs was heard of
            warning: the master, a, was not heard of for 15 s
        "#]],
        );
    }
}
