//! For which program a configuration file is, told by its keys.

use clap::ValueEnum as _;
use toml::{Table, Value};

use super::Program;
use super::raw::{
    RawAuctionTiming, RawAuctioneer, RawBackends, RawBbs, RawCapacity, RawCell, RawCellTiming, RawCells,
    RawEmitterTiming, RawExecutor, RawLocket, RawNats, RawRouteEmitter, RawRouter, RawRouterTiming, RawRoutes,
    RawServerTls, RawTags, RawWeights,
};
use crate::config::raw::{self, RawConfig, RawTls};

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Subject {
    Bbs,
    Auctioneer,
    #[value(alias = "rep")]
    Cell,
    RouteEmitter,
    Router,
}

impl Subject {
    /// `None` for the state server.
    pub(crate) fn program(self) -> Option<Program> {
        match self {
            Self::Bbs => None,
            Self::Auctioneer => Some(Program::Auctioneer),
            Self::Cell => Some(Program::Cell),
            Self::RouteEmitter => Some(Program::RouteEmitter),
            Self::Router => Some(Program::Router),
        }
    }
}

/// The keys of a file by table; the empty name is what stands before the first table.
type Keys = &'static [(&'static str, &'static [&'static str])];

const OF_AUCTIONEER: Keys = &[
    ("", RawAuctioneer::KEYS),
    ("tls", RawTls::KEYS),
    ("bbs", RawBbs::KEYS),
    ("locket", RawLocket::KEYS),
    ("cells", RawCells::KEYS),
    ("placement", RawWeights::KEYS),
    ("timing", RawAuctionTiming::KEYS),
];
const OF_CELL: Keys = &[
    ("", RawCell::KEYS),
    ("tls", RawTls::KEYS),
    ("bbs", RawBbs::KEYS),
    ("locket", RawLocket::KEYS),
    ("capacity", RawCapacity::KEYS),
    ("executor", RawExecutor::KEYS),
    ("placement", RawTags::KEYS),
    ("timing", RawCellTiming::KEYS),
];
const OF_ROUTE_EMITTER: Keys = &[
    ("", RawRouteEmitter::KEYS),
    ("tls", RawTls::KEYS),
    ("bbs", RawBbs::KEYS),
    ("locket", RawLocket::KEYS),
    ("nats", RawNats::KEYS),
    ("timing", RawEmitterTiming::KEYS),
    ("routes", RawRoutes::KEYS),
];
const OF_ROUTER: Keys = &[
    ("", RawRouter::KEYS),
    ("nats", RawNats::KEYS),
    ("tls", RawServerTls::KEYS),
    ("backends", RawBackends::KEYS),
    ("timing", RawRouterTiming::KEYS),
];
const OF_BBS: Keys = &[
    ("", RawConfig::KEYS),
    ("tls", RawTls::KEYS),
    ("timing", raw::RawTiming::KEYS),
    ("cells", raw::RawCells::KEYS),
    ("locket", raw::RawLocket::KEYS),
];

fn keys_of(subject: Subject) -> Keys {
    match subject {
        Subject::Bbs => OF_BBS,
        Subject::Auctioneer => OF_AUCTIONEER,
        Subject::Cell => OF_CELL,
        Subject::RouteEmitter => OF_ROUTE_EMITTER,
        Subject::Router => OF_ROUTER,
    }
}

/// The program that knows most of what stands in the file. The state server if nothing tells: most files are its own, and it
/// says what is wrong with one that is nobody's.
pub(crate) fn recognised(text: &str) -> Subject {
    let Ok(file) = text.parse::<Table>() else { return Subject::Bbs };
    let misses = |subject: &Subject| unknown_keys(&file, keys_of(*subject));
    // Of equals the first, so that nothing speaks against the state server but a key that it does not have.
    Subject::value_variants().iter().copied().min_by_key(misses).unwrap_or(Subject::Bbs)
}

fn unknown_keys(file: &Table, keys: Keys) -> usize {
    let known = |table: &str| keys.iter().find(|(name, _)| *name == table).map(|(_, keys)| *keys);
    let missing = |keys: &[&str], table: &Table| table.keys().filter(|key| !keys.contains(&key.as_str())).count();
    let nested = file.iter().filter_map(|(name, value)| match value {
        // A table that is not known counts with everything in it.
        Value::Table(table) if !known("").unwrap_or_default().contains(&name.as_str()) => Some(table.len()),
        Value::Table(table) => known(name).map(|keys| missing(keys, table)),
        _ => None,
    });
    nested.sum::<usize>() + missing(known("").unwrap_or_default(), file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::example;

    fn example_of(subject: Subject) -> &'static str {
        subject.program().map_or(crate::config::EXAMPLE, example)
    }

    /// As an operator would who needs every key.
    fn uncommented(example: &str) -> String {
        let line = |line: &str| {
            let bare = line.strip_prefix("# ").unwrap_or(line);
            let is_key = bare.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
            if is_key || bare.starts_with('[') { format!("{bare}\n") } else { String::new() }
        };
        example.lines().map(line).collect()
    }

    #[test]
    fn every_example_is_recognised() {
        for subject in Subject::value_variants() {
            assert_eq!(recognised(example_of(*subject)), *subject);
            assert_eq!(recognised(&uncommented(example_of(*subject))), *subject);
        }
    }

    #[test]
    fn every_example_has_every_key_and_no_other() {
        for subject in &Subject::value_variants()[1..] {
            let file: Table = uncommented(example_of(*subject)).parse().unwrap();
            for (table, keys) in keys_of(*subject) {
                let table = if table.is_empty() { &file } else { file[*table].as_table().unwrap() };
                let mut found: Vec<&str> = table.keys().map(String::as_str).collect();
                let mut keys = keys.to_vec();
                found.sort_unstable();
                keys.sort_unstable();
                assert_eq!(found, keys, "{subject:?}");
            }
        }
    }

    #[test]
    fn a_few_keys_tell() {
        let check = |text: &str, expected: Subject| assert_eq!(recognised(text), expected, "{text}");
        check("", Subject::Bbs);
        check("not toml", Subject::Bbs);
        check("[store]\ndir = \"a\"\n", Subject::Bbs);
        check("cell_id = \"a\"\n[bbs]\nurls = []\n[locket]\naddress = \"a\"\n", Subject::Cell);
        check("cell_id = \"a\"\n[bbs]\nurls = []\n[nats]\nurls = []\n", Subject::RouteEmitter);
        check("listen = \"a\"\n[nats]\nurls = []\n", Subject::Router);
        check("listen = \"a\"\n[bbs]\nurls = []\n", Subject::Auctioneer);
        check("node = \"a\"\n[bbs]\nurls = []\n[placement]\nstarting_container_weight = 1\n", Subject::Auctioneer);
    }
}
