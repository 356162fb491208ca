//! `rollout diff`: what is different between two definitions of an app, field by field.
//!
//! Values of environment variables, credentials, what is mounted, and the parts of addresses that often hold a signature are
//! hidden unless `--show-values` is given: it is said that they are different, and not how.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use api::client::Client;
use api::models::DesiredLrp;
use serde::Serialize;
use serde_json::Value;

use super::sight::{Named, number};
use super::steer::called;
use super::{in_words, refused};
use crate::commands::guid;
use crate::commands::logs::harmless::harmless;
use crate::console::{Console, JsonFlag};
use crate::failure::CommandError;

const HIDDEN: &str = "(hidden)";
/// What is not a part of a definition, though it stands in the same record.
const OF_THE_RECORD: &[&str] = &[
    "process_guid",
    "domain",
    "instances",
    "annotation",
    "modification_tag",
    "definition_identifier",
    "definition_number",
    "previous_definition_identifier",
    "previous_definition_number",
    "previous_routes",
    "rollout",
];
/// Below these everything is hidden.
const SECRETS: &[&str] = &["env", "image_username", "image_password", "mount_config", "volume_mounted_files"];

#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    /// The process guid of the app
    #[arg(value_name = "APP", value_parser = guid)]
    process_guid: String,
    /// The definition to come from [default: the previous one, or the latest former one]
    from: Option<String>,
    /// The definition to go to [default: the one in use]
    to: Option<String>,
    /// Show values that may be secret, such as those of environment variables
    #[arg(long)]
    show_values: bool,
    #[command(flatten)]
    pub(super) json: JsonFlag,
}

#[derive(Debug, Serialize)]
struct Difference {
    process_guid: String,
    from: Named,
    to: Named,
    changes: Vec<Change>,
}

/// Absent on one side means that the field is not there.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Change {
    field: String,
    from: Option<String>,
    to: Option<String>,
}

pub(super) async fn diff(client: &Client, args: Diff, console: &mut Console) -> Result<u8, CommandError> {
    let guid = args.process_guid;
    let kept = client.desired_lrp_definitions(&guid).await.map_err(|error| in_words(&guid, error))?;
    let to = find(&guid, &kept, args.to.as_deref(), 0)?;
    let from = find(&guid, &kept, args.from.as_deref(), 1)?;
    let difference = Difference {
        process_guid: guid,
        from: named(from),
        to: named(to),
        changes: changes(&fields(from), &fields(to), args.show_values),
    };
    if console.is_json() {
        console.line(&api::json::to_string(&difference))?;
    } else {
        console.write(text(&difference).as_bytes())?;
    }
    Ok(super::EXIT_DONE)
}

fn named(lrp: &DesiredLrp) -> Named {
    Named { number: number(lrp.definition_number), identifier: lrp.definition_identifier.clone() }
}

fn find<'a>(
    guid: &str,
    kept: &'a [DesiredLrp],
    word: Option<&str>,
    usual: usize,
) -> Result<&'a DesiredLrp, CommandError> {
    let found = match word {
        Some(word) => called(kept, word),
        None => kept.get(usual),
    };
    found.ok_or_else(|| {
        let names: Vec<String> = kept.iter().map(|lrp| named(lrp).shown()).collect();
        let wanted = word.map_or_else(|| "no former definition".to_owned(), |word| format!("no definition {word:?}"));
        let message = format!("{guid} has {wanted}. Kept are: {}", names.join(", "));
        refused::refused("no-such-definition", &message, Some(format!("corkboard rollout history {guid}")))
    })
}

fn text(difference: &Difference) -> String {
    let Difference { process_guid, from, to, changes } = difference;
    let mut text = format!("{process_guid}: from definition {} to {}\n", from.shown(), to.shown());
    if changes.is_empty() {
        text.push_str("\n  nothing is different\n");
        return text;
    }
    text.push('\n');
    let columns = changes.iter().map(|change| change.field.chars().count()).max().unwrap_or(0);
    for Change { field, from, to } in changes {
        let (sign, values) = match (from, to) {
            (None, Some(new)) => ('+', new.clone()),
            (Some(old), None) => ('-', old.clone()),
            (Some(old), Some(new)) if old == new => ('~', format!("{new}, and different")),
            (old, new) => {
                ('~', format!("{} -> {}", old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default()))
            }
        };
        let _ = writeln!(text, "  {sign} {field:<columns$}  {}", harmless(&values));
    }
    text
}

/// A field by its path, and whether its value may be shown.
type Fields = BTreeMap<String, (String, bool)>;

fn fields(lrp: &DesiredLrp) -> Fields {
    let record: Value = serde_json::from_str(&api::json::to_string(lrp)).unwrap_or(Value::Null);
    let mut fields = Fields::new();
    for (name, value) in record.as_object().into_iter().flatten() {
        if !OF_THE_RECORD.contains(&name.as_str()) {
            flatten(name, value, false, &mut fields);
        }
    }
    fields
}

