//! `engines`: our log against other embedded stores, on the work that a state server gives them.
//!
//! Three questions. What does a durable commit cost, alone and in groups? What does a whole board cost: to load it, to open
//! it again, to read it? And when one byte of it goes bad, who notices? All engines sync with every commit; rounds are
//! interleaved, so that a slow minute of the machine hits all of them.

mod append;
mod bulk;
mod commits;
mod damage;
mod fjall;
mod log;
mod redb;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

pub use self::damage::child;

/// A key and its value.
pub type Record = (String, Vec<u8>);

/// What all engines can do. Keys are written in no particular order.
pub trait Engine {
    /// Durable when it returns.
    fn commit(&mut self, records: &[Record]) -> anyhow::Result<()>;

    /// Calls `visit` for every record; order does not matter.
    fn scan(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> anyhow::Result<()>;
}

/// When you add one: a module that implements [`Engine`], and an arm in [`Kind::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Append,
    Log,
    Fjall,
    Redb,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Append, Kind::Log, Kind::Fjall, Kind::Redb];

    pub fn title(self) -> &'static str {
        match self {
            Kind::Append => "append + fdatasync (floor)",
            Kind::Log => "corkboard's log",
            Kind::Fjall => "fjall",
            Kind::Redb => "redb",
        }
    }

    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Append => "append",
            Kind::Log => "log",
            Kind::Fjall => "fjall",
            Kind::Redb => "redb",
        }
    }

    /// Opens what is in the directory, or begins there.
    pub fn open(self, dir: &Path) -> anyhow::Result<Box<dyn Engine>> {
        Ok(match self {
            Kind::Append => Box::new(append::Append::open(dir)?),
            Kind::Log => Box::new(log::Log::open(dir)?),
            Kind::Fjall => Box::new(fjall::Fjall::open(dir)?),
            Kind::Redb => Box::new(redb::Redb::open(dir)?),
        })
    }
}

#[derive(Debug, Args)]
pub struct EnginesArgs {
    /// Where the stores are made; must be on a real disk
    #[arg(long, default_value = "target/bench")]
    pub dir: PathBuf,
    /// Interleaved rounds of commits
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// Length of one round of one engine and group size
    #[arg(long, default_value_t = 700)]
    pub round_ms: u64,
    /// DesiredLRPs of the bulk load; there are a quarter more instances
    #[arg(long, default_value_t = 200_000)]
    pub lrps: u64,
    /// Records of the damage experiment
    #[arg(long, default_value_t = 2_000)]
    pub damage_records: u64,
    /// Also write the report as Markdown
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// The whole comparison, as Markdown. `say` gets a line of progress now and then.
pub fn run(args: &EnginesArgs, say: &dyn Fn(&str)) -> anyhow::Result<String> {
    std::fs::create_dir_all(&args.dir)?;
    let scratch = tempfile::Builder::new().prefix("engines-").tempdir_in(&args.dir)?;
    say("commits: groups of 1, 16, 64 and 256 records of 1.5 KB");
    let commits = commits::run(scratch.path(), args.rounds, std::time::Duration::from_millis(args.round_ms))?;
    say("bulk load, cold open, scan");
    let bulk = bulk::run(scratch.path(), args.lrps)?;
    say("damage: one byte flipped after a kill");
    let damage = damage::run(scratch.path(), args.damage_records)?;
    Ok(format!(
        "# Storage engines on this workload\n\n\
         Group commits of records of 1.5 KB, synced each; medians over {} interleaved rounds. Records per second, time per commit.\n\n\
         {commits}\n\
         A whole board: {} records of 4 KB and {} of 0.8 KB in commits of {} records; opened and read with cold caches where\n\
         the machine allows it.\n\n{bulk}\n\
         {} records committed one by one and acknowledged, the process killed, one byte in or before the middle one flipped, opened\n\
         again; for a number of bytes, each on a fresh copy.\n\n\
         {damage}",
        args.rounds,
        args.lrps,
        args.lrps + args.lrps / 4,
        bulk::GROUP_RECORDS,
        args.damage_records,
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::noise::Noise;

    #[test]
    fn every_engine_keeps_what_it_was_given_over_a_reopen() {
        for kind in Kind::ALL {
            let dir = tempfile::tempdir().unwrap();
            let records: Vec<Record> = (0..300).map(|at| (format!("k/{at:05}"), Noise::new(at).bytes(900))).collect();
            let mut engine = kind.open(dir.path()).unwrap();
            records.chunks(100).for_each(|group| engine.commit(group).unwrap());
            let changed = ("k/00007".to_owned(), b"later".to_vec());
            engine.commit(std::slice::from_ref(&changed)).unwrap();
            drop(engine);
            let mut wanted: BTreeMap<_, _> = records.into_iter().collect();
            wanted.insert(changed.0, changed.1);
            let mut found = BTreeMap::new();
            let mut visit = |key: &[u8], value: &[u8]| {
                drop(found.insert(String::from_utf8_lossy(key).into_owned(), value.to_vec()));
            };
            kind.open(dir.path()).unwrap().scan(&mut visit).unwrap();
            assert!(found == wanted, "{}", kind.title());
        }
    }
}
