//! Which nodes there are: each says so itself, with a claim that ends when it does.
//!
//! Promise: a node that is not heard of for [`CARD_TTL`] is not listed. Who is master is asked of the store, never of a card:
//! a node that lost its mastership may not have noticed yet.

use std::sync::Arc;
use std::time::Duration;

use model::Nanos;
use serde::{Deserialize, Serialize};
use store::{Claim, Store, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::phase::{Master, Phase, Stage};

/// Below this key the cards lie.
const CARDS: &str = "/nodes/";
/// How long a card is good for.
pub const CARD_TTL: Duration = Duration::from_secs(15);
/// A card is shown again after this time at the latest, and at once when something on it has changed.
const RENEW_EVERY: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    pub node: String,
    /// Another one with every start.
    pub instance: String,
    pub release: String,
    /// The newest data version that this release writes.
    pub data_version: u64,
    pub data_version_name: String,
    /// Where clients reach its API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    pub health: String,
    pub phase: String,
    /// Since when it is in that phase.
    pub since_ns: Nanos,
    pub started_ns: Nanos,
    /// Whether it has the records in memory already, so that it can take over at once.
    #[serde(default)]
    pub is_warm: bool,
    /// Why it would not become master, if it would not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cannot_take_over: Option<String>,
}

/// A card as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub is_master: bool,
    #[serde(flatten)]
    pub card: Card,
}

/// The document of `corkboard nodes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeList {
    /// The name of the master. It has no card when it has just started, or was not heard of for a while.
    pub master: Option<String>,
    pub nodes: Vec<Listed>,
    /// What is odd about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The master first, then by name.
pub async fn list(store: &dyn Store) -> Result<NodeList, StoreError> {
    let master = store.holder().await?;
    let held = store.claims(CARDS).await?;
    // A card that cannot be read is of a release that writes others.
    let cards = held.iter().filter_map(|held| serde_json::from_slice(&held.value).ok());
    Ok(listed(master, cards.collect()))
}

fn listed(master: Option<String>, cards: Vec<Card>) -> NodeList {
    // Of a node that was killed and started again there may be two cards; the master is the one that lives.
    let youngest = cards.iter().filter(|card| master.as_ref() == Some(&card.node)).max_by_key(|card| card.started_ns);
    let youngest = youngest.map(|card| card.instance.clone());
    let is_master = |card: &Card| youngest.as_ref() == Some(&card.instance);
    let mut nodes: Vec<Listed> = cards.into_iter().map(|card| Listed { is_master: is_master(&card), card }).collect();
    nodes.sort_by(|a, b| {
        (!a.is_master, &a.card.node, a.card.started_ns).cmp(&(!b.is_master, &b.card.node, b.card.started_ns))
    });
    let mut warnings = Vec::new();
    for pair in nodes.windows(2).filter(|pair| pair[0].card.node == pair[1].card.node) {
        warnings.push(format!(
            "two nodes call themselves {:?}, or one was started again a moment ago; give each node a name of its own",
            pair[0].card.node
        ));
    }
    if let Some(name) = master.as_ref().filter(|name| nodes.iter().all(|node| node.card.node != **name)) {
        warnings.push(format!("the master, {name}, was not heard of for {} s", CARD_TTL.as_secs()));
    }
    NodeList { master, nodes, warnings }
}

