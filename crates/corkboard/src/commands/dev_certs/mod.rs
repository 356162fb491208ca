//! `dev-certs`: an authority and a certificate for each program of a cluster, for trying things and for tests.
//!
//! Promise: nothing that exists is replaced without `--force`, and nothing is written before everything can be; keys are for
//! their owner alone; what was made was checked against the authority's own certificate, now and for its last day. The key of
//! the authority is written where the authority is made and copied nowhere.
//!
//! It is no public key infrastructure: nothing is renewed by itself and nothing can be revoked.

mod expiry;
mod files;
mod issue;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bbs::clock::{Clock as _, SystemClock};
use serde_json::json;

use crate::commands::migrate::{EXIT_DONE, moment};
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;
use files::NewFile;
use issue::{Authority, IssueError};

pub(crate) const HELP: &str = "Examples:\n  corkboard dev-certs --out certs\n  \
    corkboard dev-certs --out certs --host 10.0.0.5 --host board.example.org\n  \
    corkboard dev-certs --out machine-2 --ca certs --host 10.0.0.6 --for cell-2 --for route-emitter\n\n\
    The third adds a machine: its certificates are of the same authority, and the authority's key stays where it is.\n\
    Exit codes: 0 made, 3 wrong use or a file is there already, 5 anything else; nothing was written with 3.";

/// The clocks of two machines differ a little.
const BACKDATED: Duration = Duration::from_secs(3600);
const DAY_S: u64 = 86_400;
const DAYS_MAX: u32 = 36_500;
/// An authority outlives what it signs: machines are added later.
const AUTHORITY_DAYS: u32 = 3_650;
/// Every certificate is good for the machine itself.
const THIS_MACHINE: &[&str] = &["localhost", "127.0.0.1", "::1"];

const AUTHORITY_CERT: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";

/// A program, and where its files go. When you add one: also in `docs/how-to/run-a-cluster.md`.
struct Program {
    name: &'static str,
    purpose: &'static str,
    place: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program { name: "bbs", purpose: "the state server", place: "board.toml: [tls], [auctioneer], [cells], [locket]" },
    Program { name: "locket", purpose: "locks and presences", place: "board.toml of corkboard locket: [tls]" },
    Program { name: "auctioneer", purpose: "placement", place: "auctioneer.toml: [tls]" },
    Program { name: "cell", purpose: "a cell", place: "cell.toml: [tls]" },
    Program { name: "route-emitter", purpose: "routes", place: "route-emitter.toml: [tls]" },
    Program { name: "router", purpose: "the HTTP router", place: "router.toml: [tls], [backends]" },
    Program { name: "etcd", purpose: "the store", place: "etcd --cert-file, --key-file; board.toml: [store]" },
    Program { name: "nats", purpose: "the message bus", place: "nats-server --tlscert, --tlskey" },
    Program { name: "operator", purpose: "commands", place: "CLIENT_CERT_FILE, CLIENT_KEY_FILE, CA_CERT_FILE" },
];

#[derive(Debug, clap::Args)]
pub(crate) struct DevCerts {
    /// The folder for the files; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// A name or an address of the machines, for all certificates; this machine itself is always one
    #[arg(long = "host", value_name = "NAME|IP", value_parser = host)]
    hosts: Vec<String>,
    /// Only for this program, or NAME-SOMETHING for one more of its kind, such as cell-2 [default: one for each]
    #[arg(long = "for", value_name = "PROGRAM", value_parser = program_name)]
    programs: Vec<String>,
    /// Use the authority in this folder, which an earlier dev-certs made, instead of a new one
    #[arg(long, value_name = "DIR")]
    ca: Option<PathBuf>,
    /// How long the certificates are valid; an authority is for ten years, or as long if that is longer
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=i64::from(DAYS_MAX)))]
    days: u32,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    json: JsonFlag,
}

pub(crate) fn dev_certs(args: &DevCerts) -> Result<u8, CommandError> {
    let mut console = Console::of_process(args.json);
    let programs = if args.programs.is_empty() {
        PROGRAMS.iter().map(|program| program.name.to_owned()).collect()
    } else {
        args.programs.clone()
    };
    let work = Work::of(args);
    let mut planned = Vec::new();
    let authority = match &args.ca {
        Some(dir) => {
            let (cert, key) = (dir.join(AUTHORITY_CERT), dir.join(AUTHORITY_KEY));
            let authority =
                Authority::of(&files::read(&cert)?, &files::read(&key)?).map_err(|error| unusable(dir, &error))?;
            if !files::is_same(dir, &args.out) {
                planned.push(NewFile::readable(args.out.join(AUTHORITY_CERT), authority.certificate.clone()));
            }
            authority
        }
        None => {
            let authority = Authority::new(work.from, work.authority_until).map_err(|error| failed(&error))?;
            planned.push(NewFile::readable(args.out.join(AUTHORITY_CERT), authority.certificate.clone()));
            planned.push(NewFile::secret(args.out.join(AUTHORITY_KEY), authority.key_pem()));
            authority
        }
    };
    for name in &programs {
        let pair = authority.pair(name, &work.hosts, work.from, work.until).map_err(|error| match &args.ca {
            Some(dir) => unusable(dir, &error),
            None => failed(&error),
        })?;
        planned.push(NewFile::readable(args.out.join(format!("{name}.crt")), pair.certificate));
        planned.push(NewFile::secret(args.out.join(format!("{name}.key")), pair.key));
    }
    files::write(&args.out, &planned, args.force)?;
    if console.is_json() {
        let paths: Vec<_> = planned.iter().map(|file| file.path.display().to_string()).collect();
        console.line(&json!({ "files": paths, "hosts": work.hosts, "until_s": work.until.as_secs() }).to_string())?;
    } else {
        console.write(account(args, &work, &programs).as_bytes())?;
    }
    Ok(EXIT_DONE)
}

