//! What `corkboard up` can be told, and the configuration that follows: through the same door as a file, so that the same rules
//! hold.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use bbs::config::Config;
use toml::{Spanned, Value};

use crate::config::{
    DEFAULT_HEALTH, DEFAULT_LISTEN, Problems, RawConfig, RawEncryption, RawKeys, RawMigration, RawStore,
};
use crate::server::Drain;

/// Two levels, because `data` is ours to create and everything beside it stays out of the way.
pub(super) const DEFAULT_DIR: &str = "data/board";
/// Where requests for apps come in.
pub(crate) const DEFAULT_ROUTER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);
/// Enough to try what there is to try on one machine.
const CELLS_MAX: u16 = 16;

#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    /// Where the records are kept; created when missing, in a directory that exists [default: data/board]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Where the API listens: an address of this machine itself, since it is without TLS
    #[arg(long, value_name = "ADDRESS", default_value_t = DEFAULT_LISTEN)]
    listen: SocketAddr,
    /// Where requests for apps come in
    #[arg(long, value_name = "ADDRESS", default_value_t = DEFAULT_ROUTER, conflicts_with = "board_only")]
    pub(super) router: SocketAddr,
    /// How many cells share this machine
    #[arg(long, value_name = "NUMBER", default_value_t = 2, conflicts_with = "board_only",
        value_parser = clap::value_parser!(u16).range(1..=i64::from(CELLS_MAX)))]
    pub(super) cells: u16,
    /// Ports of this machine that apps listen on
    #[arg(long, value_name = "FIRST-LAST", default_value = "61001-65534", value_parser = port_range,
        conflicts_with = "board_only")]
    pub(super) app_ports: RangeInclusive<u16>,
    /// The user that apps run as, when root starts this [default: root]
    #[arg(long, value_name = "USER", conflicts_with = "board_only")]
    pub(super) run_as: Option<String>,
    /// Start the state server alone: no cells, no router, nobody who places or runs anything
    #[arg(long)]
    pub(super) board_only: bool,
    /// Where health, status and metrics are answered
    #[arg(long, value_name = "ADDRESS", default_value_t = DEFAULT_HEALTH)]
    health: SocketAddr,
    /// Where the copy of the store's identity is kept [default: beside DIR, with its name and .identity]
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// While older data is brought up to date: online, read-only or offline [default: online]
    #[arg(long, value_name = "MODE")]
    migration_mode: Option<String>,
    /// When older data is brought up to date: auto, or manual with `corkboard migrate start` [default: auto]
    #[arg(long, value_name = "WHEN")]
    migration_start: Option<String>,
    /// When the older data is given up: auto, or manual with `corkboard migrate finalize` [default: auto]
    #[arg(long, value_name = "WHEN")]
    migration_finalization: Option<String>,
    /// How many records are brought up to date in a second; 0 leaves it to the automatic throttle [default: 0]
    #[arg(long, value_name = "NUMBER")]
    migration_records_per_s_max: Option<u32>,
    /// A key that encrypts records at rest: its name, and a file that nobody but its owner may read; may be repeated
    #[arg(long, value_name = "NAME=FILE", value_parser = named_file)]
    encryption_key: Vec<(String, String)>,
    /// The key that seals whatever is written [default: the only one]
    #[arg(long, value_name = "NAME", requires = "encryption_key")]
    active_key: Option<String>,
    #[command(flatten)]
    drain: Drain,
}

