//! `clients`: who uses the API, which version it is of, which revision of which endpoint it calls, and when it last did; an
//! exit code for scripts that want to know whether anybody would be left behind.
//!
//! Only the master knows, because only it answers clients; its health port tells it too.

use std::fmt::Write as _;

use api::client::Question;
use bbs::census::{ClientList, Endpoint, ListedClient};
use bbs::clock::{Clock as _, SystemClock};

use super::migrate::{Document, EXIT_DONE, Errand, OPERATOR_ROOT, Place, Via, refuse_standby, time};
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;
use crate::output::{laid_out, table};

/// Somebody would not be served by the next major version.
const EXIT_LEFT_BEHIND: u8 = 7;
const NANOS_PER_S: f64 = 1e9;

#[derive(Debug, clap::Args)]
pub(crate) struct Clients {
    /// Only those that call a deprecated endpoint or would be left behind by the next major version
    #[arg(long)]
    deprecated: bool,
    /// Ask the health port of the master at this URL instead [env: CORKBOARD_HEALTH_URL]
    #[arg(long = "healthURL", alias = "health-url", value_name = "URL", conflicts_with = "bbs_url")]
    health_url: Option<String>,
    #[command(flatten)]
    json: JsonFlag,
}

impl Errand for Clients {
    fn json(&self) -> JsonFlag {
        self.json
    }

    fn place(&self) -> Place<'_> {
        Place::AnyNode(self.health_url.as_deref())
    }
}

pub(crate) async fn clients(via: &Via, args: Clients, console: &mut Console) -> Result<u8, CommandError> {
    let document = ask(via).await?;
    let mut list: ClientList = document.read()?;
    if args.deprecated {
        list.clients.retain_mut(|client| {
            client.endpoints.retain(|endpoint| endpoint.deprecated);
            client.left_behind.is_some() || !client.endpoints.is_empty()
        });
    }
    if console.is_json() {
        let document = if args.deprecated { Document::from(&list)? } else { document };
        console.line(&document.one_line())?;
    } else {
        console.write(screen(&list, SystemClock.now_ns(), args.deprecated).as_bytes())?;
    }
    Ok(if list.left_behind().next().is_some() { EXIT_LEFT_BEHIND } else { EXIT_DONE })
}

pub(super) async fn ask(via: &Via) -> Result<Document, CommandError> {
    match via {
        Via::Server(client) => {
            Document::of(&client.ask(&Question::get(&format!("{OPERATOR_ROOT}/clients"), &[])).await?)
        }
        Via::Health(client) => {
            let status = Document::of(&client.ask(&Question::get("/status", &[])).await?)?;
            refuse_standby(&status)?;
            status.part("clients")
        }
        Via::Store(_) => Err(CommandError::Unfinished("only a running server knows its clients".to_owned())),
    }
}

/// A sentence for each client that the next major version would not serve.
pub(super) fn left_behind(list: &ClientList) -> Vec<String> {
    list.left_behind()
        .map(|(client, why)| format!("{}{} would be left behind: {why}", client.shown(), from(client)))
        .collect()
}

fn from(client: &ListedClient) -> String {
    client.from.as_ref().map(|from| format!(" (last from {from})")).unwrap_or_default()
}

/// A row for each endpoint; what all rows of a client have in common stands in its first.
fn screen(list: &ClientList, now_ns: i64, only_deprecated: bool) -> String {
    let mut text = String::new();
    let watched = time(now_ns.saturating_sub(list.since_ns).max(0) as f64 / NANOS_PER_S);
    if list.clients.is_empty() {
        let whom = if only_deprecated { " who uses something deprecated or would be left behind" } else { "" };
        let _ = writeln!(text, "no clients: nobody{whom} was seen since this server became master, {watched} ago");
        return text;
    }
    let mut rows = table();
    rows.set_header(["CLIENT", "VERSION", "FROM", "ENDPOINT", "REVISION", "REQUESTS", "LAST SEEN", "NOTE"]);
    for client in &list.clients {
        rows.add_rows(client_rows(client, now_ns));
    }
    let _ = writeln!(text, "{}\n", laid_out(rows));
    for line in left_behind(list) {
        let _ = writeln!(text, "warning: {line}");
    }
    let server = &list.server_version;
    let _ = writeln!(
        text,
        "Seen by server {server} in the {watched} since it became master; it forgets at a change of masters."
    );
    text
}

