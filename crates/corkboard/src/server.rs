//! The commands that run a server: `up` on this machine with everything at its default, `bbs` from a configuration file.
//!
//! Both run until SIGTERM or SIGINT. The first signal stops in order: no new connections, streams are ended, requests in
//! flight are answered, the store is closed. A second one ends the process at once; what was acknowledged is durable anyway.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use bbs::config::Config;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use toml::{Spanned, Value};

use crate::config::{
    self, Account, DEFAULT_HEALTH, DEFAULT_LISTEN, Problems, RawConfig, RawEncryption, RawKeys, RawMigration, RawStore,
};
use crate::data_version::resolve_known_version;
use crate::failure::Failure;
use crate::{locket, welcome};

/// What a shell reports for a process that a signal ended: 128 and the number of the signal.
const EXIT_SIGNALLED: i32 = 128;

/// Two levels, because `data` is ours to create and everything beside it stays out of the way.
const DEFAULT_DIR: &str = "data/board";

#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    /// Where the records are kept; created when missing, in a directory that exists [default: data/board]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where the API listens: an address of this machine itself, since it is without TLS
    #[arg(long, value_name = "ADDRESS", default_value_t = DEFAULT_LISTEN)]
    listen: SocketAddr,
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

/// What happens when the server is stopped.
#[derive(Debug, Default, clap::Args)]
struct Drain {
    /// When stopped, go back to this data version first (a number or a name), for the former release to take over
    #[arg(long, value_name = "V", value_parser = resolve_known_version)]
    rollback_on_drain_to_version: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Bbs {
    /// The configuration file, in TOML (`corkboard config example` prints one), or that of Diego's own BBS
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Where the records are kept, under a file of Diego's; wins over its key corkboard_store
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    #[command(flatten)]
    drain: Drain,
}

/// Starts a server and tells on stdout where it is and what to try. `program` is how this binary was called.
pub(crate) async fn up(args: Up, program: &str, bbs_url: Option<&str>) -> Result<(), Failure> {
    let is_default_dir = args.dir.is_none();
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIR));
    let config = args.config().map_err(|problems| Failure::Usage(problems.to_string()))?;
    if is_default_dir {
        // The store creates its own directory but none above it: a disk that is not mounted must not be mistaken for an
        // empty one. Our own default is no disk.
        let parent = Path::new(DEFAULT_DIR).parent().unwrap_or(Path::new(""));
        std::fs::create_dir_all(parent)
            .map_err(|source| Failure::Process { doing: "creating the directory `data` here", source })?;
    }
    run(config, None, |ready| {
        // Whoever closed our stdout does not want to know; the server runs all the same.
        let _ = write!(io::stdout(), "{}", welcome::text(program, bbs_url, ready, &dir));
    })
    .await
}

impl Bbs {
    /// Before anything else, since it says how the log shall look.
    pub(crate) fn file(&self) -> Result<config::File, Failure> {
        Ok(config::File::read(&self.config)?)
    }
}

pub(crate) async fn serve(args: Bbs, file: config::File) -> Result<(), Failure> {
    if !file.is_diego() {
        return serve_file(args, file).await;
    }
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "starting under a configuration file of Diego's");
    let outcome = serve_file(args, file).await;
    match &outcome {
        Ok(()) => tracing::info!("the server has stopped"),
        Err(failure @ Failure::Config(_)) => tracing::error!(error = %failure, "the configuration cannot be used"),
        Err(failure) => tracing::error!(error = failure.report().trim_end(), "the server ended with an error"),
    }
    outcome
}

async fn serve_file(args: Bbs, file: config::File) -> Result<(), Failure> {
    let config::Settings { mut config, account, serve_locket } = file.check(args.store.as_deref())?;
    // It may hold keys, and nobody needs it any more.
    drop(file);
    config.rollback_on_drain_to = args.drain.rollback_on_drain_to_version.or(config.rollback_on_drain_to);
    let Some(account) = account else {
        return run(config, serve_locket, |ready| {
            let _ = writeln!(io::stdout(), "The API listens on {}, health on {}.", ready.api, ready.health);
        })
        .await;
    };
    tell(&account, &config);
    run(config, serve_locket, |ready| {
        let (api, health) = (ready.api, ready.health);
        let (records, quarantined) = (ready.records, ready.quarantined);
        tracing::info!(%api, %health, records, quarantined, "the server is ready");
    })
    .await
}