impl Up {
    /// Where the records are.
    pub(super) fn board(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIR))
    }

    /// Where the cells keep what they run: beside the records, with their name.
    pub(super) fn cells_folder(&self) -> PathBuf {
        let board = self.board();
        let named = if board.file_name().is_some() { board } else { std::fs::canonicalize(&board).unwrap_or(board) };
        named.with_added_extension("cells")
    }

    /// The store creates its own directory but none above it: a disk that is not mounted must not be mistaken for an empty one.
    /// Our own default is no disk.
    pub(super) fn folder_to_create(&self) -> Option<&'static Path> {
        if self.dir.is_some() { None } else { Path::new(DEFAULT_DIR).parent() }
    }

    pub(super) fn config(self) -> Result<Config, Problems> {
        let value = |value: Value| Some(Spanned::new(0..0, value));
        let text = |text: String| value(Value::String(text));
        let dir = self.board();
        let store = RawStore { dir: text(dir.to_string_lossy().into_owned()), ..RawStore::default() };
        let migration = RawMigration {
            mode: self.migration_mode.and_then(text),
            start: self.migration_start.and_then(text),
            finalization: self.migration_finalization.and_then(text),
            records_per_s_max: self.migration_records_per_s_max.and_then(|max| value(Value::Integer(max.into()))),
            rollback_on_drain_to_version: self.drain.rollback_on_drain_to_version.and_then(|to| text(to.to_string())),
            ..RawMigration::default()
        };
        let encryption = encryption(self.encryption_key, self.active_key)?;
        let raw = RawConfig {
            node: text("up".to_owned()),
            listen: text(self.listen.to_string()),
            health: text(self.health.to_string()),
            identity: self.identity.and_then(|path| text(path.to_string_lossy().into_owned())),
            store: Some(store),
            migration: Some(migration),
            encryption,
            ..RawConfig::default()
        };
        Config::try_from(raw)
    }
}

fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let ends = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match ends {
        Some((first, last)) if 0 < first && first <= last => Ok(first..=last),
        _ => Err("expected two ports, such as 61001-65534".to_owned()),
    }
}

fn named_file(text: &str) -> Result<(String, String), String> {
    let named = text.split_once('=').filter(|(name, file)| !name.is_empty() && !file.is_empty());
    named.map(|(name, file)| (name.to_owned(), file.to_owned())).ok_or_else(|| "expected NAME=FILE".to_owned())
}

/// The table that a file would have, or `None` without keys.
fn encryption(keys: Vec<(String, String)>, active: Option<String>) -> Result<Option<RawEncryption>, Problems> {
    let spanned = |text: String| Spanned::new(0..0, Value::String(text));
    let names: Vec<String> = keys.iter().map(|(name, _)| name.clone()).collect();
    if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return Err(Problems::of_flag("--encryption-key", format!("key {} is given twice; expected it once", twice.1)));
    }
    let active = match (active, names.len()) {
        (_, 0) => return Ok(None),
        (Some(active), _) => active,
        (None, 1) => names[0].clone(),
        (None, _) => {
            let what = format!("is missing, and there are several keys; expected one of {}", names.join(", "));
            return Err(Problems::of_flag("--active-key", what));
        }
    };
    let file = |(name, file): (String, String)| {
        let place = toml::Table::from_iter([("file".to_owned(), Value::String(file))]);
        (Spanned::new(0..0, name), Spanned::new(0..0, Value::Table(place)))
    };
    let keys = RawKeys(keys.into_iter().map(file).collect());
    Ok(Some(RawEncryption { active: Some(spanned(active)), keys: Some(keys), ..RawEncryption::default() }))
}

#[cfg(test)]
mod tests {
    use bbs::config::{Finalization, Migration, Mode, Start};
    use expect_test::expect;