/// Nothing stands for fields that say nothing: whether they are absent or empty is the same.
fn flatten(path: &str, value: &Value, is_secret: bool, into: &mut Fields) {
    let last = path.rsplit('.').next().unwrap_or(path);
    let is_secret = is_secret || SECRETS.contains(&last);
    match value {
        Value::Null | Value::Bool(false) => {}
        Value::Number(zero) if zero.as_f64() == Some(0.0) => {}
        Value::String(text) if text.is_empty() => {}
        Value::Object(members) => {
            for (name, value) in members {
                flatten(&format!("{path}.{name}"), value, is_secret, into);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (at, item) in items.iter().enumerate() {
                match (item.get("name").and_then(Value::as_str), item.get("value")) {
                    // An environment variable is known by its name, wherever it stands.
                    (Some(name), Some(value)) => {
                        into.insert(format!("{path}.{name}"), (scalar(value), is_secret));
                    }
                    _ => flatten(&format!("{path}[{at}]"), item, is_secret, into),
                }
            }
        }
        Value::Array(items) if items.is_empty() => {}
        value => {
            into.insert(path.to_owned(), (scalar(value), is_secret));
        }
    }
}

fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn changes(from: &Fields, to: &Fields, show_values: bool) -> Vec<Change> {
    let names: std::collections::BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    let shown = |field: Option<&(String, bool)>| {
        field.map(|(value, is_secret)| match (show_values, is_secret) {
            (true, _) => value.clone(),
            (false, true) => HIDDEN.to_owned(),
            (false, false) => without_signature(value),
        })
    };
    names
        .into_iter()
        .map(|name| (name, from.get(name), to.get(name)))
        .filter(|(_, old, new)| old != new)
        .map(|(name, old, new)| Change { field: name.clone(), from: shown(old), to: shown(new) })
        .collect()
}

/// An address without what gives access to what it names: its user and its query.
fn without_signature(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| !scheme.contains(char::is_whitespace))
    else {
        return text.to_owned();
    };
    let (place, query) = rest.split_once('?').map_or((rest, false), |(place, _)| (place, true));
    let (host, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let host = host.rsplit_once('@').map_or_else(|| host.to_owned(), |(_, host)| format!("{HIDDEN}@{host}"));
    format!("{scheme}://{host}{path}{}", if query { "?(hidden)" } else { "" })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn lrp(json: &str) -> DesiredLrp {
        api::json::from_str(json).unwrap()
    }

    fn check(from: &str, to: &str, show_values: bool, expected: &Expect) {
        let (from, to) = (lrp(from), lrp(to));
        let changes = changes(&fields(&from), &fields(&to), show_values);
        let difference = Difference { process_guid: "hello".into(), from: named(&from), to: named(&to), changes };
        expected.assert_eq(&text(&difference));
    }

    const OLD: &str = r#"{"process_guid":"hello","instances":2,"memory_mb":64,"env":[{"name":"A","value":"old"},{"name":"GONE","value":"x"},{"name":"SAME","value":"s"}],
        "image_password":"p1","ports":[8080],"action":{"run":{"path":"/bin/app","args":["a"],"user":"vcap","env":[{"name":"IN","value":"1"}]}},
        "cached_dependencies":[{"from":"https://u:p@blobs.example/a?sig=1","to":"/a"}]}"#;
    const NEW: &str = r#"{"process_guid":"hello","instances":9,"memory_mb":128,"env":[{"name":"SAME","value":"s"},{"name":"A","value":"new"},{"name":"MORE","value":"y"}],
        "image_password":"p2","ports":[8080,2222],"action":{"run":{"path":"/bin/app","args":["a","b"],"user":"vcap","env":[{"name":"IN","value":"2"}]}},
        "cached_dependencies":[{"from":"https://u:p@blobs.example/a?sig=2","to":"/a"}],"definition_identifier":"v2","definition_number":2}"#;

    #[test]
    fn secrets_are_said_to_be_different_and_not_shown() {
        check(
            OLD,
            NEW,
            false,
            &expect![[r#"
            hello: from definition 1 to 2 (v2)

              ~ action.run.args              ["a"] -> ["a","b"]
              ~ action.run.env.IN            (hidden), and different
              ~ cached_dependencies[0].from  https://(hidden)@blobs.example/a?(hidden), and different
              ~ env.A                        (hidden), and different
              - env.GONE                     (hidden)
              + env.MORE                     (hidden)
              ~ image_password               (hidden), and different
              ~ memory_mb                    64 -> 128
              ~ ports                        [8080] -> [8080,2222]
        "#]],
        );
        check(
            OLD,
            NEW,
            true,
            &expect![[r#"
            hello: from definition 1 to 2 (v2)

              ~ action.run.args              ["a"] -> ["a","b"]
              ~ action.run.env.IN            1 -> 2
              ~ cached_dependencies[0].from  https://u:p@blobs.example/a?sig=1 -> https://u:p@blobs.example/a?sig=2
              ~ env.A                        old -> new
              - env.GONE                     x
              + env.MORE                     y
              ~ image_password               p1 -> p2
              ~ memory_mb                    64 -> 128
              ~ ports                        [8080] -> [8080,2222]
        "#]],
        );
        check(
            OLD,
            OLD,
            false,
            &expect![[r#"
            hello: from definition 1 to 1

              nothing is different
        "#]],
        );
    }

    #[test]
    fn no_value_of_a_secret_gets_out() {
        let changes = changes(&fields(&lrp(OLD)), &fields(&lrp(NEW)), false);
        let all = api::json::to_string(&changes);
        for secret in ["old", "new", "p1", "p2", "sig=", "u:p", "\"x\"", "\"y\""] {
            assert!(!all.contains(secret), "{secret}: {all}");
        }
    }
}
