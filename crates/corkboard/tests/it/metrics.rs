//! The page that lists all metrics, written from the programs themselves, so that a name that changes shows in a diff.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use expect_test::expect_file;

const HEAD: &str = "# Metrics

Names, labels and units of everything that the programs count. This page is written by a test; to write it anew after a change:
`UPDATE_EXPECT=1 cargo test -p corkboard --test it metrics`. What to look at first is in
[read logs and metrics](../how-to/read-logs-and-metrics.md).

Each program shows its own at `/metrics`, in the format of OpenMetrics, which Prometheus reads. A counter only grows and begins at 0
when its program starts. A gauge is read when somebody asks. A histogram has `_bucket`, `_sum` and `_count`. Metrics of the state
server that belong to a domain, a key or a cell are there once there is one.
";

#[test]
fn every_metric_is_on_its_page() {
    let pages = [
        ("The state server", "`health` of board.toml", bbs::metrics::Metrics::new().render()),
        ("Locket", "`corkboard locket --health ADDRESS`", locket::metrics_page()),
        ("The auctioneer", "`health` of auctioneer.toml", auctioneer::metrics_page()),
        ("A cell", "`admin` of cell.toml, with certificates where it has them", cell::rep::metrics_page()),
        ("The route emitter", "`health` of route-emitter.toml", route_emitter::metrics::metrics_page()),
        ("The router", "`health` of router.toml", router::metrics::metrics_page()),
    ];
    let mut text = HEAD.to_owned();
    let mut names = BTreeSet::new();
    for (program, place, page) in pages {
        let _ = write!(text, "\n## {program}\n\nAt {place}.\n\n| name | type | what it is |\n|---|---|---|\n");
        for (name, metric) in metrics(&page) {
            check(&name, &metric);
            let labels: Vec<&str> = metric.labels.iter().map(String::as_str).filter(|label| *label != "le").collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(", ")) };
            let total = if metric.kind == "counter" { "_total" } else { "" };
            assert!(names.insert(format!("{name}{total}")), "{name} means two things");
            let _ = writeln!(text, "| `{name}{total}{labels}` | {} | {} |", metric.kind, metric.help);
        }
    }
    expect_file!["../../../../docs/formats/metrics.md"].assert_eq(&text);
    recommended()
        .for_each(|name| assert!(names.contains(name), "read-logs-and-metrics.md names {name}, which is nowhere"));
}

/// What the page for operators tells them to look at.
fn recommended() -> impl Iterator<Item = &'static str> {
    let page = include_str!("../../../../docs/how-to/read-logs-and-metrics.md");
    let words = page.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("corkboard_") && *word != "corkboard_cell")
}

#[derive(Default)]
struct Metric {
    help: String,
    kind: String,
    labels: BTreeSet<String>,
}

/// By name, in the order of the alphabet.
fn metrics(page: &str) -> BTreeMap<String, Metric> {
    let mut all: BTreeMap<String, Metric> = BTreeMap::new();
    for line in page.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", "HELP", name, help] => {
                all.entry((*name).to_owned()).or_default().help = help.trim_end_matches('.').into();
            }
            ["#", "TYPE", name, kind] => all.entry((*name).to_owned()).or_default().kind = (*kind).into(),
            _ => {}
        }
    }
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, rest)) = line.split_once('{') else { continue };
        let labels = rest.split_once('}').unwrap().0;
        let labels = labels.split("\",").filter_map(|label| label.split_once('=')).map(|label| label.0.to_owned());
        let of =
            ["_total", "_bucket", "_sum", "_count"].iter().find_map(|end| all.get_key_value(name.strip_suffix(end)?));
        let of = of.or_else(|| all.get_key_value(name)).map(|(of, _)| of.clone());
        all.get_mut(&of.unwrap_or_else(|| panic!("{line} has no TYPE"))).unwrap().labels.extend(labels);
    }
    all
}

/// What Prometheus asks of names.
fn check(name: &str, metric: &Metric) {
    assert!(name.starts_with("corkboard_"), "{name}");
    assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'), "{name}");
    assert!(!metric.help.is_empty() && !metric.kind.is_empty(), "{name} has no HELP or TYPE");
    assert!(!name.ends_with("_count") && !name.ends_with("_sum") && !name.ends_with("_total"), "{name} says it twice");
    for unit in ["_ms", "_mb", "_kb", "_minutes", "_duration", "_latency", "_age"] {
        assert!(!name.ends_with(unit), "{name} is not in seconds or bytes, or does not say so");
    }
}
