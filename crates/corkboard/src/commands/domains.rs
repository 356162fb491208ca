//! `domains`, `set-domain`.

use api::client::Client;
use serde::Serialize;

use crate::duration;
use crate::failure::CommandError;
use crate::output::{FormatFlags, Output, Tabular};

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) format: FormatFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    /// The domain, for instance cf-apps
    #[arg(value_parser = domain)]
    domain: String,
    /// For how long the domain is fresh, such as 120s or 5m; 0 is for ever
    #[arg(short, long, default_value = "0", value_name = "DURATION", allow_hyphen_values = true)]
    #[arg(value_parser = whole_seconds)]
    ttl: u32,
}

pub(crate) async fn list(client: &Client, _: List, out: &mut Output) -> Result<(), CommandError> {
    let domains: Vec<Domain> = client.domains().await?.into_iter().map(Domain).collect();
    Ok(out.list(&domains)?)
}

pub(crate) async fn set(client: &Client, args: Set, _: &mut Output) -> Result<(), CommandError> {
    Ok(client.upsert_domain(&args.domain, args.ttl).await?)
}

#[derive(Serialize)]
struct Domain(String);

impl Tabular for Domain {
    const PLURAL: &'static str = "fresh domains";
    const COLUMNS: &'static [&'static str] = &["DOMAIN"];

    fn row(&self) -> Vec<String> {
        vec![self.0.clone()]
    }
}

fn domain(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("a domain cannot be empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// The protocol counts seconds. `cfdot` cuts `500ms` to 0, which is for ever: the opposite of what was asked for.
fn whole_seconds(text: &str) -> Result<u32, String> {
    let ttl = duration::parse(text).map_err(|error| format!("{text:?} {error}"))?;
    match u32::try_from(ttl.as_secs()) {
        Ok(0) if !ttl.is_zero() => Err("is less than a second; expected a second or more, or 0 for ever".to_owned()),
        Ok(seconds) => Ok(seconds),
        Err(_) => Err("is more than 136 years; expected less, or 0 for ever".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_never_becomes_for_ever_by_rounding() {
        assert_eq!(whole_seconds("0"), Ok(0));
        assert_eq!(whole_seconds("90s"), Ok(90));
        assert_eq!(whole_seconds("1m1.9s"), Ok(61));
        assert!(whole_seconds("500ms").unwrap_err().contains("less than a second"));
        assert!(whole_seconds("-1s").unwrap_err().contains("negative"));
        assert!(whole_seconds("2000000h").unwrap_err().contains("136 years"));
    }
}