/// Shows the card of this node until told to stop, then takes it back.
pub async fn announce(
    store: Arc<dyn Store>,
    mut card: impl FnMut() -> Card + Send + 'static,
    mut stop: watch::Receiver<bool>,
) {
    let key = format!("{CARDS}{}", card().instance);
    let mut shown: Option<(Card, Instant)> = None;
    let mut complained = false;
    loop {
        let now = card();
        let is_due = shown.as_ref().is_none_or(|(known, at)| *known != now || at.elapsed() >= RENEW_EVERY);
        if is_due {
            match show(&*store, &key, &now).await {
                Ok(()) => {
                    complained = false;
                    shown = Some((now, Instant::now()));
                }
                Err(error) if !complained => {
                    complained = true;
                    tracing::warn!(%error, "other nodes cannot see this one at the moment");
                }
                Err(_) => {}
            }
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
    if let Some((card, _)) = shown {
        let _ = store.release(&key, &card.instance).await;
    }
}

/// Keeps in mind whom this node waits for, as long as it does.
pub async fn look_for_master(store: Arc<dyn Store>, phase: Arc<Phase>, mut stop: watch::Receiver<bool>) {
    while phase.stage() == Stage::Waiting {
        if let Ok(NodeList { master: Some(node), nodes, .. }) = list(&*store).await {
            let url = nodes.into_iter().find(|listed| listed.is_master).and_then(|listed| listed.card.url);
            phase.waits_for(Some(Master { node, url }));
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(LOOK_EVERY * 2) => {}
        }
    }
}

async fn show(store: &dyn Store, key: &str, card: &Card) -> Result<(), StoreError> {
    let value = serde_json::to_vec(card).unwrap_or_default();
    let claim = Claim { key: key.to_owned(), owner: card.instance.clone(), value: value.into(), ttl: CARD_TTL };
    store.claim(&claim).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(node: &str, phase: &str) -> Card {
        Card {
            node: node.into(),
            instance: format!("{node}-{phase}"),
            release: "1.0.0".into(),
            data_version: 1,
            data_version_name: "initial_json".into(),
            url: None,
            health: "127.0.0.1:1".into(),
            phase: phase.into(),
            since_ns: 1,
            started_ns: 0,
            is_warm: false,
            cannot_take_over: None,
        }
    }

    fn check(master: Option<&str>, cards: &[Card], expected: &str) {
        let list = listed(master.map(ToOwned::to_owned), cards.to_vec());
        let mut text = String::new();
        for node in list.nodes {
            let mark = if node.is_master { "*" } else { " " };
            text.push_str(&format!("{mark} {} {}\n", node.card.node, node.card.phase));
        }
        list.warnings.iter().for_each(|warning| text.push_str(&format!("! {warning}\n")));
        assert_eq!(text, expected);
    }

    #[test]
    fn the_master_comes_first_and_what_is_odd_is_said() {
        let (a, b) = (card("a", "waiting"), card("b", "serving"));
        check(Some("b"), &[a.clone(), b.clone()], "* b serving\n  a waiting\n");
        let before = Card { instance: "b before".into(), started_ns: -1, ..b.clone() };
        let twice = "! two nodes call themselves \"b\", or one was started again a moment ago; give each node a name of its own\n";
        let list = listed(Some("b".into()), vec![before, b.clone()]);
        assert_eq!(list.nodes.iter().map(|node| node.is_master).collect::<Vec<_>>(), [true, false]);
        assert_eq!((list.nodes[0].card.started_ns, format!("! {}\n", list.warnings[0])), (0, twice.to_owned()));
        check(Some("c"), std::slice::from_ref(&a), "  a waiting\n! the master, c, was not heard of for 15 s\n");
        check(None, &[a, b], "  a waiting\n  b serving\n");
    }

    #[tokio::test]
    async fn a_card_is_there_as_long_as_its_node_and_follows_it() {
        let store: Arc<dyn Store> = Arc::new(store::memory::Memory::new());
        let (stop, stopped) = watch::channel(false);
        let phase = Arc::new(std::sync::Mutex::new("waiting"));
        let told = phase.clone();
        let now = move || Card { instance: "one".into(), ..card("a", &told.lock().unwrap()) };
        let task = tokio::spawn(announce(store.clone(), now, stopped));
        for expected in ["waiting", "serving"] {
            *phase.lock().unwrap() = expected;
            let shown = async || list(&*store).await.unwrap().nodes.iter().any(|node| node.card.phase == expected);
            while !shown().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        stop.send_replace(true);
        task.await.unwrap();
        assert!(list(&*store).await.unwrap().nodes.is_empty());
    }
}