/// Each reason with its keys, in few words: Diego's logs may be set to cut long texts.
fn by_reason(ignored: &[(&str, &str)]) -> String {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, why) in ignored {
        reasons.entry(why).or_default().push(key);
    }
    let listed: Vec<String> = reasons.iter().map(|(why, keys)| format!("{why}: {}", keys.join(", "))).collect();
    listed.join("; ")
}

/// What an operator of Diego would otherwise find out later.
fn tell(account: &Account, config: &Config) {
    tracing::info!(
        asked_for = account.database,
        used = %config.store,
        "the SQL database is not touched; records are kept in a directory of this machine"
    );
    if !account.ignored.is_empty() {
        tracing::info!(keys = by_reason(&account.ignored), "some keys of the configuration mean nothing here");
    }
    if !account.unknown.is_empty() {
        tracing::info!(keys = account.unknown.join(", "), "some keys of the configuration are unknown");
    }
    for remark in &account.remarks {
        tracing::warn!("{remark}");
    }
}

impl Up {
    /// Through the same door as a file, so that the same rules hold.
    fn config(self) -> Result<Config, Problems> {
        let value = |value: Value| Some(Spanned::new(0..0, value));
        let text = |text: String| value(Value::String(text));
        let dir = self.dir.unwrap_or_else(|| PathBuf::from(DEFAULT_DIR));
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

async fn run(
    config: Config,
    serve_locket: Option<SocketAddr>,
    announce: impl FnOnce(&bbs::Ready) + Send,
) -> Result<(), Failure> {
    refuse_huge_pages();
    let stop = stop_signal().map_err(|source| Failure::Process { doing: "listening for signals", source })?;
    let ran = match serve_locket {
        Some(listen) => Box::pin(locket::beside(listen, config, stop, announce)).await,
        None => Box::pin(bbs::run(config, stop, |ready| announce(&ready))).await,
    };
    ran.map_err(Failure::Server)
}

/// The board is millions of small records. A huge page is cleared whole when its first byte is touched, which made loading
/// 450,000 records take nearly twice as long; nothing else that we measured gained from them.
fn refuse_huge_pages() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages stay as the system has them");
    }
}

/// Completes at the first signal, and from then on watches for the second.
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (first, stop) = oneshot::channel();
    tokio::spawn(async move {
        let kind = either(&mut terminate, &mut interrupt).await;
        tracing::info!(signal = kind.as_raw_value(), "stopping; a second signal ends the process at once");
        // The server may have ended by itself in the meantime.
        let _ = first.send(());
        let kind = either(&mut terminate, &mut interrupt).await;
        tracing::warn!(signal = kind.as_raw_value(), "second signal: ending at once, requests in flight are cut off");
        std::process::exit(EXIT_SIGNALLED + kind.as_raw_value());
    });
    Ok(async move {
        if stop.await.is_err() {
            // The watcher is gone without a signal, which happens only when the runtime shuts down.
            std::future::pending::<()>().await;
        }
    })
}

/// Counts signals. The third ends the process at once: whoever counts has its own use for the second.
pub(crate) fn stop_signals() -> io::Result<watch::Receiver<u32>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (heard, signals) = watch::channel(0);
    tokio::spawn(async move {
        for count in 1.. {
            let kind = either(&mut terminate, &mut interrupt).await;
            tracing::info!(signal = kind.as_raw_value(), count, "a signal to stop");
            if count > 2 {
                std::process::exit(EXIT_SIGNALLED + kind.as_raw_value());
            }
            heard.send_replace(count);
        }
    });
    Ok(signals)
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) -> SignalKind {
    tokio::select! {
        _ = terminate.recv() => SignalKind::terminate(),
        _ = interrupt.recv() => SignalKind::interrupt(),
    }
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
    fn the_two_ports_differ() {
        expect!["health: 127.0.0.1:1 is also the address of `listen`; expected another port"]
            .assert_eq(&up("127.0.0.1:1", "127.0.0.1:1").unwrap_err().to_string());
    }
}
