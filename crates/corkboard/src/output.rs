//! What commands print: JSON lines for programs, tables for people.
//!
//! Off a terminal the output is exactly `cfdot`'s, one JSON object a line. On a terminal a list is a table with the columns
//! that people look for first, and a single object is a table of its keys. Tables hide what is secret in a definition, since
//! terminals are looked at by several people; JSON hides nothing, since a copy must be complete.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, presets};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Keys whose values a table does not show.
const SECRET_KEYS: &[&str] = &["env", "image_password", "volume_mounted_files"];

#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct FormatFlags {
    /// Print JSON, one object a line, also on a terminal
    #[arg(long, conflicts_with = "table")]
    json: bool,
    /// Print a table, also into a file or a pipe
    #[arg(long)]
    table: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Table,
}

/// A row of a table. When you add a column, think of eighty characters.
pub(crate) trait Tabular {
    /// For "no cells".
    const PLURAL: &'static str;
    const COLUMNS: &'static [&'static str];

    fn row(&self) -> Vec<String>;
}

pub(crate) struct Output {
    to: Box<dyn Write>,
    format: Format,
}

impl Output {
    pub(crate) fn stdout(flags: FormatFlags) -> Self {
        let format = match flags {
            FormatFlags { json: true, .. } => Format::Json,
            FormatFlags { table: true, .. } => Format::Table,
            _ if io::stdout().is_terminal() => Format::Table,
            _ => Format::Json,
        };
        Self { to: Box::new(io::BufWriter::new(io::stdout())), format }
    }

    pub(crate) fn list<T: Serialize + Tabular>(&mut self, items: &[T]) -> io::Result<()> {
        match self.format {
            Format::Json => {
                for item in items {
                    writeln!(self.to, "{}", api::json::to_string(item))?;
                }
            }
            Format::Table if items.is_empty() => writeln!(self.to, "no {}", T::PLURAL)?,
            Format::Table => {
                let mut table = table();
                table.set_header(T::COLUMNS.iter().copied());
                table.add_rows(items.iter().map(Tabular::row));
                writeln!(self.to, "{}", laid_out(table))?;
            }
        }
        self.to.flush()
    }

    pub(crate) fn one<T: Serialize>(&mut self, item: &T) -> io::Result<()> {
        let json = api::json::to_string(item);
        match self.format {
            Format::Json => writeln!(self.to, "{json}")?,
            Format::Table => {
                let members: Members = serde_json::from_str(&json)?;
                let mut table = table();
                table.add_rows(members.0.iter().map(|(key, value)| [key.clone(), shown(key, value)]));
                writeln!(self.to, "{}", laid_out(table))?;
            }
        }
        self.to.flush()
    }

    /// One line of JSON in any format, visible at once: whoever follows events does not wait for a full buffer.
    pub(crate) fn event<T: Serialize>(&mut self, event: &T) -> io::Result<()> {
        writeln!(self.to, "{}", api::json::to_string(event))?;
        self.to.flush()
    }
}

pub(crate) fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// Columns two spaces apart and nothing around them, so that lines begin where the eye and `cut` expect it.
pub(crate) fn laid_out(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

fn shown(key: &str, value: &RawValue) -> String {
    let json = value.get();
    if SECRET_KEYS.contains(&key) && !matches!(json, "null" | "\"\"" | "[]") {
        return "(hidden; --json shows it)".to_owned();
    }
    match serde_json::from_str::<String>(json) {
        Ok(text) => text,
        Err(_) => json.to_owned(),
    }
}

/// The members of an object in the order in which they stand, which serde_json's own map does not keep.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use api::models::{EnvironmentVariable, Task, TaskDefinition};
    use expect_test::{Expect, expect};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn check(format: Format, print: impl FnOnce(&mut Output) -> io::Result<()>, expected: &Expect) {
        let sink = Sink::default();
        print(&mut Output { to: Box::new(sink.clone()), format }).unwrap();
        let bytes = sink.0.lock().unwrap().clone();
        expected.assert_eq(&String::from_utf8(bytes).unwrap());
    }

    #[derive(Serialize)]
    struct Pet {
        name: &'static str,
        legs: u8,
    }

    impl Tabular for Pet {
        const PLURAL: &'static str = "pets";
        const COLUMNS: &'static [&'static str] = &["NAME", "LEGS"];

        fn row(&self) -> Vec<String> {
            vec![self.name.to_owned(), self.legs.to_string()]
        }
    }

    const PETS: &[Pet] = &[Pet { name: "Bell & <Ada>", legs: 4 }, Pet { name: "Tweety", legs: 2 }];

    #[test]
    fn lists() {
        check(
            Format::Json,
            |out| out.list(PETS),
            &expect![[r#"
                {"name":"Bell \u0026 \u003cAda\u003e","legs":4}
                {"name":"Tweety","legs":2}
            "#]],
        );
        check(
            Format::Table,
            |out| out.list(PETS),
            &expect![[r#"
                 NAME          LEGS
                 Bell & <Ada>  4
                 Tweety        2
            "#]],
        );
        check(Format::Json, |out| out.list::<Pet>(&[]), &expect![""]);
        check(Format::Table, |out| out.list::<Pet>(&[]), &expect!["no pets\n"]);
    }

    #[test]
    fn a_table_keeps_the_order_of_keys_and_hides_secrets() {
        let secret = EnvironmentVariable { name: "TOKEN".into(), value: "s3cret".into() };
        let definition = TaskDefinition {
            image_password: "hunter2".into(),
            environment_variables: vec![secret],
            ..TaskDefinition::default()
        };
        let task = Task { task_guid: "t".into(), task_definition: Some(definition), ..Task::default() };
        check(
            Format::Table,
            |out| out.one(&task),
            &expect![[r#"
                 rootfs
                 env                   (hidden; --json shows it)
                 disk_mb               0
                 memory_mb             0
                 cpu_weight            0
                 privileged            false
                 log_source
                 log_guid
                 metrics_guid
                 result_file
                 max_pids              0
                 image_username
                 image_password        (hidden; --json shows it)
                 volume_mounted_files  null
                 task_guid             t
                 domain
                 created_at            0
                 updated_at            0
                 first_completed_at    0
                 state                 Invalid
                 cell_id
                 result
                 failed                false
                 failure_reason
                 rejection_count       0
                 rejection_reason
            "#]],
        );
    }

    #[test]
    fn events_are_json_in_any_format() {
        check(
            Format::Table,
            |out| out.event(&PETS[1]),
            &expect![[r#"
            {"name":"Tweety","legs":2}
        "#]],
        );
    }
}
