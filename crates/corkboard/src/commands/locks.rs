//! `locks`, `presences`, `claim-lock`, `claim-presence`, `release-lock`: what stands in Locket.
//!
//! Flags, variables, output and exit codes are `cfdot`'s. These commands talk to Locket and never to the state server, so they
//! have an address of their own; the certificates are those of every other command.

use std::time::Duration;

use api::locket::{Client, Kind, LocketError, Options, Resource};
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::failure::Failure;
use crate::output::{FormatFlags, Output, Tabular};
use crate::reach::{ReachError, ReachFlags, TlsFlags, given};

pub(crate) const LOCKS_HELP: &str = "Examples:\n  corkboard locks --locketAPILocation locket.service.cf.internal:8891\n  \
    corkboard locks --json | jq -r .owner\n\n\
    Exit codes of the five commands about Locket: 0 success, 3 wrong use, 4 an error from Locket, or no answer.";
pub(crate) const PRESENCES_HELP: &str = "Examples:\n  corkboard presences\n  \
    corkboard presences --json | jq -r '.value | fromjson | .zone'";
pub(crate) const CLAIM_LOCK_HELP: &str = "Examples:\n  corkboard claim-lock -k deployment -o anna -t 600\n\n\
    The lock ends by itself after that time. The same owner may claim it again, and it lasts as long once more.";
pub(crate) const CLAIM_PRESENCE_HELP: &str = "Examples:\n  corkboard claim-presence -k cell-9 -o anna -t 60 -v '{\"cell_id\":\"cell-9\"}'\n\n\
    The state server takes every presence for a cell, and offers it work if its value says where it is.";
pub(crate) const RELEASE_LOCK_HELP: &str = "Examples:\n  corkboard release-lock -k deployment -o anna\n\n\
    What nobody holds is given back already. The owner must be the one that `corkboard locks` shows.";

/// What Diego's client waits for a connection.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// For Locket's log.
const CALL_ID: &str = "corkboard";