    use super::*;

    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        up: Up,
    }

    fn with(flags: &[&str]) -> Result<Config, Problems> {
        let words = ["up", "--dir", "board"].iter().chain(flags);
        <Alone as clap::Parser>::try_parse_from(words).unwrap().up.config()
    }

    fn up(listen: &str, health: &str) -> Result<Config, Problems> {
        with(&["--listen", listen, "--health", health])
    }

    #[test]
    fn the_flags_about_migrations_reach_the_configuration() {
        let config = with(&[]).unwrap();
        assert_eq!((config.migration, config.rollback_on_drain_to), (Migration::default(), None));
        assert_eq!(config.identity, Path::new("board.identity"));
        let flags = "--identity id --migration-mode read-only --migration-start manual --migration-finalization manual \
                     --migration-records-per-s-max 500 --rollback-on-drain-to-version split_desired_lrp";
        let config = with(&flags.split_whitespace().collect::<Vec<_>>()).unwrap();
        let expected = Migration {
            mode: Mode::ReadOnly,
            start: Start::Manual,
            finalization: Finalization::Manual,
            records_per_s_max: 500,
        };
        assert_eq!((config.migration, config.rollback_on_drain_to), (expected, Some(1_442_529_338)));
        assert_eq!(config.identity, Path::new("id"));
        expect![[r#"migration.mode: "fast" is not known; expected "online" or "read-only" or "offline""#]]
            .assert_eq(&with(&["--migration-mode", "fast"]).unwrap_err().to_string());
    }

    #[test]
    fn keys_come_through_the_same_checks_as_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let flag = |name: &str, bytes: &str, mode: u32| {
            let path = dir.path().join(format!("{name}.{bytes}"));
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            format!("--encryption-key={name}={}", path.display())
        };
        let (a, b, same, open) =
            (flag("A", "one", 0o600), flag("B", "two", 0o400), flag("C", "one", 0o600), flag("D", "four", 0o640));
        let bad_name = flag("a-b", "five", 0o600);
        let outcome = |flags: &[&str]| match with(flags) {
            Ok(config) => format!("{:?}", config.encryption.map(|encryption| encryption.keyring)),
            Err(problems) => problems.to_string().replace(dir.path().to_str().unwrap(), "DIR"),
        };
        let outcomes = [
            outcome(&[]),
            outcome(&[&a]),
            outcome(&[&a, &b]),
            outcome(&[&a, &b, "--active-key", "B"]),
            outcome(&[&a, &b, "--active-key", "C"]),
            outcome(&[&a, &a]),
            outcome(&[&a, &same, "--active-key", "A"]),
            outcome(&[&open]),
            outcome(&[&bad_name]),
            outcome(&["--encryption-key", "A=DIR/nowhere"]),
        ];
        expect![[r#"
            None
            Some(Keyring { active: A, keys: [KeyName("A")] })
            --active-key: is missing, and there are several keys; expected one of A, B
            Some(Keyring { active: B, keys: [KeyName("A"), KeyName("B")] })
            encryption.active: "C" is not among the keys; expected one of A, B
            --encryption-key: key A is given twice; expected it once
            encryption.keys.C: keys A and C are the same bytes under two names, so that going from one to the other would protect nothing; expected different ones
            encryption.keys.D: others may use DIR/D.four (its permissions are 640), and whoever reads a key reads everything that it seals; give it to its owner alone with `chmod 600 DIR/D.four`
            encryption.active: "a-b" is not a name for a key; expected 1 to 127 ASCII letters or digits
            encryption.keys.a-b: "a-b" is not a name for a key; expected 1 to 127 ASCII letters or digits
            encryption.keys.A: cannot read DIR/nowhere: No such file or directory (os error 2)"#]].assert_eq(&outcomes.join("\n"));
        for wrong in [&["--encryption-key", "A"][..], &["--encryption-key", "=f"], &["--active-key", "A"]] {
            let words = ["up"].iter().chain(wrong);
            assert!(<Alone as clap::Parser>::try_parse_from(words).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn up_listens_on_loopback_only() {
        let config = up("127.0.0.1:0", "[::1]:0").unwrap();
        assert!(config.tls.is_none() && config.store.to_string() == "embedded, board");
        expect!["listen: 0.0.0.0:8889 is not a loopback address, and plain HTTP is served only on loopback; add a table [tls] with ca, cert and key, or listen on 127.0.0.1 or [::1]"]
            .assert_eq(&up("0.0.0.0:8889", "127.0.0.1:8890").unwrap_err().to_string());
    }

    #[test]
    fn ports_of_apps_are_a_range() {
        for (text, expected) in
            [("7-9", Some(7..=9)), ("7-7", Some(7..=7)), ("9-7", None), ("0-9", None), ("7", None), ("7-70000", None)]
        {
            assert_eq!(port_range(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn the_two_ports_differ() {
        expect!["health: 127.0.0.1:1 is also the address of `listen`; expected another port"]
            .assert_eq(&up("127.0.0.1:1", "127.0.0.1:1").unwrap_err().to_string());
    }
}
