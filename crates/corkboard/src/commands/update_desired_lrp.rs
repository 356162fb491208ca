//! `update-desired-lrp`: changes a desired LRP, and with a new definition brings its instances to it one after the other.
//!
//! Without a definition it is `cfdot`'s command and prints nothing.

use api::client::Client;
use api::models::{DesiredLrp, DesiredLrpUpdate};

use super::rollout::{EXIT_DONE, TermsFlags, follow};
use super::{guid, spec};
use crate::console::Console;
use crate::failure::CommandError;

pub(crate) const HELP: &str = "Examples:\n  corkboard update-desired-lrp hello '{\"instances\":3}'\n  \
    corkboard update-desired-lrp hello @update.json\n  \
    corkboard update-desired-lrp hello --definition lrp.json --identifier v2 --wait\n  \
    corkboard update-desired-lrp hello --definition lrp.json --identifier v3 --canaries 1\n\n\
    A new definition is a whole desired LRP; what it leaves out becomes empty. Its instances, routes and annotation do not count: \
    SPEC has them. In SPEC it is desired_lrp, with its name in update_identifier and its terms in rollout.\n\n\
    Exit codes with --wait, beside 3, 4 and 5: 0 every instance has the new definition, 11 it waits for somebody, 12 it failed and \
    is not taken back, 13 it was taken back.";

#[derive(Debug, clap::Args)]
pub(crate) struct Update {
    #[arg(value_parser = guid)]
    process_guid: String,
    /// What changes, as JSON, or @FILE: instances, routes, annotation, metric_tags, image_username, image_password, or
    /// desired_lrp with update_identifier
    #[arg(value_name = "SPEC|@FILE", required_unless_present = "definition")]
    spec: Option<String>,
    /// A file with a new definition: a desired LRP as JSON
    #[arg(long, value_name = "FILE", requires = "identifier")]
    definition: Option<String>,
    /// What the new definition is called
    #[arg(long, value_name = "NAME")]
    identifier: Option<String>,
    /// Follow the update until it ends or needs you
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    terms: TermsFlags,
}

pub(crate) async fn update(client: &Client, args: Update, console: &mut Console) -> Result<u8, CommandError> {
    let update = wanted(&args)?;
    let is_redefined = update.desired_lrp.is_some();
    client.update_desired_lrp(&args.process_guid, update).await?;
    let guid = args.process_guid;
    if args.wait {
        return follow(client, &guid, console).await.map(|sight| sight.exit_code());
    }
    if is_redefined && console.width().is_some() {
        console.note(&format!("`corkboard rollout status {guid} --watch` follows the update"))?;
    }
    Ok(EXIT_DONE)
}

fn wanted(args: &Update) -> Result<DesiredLrpUpdate, CommandError> {
    let mut update: DesiredLrpUpdate = match &args.spec {
        Some(text) => spec::read(text)?,
        None => DesiredLrpUpdate::default(),
    };
    if let Some(file) = &args.definition {
        if update.desired_lrp.is_some() {
            return Err(usage("there are two definitions, one in --definition and one in SPEC"));
        }
        let definition: DesiredLrp = spec::read(&format!("@{}", file.trim_start_matches('@')))?;
        update.desired_lrp = Some(definition);
    }
    match (&update.desired_lrp, &args.identifier, &update.update_identifier) {
        (Some(_), Some(name), Some(other)) if name != other => {
            return Err(usage("the definition has two names, one in --identifier and one in SPEC"));
        }
        (Some(_), Some(name), _) => update.update_identifier = Some(name.clone()),
        (Some(_), None, None) => {
            return Err(usage("a new definition needs a name of its own: --identifier, or update_identifier in SPEC"));
        }
        (None, Some(_), _) | (None, _, Some(_)) => {
            return Err(usage("there is a name for a definition, and no definition"));
        }
        _ => {}
    }
    if update.desired_lrp.is_none() && (args.wait || !args.terms.is_empty()) {
        return Err(usage(
            "there is no new definition, so that there is nothing to wait for and no instance to replace",
        ));
    }
    update.rollout = args.terms.over(update.rollout)?;
    Ok(update)
}

fn usage(what: &str) -> CommandError {
    CommandError::Usage(format!("{what}. Nothing was changed"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use expect_test::expect;

    use super::*;

    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        update: Update,
    }

    fn of(words: &[&str]) -> String {
        match Alone::try_parse_from([&["x", "hello"], words].concat()) {
            Ok(alone) => {
                wanted(&alone.update).map_or_else(|error| error.to_string(), |update| api::json::to_string(&update))
            }
            Err(error) => error.to_string().lines().take(2).collect::<Vec<_>>().join(" "),
        }
    }

    #[test]
    fn a_definition_comes_whole_and_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lrp.json");
        std::fs::write(&path, r#"{"memory_mb":7}"#).unwrap();
        let file = path.to_str().unwrap();
        let whole = of(&["--definition", file, "--identifier", "v2", "--in-flight", "3"]);
        assert_eq!(whole, of(&["--definition", &format!("@{file}"), "--identifier", "v2", "--in-flight", "3"]));
        assert!(whole.contains(r#""memory_mb":7"#) && whole.contains(r#""update_identifier":"v2""#), "{whole}");
        assert!(whole.ends_with(r#""rollout":{"in_flight":3}}"#), "{whole}");
        let both = of(&[r#"{"instances":3}"#, "--definition", file, "--identifier", "v2"]);
        assert!(both.starts_with(r#"{"instances":3,"#), "{both}");
        let lines = [
            of(&[]),
            of(&["--definition", file]),
            of(&[r#"{"desired_lrp":{}}"#]),
            of(&[r#"{"update_identifier":"v2"}"#]),
            of(&[r#"{"instances":3}"#, "--identifier", "v2"]),
            of(&[r#"{"desired_lrp":{}}"#, "--definition", file, "--identifier", "v2"]),
            of(&[r#"{"desired_lrp":{},"update_identifier":"a"}"#, "--identifier", "b"]),
            of(&[r#"{"instances":3}"#, "--wait"]),
            of(&[r#"{"instances":3}"#, "--in-flight", "3"]),
            of(&[r#"{"instances":3}"#]),
        ];
        expect![[r#"
            error: the following required arguments were not provided:   <SPEC|@FILE>
            error: the following required arguments were not provided:   --identifier <NAME>
            a new definition needs a name of its own: --identifier, or update_identifier in SPEC. Nothing was changed
            there is a name for a definition, and no definition. Nothing was changed
            there is a name for a definition, and no definition. Nothing was changed
            there are two definitions, one in --definition and one in SPEC. Nothing was changed
            the definition has two names, one in --identifier and one in SPEC. Nothing was changed
            there is no new definition, so that there is nothing to wait for and no instance to replace. Nothing was changed
            there is no new definition, so that there is nothing to wait for and no instance to replace. Nothing was changed
            {"instances":3}"#]].assert_eq(&lines.join("\n"));
    }
}
