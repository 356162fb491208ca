//! The tutorial `docs/how-to/add-a-data-version.md`, as code that is compiled and run.
//!
//! Promise: every code block of the document is the content of a file here or a part of a file of the store, and what the
//! document says happens to the keys of a store happens. The versions are toys in the shape of the real ones; the chain that
//! the store itself walks has no room for toys, so a migration is acted out below in its four moves.

#![expect(clippy::disallowed_names, reason = "the worked example is about records of these names")]

mod bar_becomes_quux;
mod first_things;
mod promises;

use std::fmt::Write as _;
use std::path::Path;

use bytes::Bytes;
use expect_test::expect_file;
use store::memory::Memory;
use store::root::{VersionRecord, put_version};
use store::{Mastership, Step, Store};

use self::bar_becomes_quux as after;
use self::first_things as before;

struct Toy {
    store: Memory,
    held: Mastership,
    story: String,
}

impl Toy {
    async fn with_things(guids: &[&str]) -> Toy {
        let store = Memory::new();
        let held = store.campaign("tutorial").await.unwrap();
        let mut toy = Toy { store, held, story: String::new() };
        let mut step = Step::default();
        put_version(&mut step, &VersionRecord::new(before::NUMBER, before::NUMBER));
        for guid in guids {
            let foo = before::records::Foo { guid: (*guid).into(), ..Default::default() };
            let bar = before::records::Bar { guid: (*guid).into(), count: 7, ..Default::default() };
            before::Entity { foo: foo.into(), bar: bar.into() }.write(&mut |key, value| step.put(key, value));
        }
        toy.commit(step, "before").await;
        toy
    }

    async fn records(&self, root: &str) -> Vec<(String, Bytes)> {
        self.store.scan(root, None, 100).await.unwrap().records
    }

    /// One move, and what the store holds then.
    async fn commit(&mut self, step: Step, name: &str) {
        self.store.commit(&self.held, &[step]).await.unwrap();
        let version = self.store.get("/version").await.unwrap().unwrap();
        let keys: Vec<String> = self.records("/v1").await.into_iter().map(|(key, _)| key).collect();
        let _ = writeln!(self.story, "{name}\n    /version {}", String::from_utf8_lossy(&version));
        keys.iter().for_each(|key| self.story.push_str(&format!("    {key}\n")));
    }
}

#[tokio::test]
async fn a_migration_in_four_moves() {
    let mut toy = Toy::with_things(&["a"]).await;
    let mut begin = Step::default();
    put_version(&mut begin, &VersionRecord::new(before::NUMBER, after::NUMBER));
    toy.commit(begin, "begin: the target is written down first").await;

    let (mut copy, mut loader) = (Step::default(), before::Loader::default());
    for (key, value) in toy.records(before::ROOT).await {
        if let Some(entity) = loader.feed(&key, &value) {
            after::up(entity).unwrap().write(&mut |key, value| copy.put(key, value));
        }
    }
    assert!(loader.finish().is_empty());
    toy.commit(copy, "copy: the older records stay as they are").await;

    let mut end = Step::default();
    put_version(&mut end, &VersionRecord::new(after::NUMBER, after::NUMBER));
    toy.commit(end, "end: one write, and the newer records are the current ones").await;

    let mut clean = Step::default();
    toy.records(before::ROOT).await.into_iter().for_each(|(key, _)| clean.delete(key));
    toy.commit(clean, "clean up: only now is anything deleted").await;
    expect_file!["tutorial/four_moves.txt"].assert_eq(&toy.story);
}

#[test]
fn the_newer_version_follows_the_older() {
    assert!(before::NUMBER < after::NUMBER);
    for (root, number, name, summary) in [
        (before::ROOT, before::NUMBER, before::NAME, before::SUMMARY),
        (after::ROOT, after::NUMBER, after::NAME, after::SUMMARY),
    ] {
        assert_eq!(root, format!("/v{number}/"));
        assert!(!name.is_empty() && summary.ends_with('.'), "{name}: {summary}");
    }
    let foo = before::records::Foo { guid: "a".into(), ..Default::default() };
    let old = before::Entity { foo: foo.into(), bar: before::records::Bar::default().into() };
    assert_eq!(old.label(), after::up(old).unwrap().label(), "messages name a thing as they did before");
}

/// Code blocks are marked in their first line: `file=` for a whole file, `part=` for lines of one.
#[test]
fn the_document_shows_this_very_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = std::fs::read_to_string(root.join("docs/how-to/add-a-data-version.md")).unwrap();
    let mut seen = 0;
    for block in document.split("\n```").skip(1).step_by(2) {
        let (first, code) = block.split_once('\n').unwrap();
        let Some((kind, path)) = first.split_whitespace().nth(1).and_then(|mark| mark.split_once('=')) else {
            assert!(!first.starts_with("rust"), "a block of code says where it is from: {code}");
            continue;
        };
        let file = std::fs::read_to_string(root.join(path)).unwrap();
        match kind {
            "file" => assert_eq!(code.trim_end(), file.trim_end(), "the document shows another {path}"),
            "part" => assert!(file.contains(code), "these lines are not in {path}:\n{code}"),
            other => panic!("{other} is no way to show code"),
        }
        seen += 1;
    }
    assert!(seen >= 6, "the document shows {seen} files");
}