/// When, and for whom.
struct Work {
    from: Duration,
    until: Duration,
    authority_until: Duration,
    hosts: Vec<String>,
}

impl Work {
    fn of(args: &DevCerts) -> Self {
        let now = Duration::from_nanos(u64::try_from(SystemClock.now_ns()).unwrap_or(0));
        let after = |days: u32| now + Duration::from_secs(u64::from(days) * DAY_S);
        let mut hosts: Vec<String> = THIS_MACHINE.iter().map(ToString::to_string).collect();
        for host in &args.hosts {
            if !hosts.contains(host) {
                hosts.push(host.clone());
            }
        }
        Self {
            from: now.saturating_sub(BACKDATED),
            until: after(args.days),
            authority_until: after(args.days.max(AUTHORITY_DAYS)),
            hosts,
        }
    }
}

/// What was made, and what to do with it.
fn account(args: &DevCerts, work: &Work, programs: &[String]) -> String {
    let dir = std::path::absolute(&args.out).unwrap_or_else(|_| args.out.clone());
    let mut text = String::new();
    let _ = match &args.ca {
        None => writeln!(
            text,
            "A new authority is in {}. Its key, {}, makes more certificates: give it to no program.",
            args.out.join(AUTHORITY_CERT).display(),
            args.out.join(AUTHORITY_KEY).display()
        ),
        Some(ca) => writeln!(text, "Signed by the authority in {}.", ca.display()),
    };
    let until = moment(i64::try_from(work.until.as_nanos()).unwrap_or(i64::MAX));
    let _ = writeln!(text, "Certificates, valid until {until} UTC for {}:\n", work.hosts.join(", "));
    let width = programs.iter().map(String::len).max().unwrap_or(0) * 2 + ".crt, .key".len();
    for name in programs {
        let files = format!("{name}.crt, {name}.key");
        let (purpose, place) = program(name).map_or(("", ""), |program| (program.purpose, program.place));
        let _ = writeln!(text, "  {files:<width$}  {purpose:<19}  {place}");
    }
    let first = programs.iter().find(|name| !name.starts_with("operator")).or(programs.first());
    if let Some(name) = first {
        let file = |name: &str| toml::Value::String(dir.join(name).to_string_lossy().into_owned());
        let _ = write!(
            text,
            "\nIn a configuration file, for {name}:\n\n  [tls]\n  ca = {}\n  cert = {}\n  key = {}\n",
            file(AUTHORITY_CERT),
            file(&format!("{name}.crt")),
            file(&format!("{name}.key"))
        );
    }
    if programs.iter().any(|name| name == "operator") {
        let file = |name: &str| dir.join(name).display().to_string();
        let _ = write!(
            text,
            "\nFor commands:\n\n  export CA_CERT_FILE={} CLIENT_CERT_FILE={} CLIENT_KEY_FILE={}\n",
            file(AUTHORITY_CERT),
            file("operator.crt"),
            file("operator.key")
        );
    }
    let ca = args.ca.as_ref().unwrap_or(&args.out);
    let _ = write!(
        text,
        "\nOne more machine: corkboard dev-certs --out OTHER --ca {} --host ITS-ADDRESS --for cell-2\n",
        ca.display()
    );
    text
}

/// A program by its name, or by that of one more of its kind. The longest name wins, so that `route-emitter-1` is no router.
fn program(name: &str) -> Option<&'static Program> {
    let is_of_kind = |program: &&Program| {
        name.strip_prefix(program.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    PROGRAMS.iter().filter(is_of_kind).max_by_key(|program| program.name.len())
}

fn program_name(text: &str) -> Result<String, String> {
    let is_file_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    if is_file_name && program(text).is_some() {
        return Ok(text.to_owned());
    }
    let known: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
    Err(format!("expected one of {}, or one of them with -SOMETHING after it", known.join(", ")))
}

/// A name or an address as a certificate has it: no scheme, no port.
fn host(text: &str) -> Result<String, String> {
    let is_name = rustls::pki_types::ServerName::try_from(text).is_ok()
        || text.strip_prefix("*.").is_some_and(|rest| rustls::pki_types::ServerName::try_from(rest).is_ok());
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("expected a name such as board.example.org, or an address such as 10.0.0.5, without scheme and port"
            .to_owned())
    }
}

fn unusable(dir: &Path, error: &IssueError) -> CommandError {
    CommandError::Unfinished(format!("the authority in {} cannot be used: {error}. Nothing was written", dir.display()))
}

fn failed(error: &IssueError) -> CommandError {
    CommandError::Unfinished(format!("{error}. Nothing was written"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_hosts_are_checked() {
        for good in ["cell", "cell-2", "route-emitter-1", "bbs-a.b"] {
            assert_eq!(program_name(good).as_deref(), Ok(good));
        }
        for bad in ["", "cells", "cell/2", "../cell", "ca", "cell-\n"] {
            assert!(program_name(bad).is_err(), "{bad:?}");
        }
        assert_eq!(program("route-emitter-1").unwrap().name, "route-emitter");
        for good in ["10.0.0.5", "::1", "a.example.org", "*.cell.service.cf.internal", "machine-2"] {
            assert_eq!(host(good).as_deref(), Ok(good));
        }
        for bad in ["", "https://a", "a:8889", "a b", "[::1]"] {
            assert!(host(bad).is_err(), "{bad:?}");
        }
    }
}