/// A command that talks to Locket.
#[derive(Debug, clap::Args)]
pub(crate) struct OfLocket<A: clap::Args> {
    #[command(flatten)]
    args: A,
    #[command(flatten)]
    reach: LocketFlags,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The Locket to talk to")]
struct LocketFlags {
    /// Host and port of Locket; of several on one store, give all, with commas between them [env: LOCKET_API_LOCATION]
    #[arg(long = "locketAPILocation", alias = "locket-api-location", value_name = "HOST:PORT")]
    location: Option<String>,
    #[command(flatten)]
    tls: TlsFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    format: FormatFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Claim {
    #[command(flatten)]
    whose: Whose,
    /// What is stored with the key
    #[arg(short, long, default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    value: String,
    /// After how many seconds it ends
    #[arg(
        short,
        long,
        value_name = "SECONDS",
        default_value = "0",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    ttl: i64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Release {
    #[command(flatten)]
    whose: Whose,
}

#[derive(Debug, clap::Args)]
struct Whose {
    /// The key
    #[arg(short, long, default_value = "", hide_default_value = true)]
    key: String,
    /// Who holds it
    #[arg(short, long, default_value = "", hide_default_value = true)]
    owner: String,
}

impl<A: clap::Args> OfLocket<A> {
    /// Makes the client and lets the command work with it. `env` looks up a variable of the environment.
    pub(crate) fn run(
        self,
        outer: ReachFlags,
        env: impl Fn(&str) -> Option<String>,
        runtime: &Runtime,
        work: impl AsyncFnOnce(Client, A) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let address = given(self.reach.location, "LOCKET_API_LOCATION", &env).ok_or(ReachError::NoLocket)?;
        let tls = self.reach.tls.or(outer.tls()).given(&env)?.files()?;
        runtime.block_on(async {
            let client = Client::new(&Options { address, tls, keepalive: None }).map_err(ReachError::from)?;
            work(client, self.args).await
        })
    }
}

pub(crate) async fn locks(client: Client, args: List) -> Result<(), Failure> {
    let all = client.fetch_all(Kind::Lock, CALL_LIMIT).await.map_err(|error| failed(&error))?;
    print(&all.into_iter().map(|held| Lock(Shown::from(held))).collect::<Vec<_>>(), args.format)
}

pub(crate) async fn presences(client: Client, args: List) -> Result<(), Failure> {
    let all = client.fetch_all(Kind::Presence, CALL_LIMIT).await.map_err(|error| failed(&error))?;
    print(&all.into_iter().map(|held| Presence(Shown::from(held))).collect::<Vec<_>>(), args.format)
}

pub(crate) async fn claim_lock(client: Client, args: Claim) -> Result<(), Failure> {
    claim(&client, args, Kind::Lock).await
}

pub(crate) async fn claim_presence(client: Client, args: Claim) -> Result<(), Failure> {
    claim(&client, args, Kind::Presence).await
}

pub(crate) async fn release_lock(client: Client, args: Release) -> Result<(), Failure> {
    let Whose { key, owner } = args.whose.checked()?;
    let resource = Resource { key, owner, value: String::new(), kind: Kind::Lock };
    match client.release(&resource, CALL_LIMIT).await {
        Ok(()) => Ok(()),
        Err(error) => Err(explained(&client, &resource.key, error).await),
    }
}

async fn claim(client: &Client, args: Claim, kind: Kind) -> Result<(), Failure> {
    let Whose { key, owner } = args.whose.checked()?;
    let ttl_s = u64::try_from(args.ttl).unwrap_or_default();
    if ttl_s == 0 {
        return Err(Failure::Usage("ttl should be an integer greater than zero (--ttl, in seconds)".to_owned()));
    }
    let resource = Resource { key, owner, value: args.value, kind };
    match client.lock(&resource, Duration::from_secs(ttl_s), CALL_ID, CALL_LIMIT).await {
        Ok(()) => Ok(()),
        Err(error) => Err(explained(client, &resource.key, error).await),
    }
}

impl Whose {
    fn checked(self) -> Result<Self, Failure> {
        for (name, text) in [("key", &self.key), ("owner", &self.owner)] {
            if text.is_empty() {
                return Err(Failure::Usage(format!("{name} cannot be empty (--{name})")));
            }
        }
        Ok(self)
    }
}

fn failed(error: &LocketError) -> Failure {
    let advice = match error {
        LocketError::Unreachable { .. } => {
            "\nIs Locket running there, and do both sides trust each other's certificates? The address is from \
             --locketAPILocation or LOCKET_API_LOCATION."
        }
        _ => "",
    };
    Failure::Locket(format!("{error}{advice}"))
}

/// Locket does not say who has it, and whoever is refused wants to know.
async fn explained(client: &Client, key: &str, error: LocketError) -> Failure {
    let LocketError::Collision { doing } = error else { return failed(&error) };
    let owner = client.fetch(key, CALL_LIMIT).await.map(|held| held.owner);
    let whose = owner.map_or_else(|_| "somebody else".to_owned(), |owner| format!("{owner:?}"));
    Failure::Locket(format!("{doing}: it belongs to {whose} (lock-collision). Nothing was changed"))
}

fn print<T: Serialize + Tabular>(all: &[T], format: FormatFlags) -> Result<(), Failure> {
    match Output::stdout(format).list(all) {
        Ok(()) => Ok(()),
        Err(source) => Failure::of_output(source).map_or(Ok(()), Err),
    }
}

/// As Diego's tool writes it, which leaves out what is empty.
#[derive(Serialize)]
struct Shown {
    #[serde(skip_serializing_if = "String::is_empty")]
    key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    owner: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    value: String,
    r#type: &'static str,
    type_code: i32,
}

impl From<Resource> for Shown {
    fn from(Resource { key, owner, value, kind }: Resource) -> Self {
        Self { key, owner, value, r#type: kind.name(), type_code: kind.code().into() }
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Lock(Shown);

impl Tabular for Lock {
    const PLURAL: &'static str = "locks";
    const COLUMNS: &'static [&'static str] = &["KEY", "OWNER", "VALUE"];

    fn row(&self) -> Vec<String> {
        vec![self.0.key.clone(), self.0.owner.clone(), self.0.value.clone()]
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Presence(Shown);

impl Tabular for Presence {
    const PLURAL: &'static str = "presences";
    const COLUMNS: &'static [&'static str] = &["KEY", "OWNER", "ZONE", "ADDRESS"];

    /// What is not the value of a cell has neither zone nor address, and the state server passes it over.
    fn row(&self) -> Vec<String> {
        let cell: Option<api::models::CellPresence> = serde_json::from_str(&self.0.value).ok();
        let (zone, address) = cell.map_or_else(Default::default, |cell| {
            (cell.zone, if cell.rep_url.is_empty() { cell.rep_address } else { cell.rep_url })
        });
        vec![self.0.key.clone(), self.0.owner.clone(), zone, address]
    }
}