fn client_rows(client: &ListedClient, now_ns: i64) -> Vec<[String; 8]> {
    let ago = |seen_ns: i64| format!("{} ago", time(now_ns.saturating_sub(seen_ns).max(0) as f64 / NANOS_PER_S));
    let version = client.version.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut heads = [client.name.clone(), version, client.from.clone().unwrap_or_default()];
    if client.endpoints.is_empty() {
        let [name, version, from] = heads;
        let note = match client.refused {
            0 => "the operator's part of the API only".to_owned(),
            times => format!("refused {times} times"),
        };
        return vec![[name, version, from, String::new(), String::new(), "0".into(), ago(client.last_seen_ns), note]];
    }
    let rows = client.endpoints.iter().map(|endpoint| {
        let [name, version, from] = std::mem::take(&mut heads);
        let requests = endpoint.requests.to_string();
        let revision = format!("r{}", endpoint.revision);
        [name, version, from, endpoint.path.clone(), revision, requests, ago(endpoint.last_seen_ns), note(endpoint)]
    });
    rows.collect()
}

fn note(endpoint: &Endpoint) -> String {
    let newer = endpoint.replaced_by.as_ref().map(|newer| format!(", use {newer}")).unwrap_or_default();
    let ends = endpoint.served_until.as_ref().map(|last| format!("; served until {last}")).unwrap_or_default();
    if endpoint.deprecated { format!("deprecated{newer}{ends}") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn endpoint(path: &str, revision: u32, replaced_by: Option<&str>) -> Endpoint {
        Endpoint {
            endpoint: path.to_uppercase(),
            path: path.into(),
            revision,
            deprecated: replaced_by.is_some(),
            replaced_by: replaced_by.map(Into::into),
            served_until: replaced_by.map(|_| "1.x".into()),
            requests: 12,
            last_seen_ns: 70 * SECOND,
        }
    }

    fn client(name: &str, version: Option<&str>, endpoints: Vec<Endpoint>) -> ListedClient {
        ListedClient {
            name: name.into(),
            version: version.map(Into::into),
            from: Some("10.0.0.7".into()),
            first_seen_ns: 0,
            last_seen_ns: 75 * SECOND,
            requests: 24,
            refused: 0,
            left_behind: None,
            endpoints,
        }
    }

    fn list(clients: Vec<ListedClient>) -> ClientList {
        ClientList { server_version: "1.0.0".into(), since_ns: 10 * SECOND, clients, clients_max: 1024 }
    }

    #[test]
    fn what_an_operator_sees() {
        let endpoints =
            vec![endpoint("/v1/tasks/list.r2", 2, Some("/v1/tasks/list.r3")), endpoint("/v1/domains/list", 0, None)];
        let mut old = client("old", Some("0.1.0"), vec![]);
        old.refused = 3;
        old.left_behind = Some("it is older than what this server serves".into());
        let list =
            list(vec![client("Go-http-client/1.1", None, endpoints), old, client("corkboard", Some("1.0.0"), vec![])]);
        expect![[r#"
            CLIENT              VERSION  FROM      ENDPOINT           REVISION  REQUESTS  LAST SEEN  NOTE
            Go-http-client/1.1  unknown  10.0.0.7  /v1/tasks/list.r2  r2        12        10 s ago   deprecated, use /v1/tasks/list.r3; served until 1.x
                                                   /v1/domains/list   r0        12        10 s ago
            old                 0.1.0    10.0.0.7                               0         5 s ago    refused 3 times
            corkboard           1.0.0    10.0.0.7                               0         5 s ago    the operator's part of the API only

            warning: old/0.1.0 (last from 10.0.0.7) would be left behind: it is older than what this server serves
            Seen by server 1.0.0 in the 1 min 10 s since it became master; it forgets at a change of masters.
        "#]].assert_eq(&screen(&list, 80 * SECOND, false));
    }

    #[test]
    fn nobody_is_said_in_words() {
        expect![[r#"
            no clients: nobody was seen since this server became master, 20 s ago
        "#]]
        .assert_eq(&screen(&list(vec![]), 30 * SECOND, false));
        expect![[r#"
            no clients: nobody who uses something deprecated or would be left behind was seen since this server became master, 20 s ago
        "#]].assert_eq(&screen(&list(vec![]), 30 * SECOND, true));
    }
}
