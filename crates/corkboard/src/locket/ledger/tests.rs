//! What the next process knows of the locks of the former one.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use bbs::shelf::Shelf;
use expect_test::{Expect, expect};
use store::memory::Memory;
use tempfile::TempDir;

use super::*;
use crate::locket::OnStore;

const TTL_S: i64 = 15;

fn asked(key: &str, owner: &str, kind: Kind) -> Option<Asked> {
    let entry = Entry { owner: owner.to_owned(), value: format!("{key}'s value"), ttl_s: TTL_S };
    Some(Asked { type_code: kind.code().into(), ..entry.asked(key) })
}

struct World {
    dir: TempDir,
    keeper: Lasting<OnStore>,
}

impl World {
    async fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let keeper = Self::process(&dir).await;
        Self { dir, keeper }
    }

    /// A process that begins with what is on disk, and nothing else.
    async fn process(dir: &TempDir) -> Lasting<OnStore> {
        Lasting::open(OnStore(Shelf::new(Arc::new(Memory::new()))), dir.path().join("board.locks")).await
    }

    async fn restart(&mut self) {
        self.keeper = Self::process(&self.dir).await;
    }

    async fn lock(&self, key: &str, owner: &str, kind: Kind) -> String {
        self.keeper.lock(asked(key, owner, kind), TTL_S).await.map_or_else(|error| error.to_string(), |()| "ok".into())
    }

    /// What is held, as key and owner.
    async fn held(&self, kind: Kind) -> String {
        let all = self.keeper.fetch_all(kind.code().into()).await.unwrap();
        all.iter().map(|held| format!("{} of {}", held.key, held.owner)).collect::<Vec<_>>().join(", ")
    }

    fn written(&self, expected: &Expect) {
        expected.assert_eq(&fs::read_to_string(self.dir.path().join("board.locks")).unwrap());
    }
}

#[tokio::test]
async fn locks_outlive_the_process_and_presences_do_not() {
    let mut world = World::new().await;
    for (key, kind) in [("auctioneer", Kind::Lock), ("route_emitter", Kind::Lock), ("cell-1", Kind::Presence)] {
        assert_eq!(world.lock(key, "a", kind).await, "ok");
    }
    world.keeper.release(asked("route_emitter", "a", Kind::Lock)).await.unwrap();
    world.written(&expect![[r#"
        {
          "auctioneer": {
            "owner": "a",
            "value": "auctioneer's value",
            "ttl_s": 15
          }
        }"#]]);
    world.restart().await;
    assert_eq!(
        (world.held(Kind::Lock).await.as_str(), world.held(Kind::Presence).await.as_str()),
        ("auctioneer of a", "")
    );
    assert_eq!(world.lock("auctioneer", "b", Kind::Lock).await, "lock-collision");
    assert_eq!(world.lock("auctioneer", "a", Kind::Lock).await, "ok");
    assert_eq!(world.lock("route_emitter", "b", Kind::Lock).await, "ok");
    // A lock may become a presence, and then it is one.
    assert_eq!(world.lock("auctioneer", "a", Kind::Presence).await, "ok");
    world.restart().await;
    assert_eq!(world.held(Kind::Lock).await, "route_emitter of b");
}

#[tokio::test]
async fn what_has_expired_leaves_the_file() {
    let mut world = World::new().await;
    assert_eq!(world.lock("a", "me", Kind::Lock).await, "ok");
    let brief = world.keeper.lock(asked("b", "me", Kind::Lock), 1).await;
    assert_eq!(brief, Ok(()));
    while world.held(Kind::Lock).await != "a of me" {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.keeper.sweep().await;
    world.restart().await;
    assert_eq!(world.held(Kind::Lock).await, "a of me");
}

#[tokio::test]
async fn a_holder_that_repeats_itself_writes_nothing() {
    let world = World::new().await;
    assert_eq!(world.lock("a", "me", Kind::Lock).await, "ok");
    fs::remove_file(world.dir.path().join("board.locks")).unwrap();
    assert_eq!(world.lock("a", "me", Kind::Lock).await, "ok");
    assert_eq!(world.lock("a", "you", Kind::Lock).await, "lock-collision");
    assert!(!world.dir.path().join("board.locks").exists());
}

#[tokio::test]
async fn what_cannot_be_written_is_not_granted() {
    let world = World::new().await;
    assert_eq!(world.lock("mine", "me", Kind::Lock).await, "ok");
    // A folder in the way, since permissions mean nothing to a test that runs as root.
    let in_the_way = world.dir.path().join("board.locks.new");
    fs::create_dir(&in_the_way).unwrap();
    fs::set_permissions(&in_the_way, fs::Permissions::from_mode(0o700)).unwrap();
    let said = world.lock("a", "me", Kind::Lock).await.replace(world.dir.path().to_str().unwrap(), "DIR");
    expect!["unavailable: a lock cannot be written to DIR/board.locks: Is a directory (os error 21)"].assert_eq(&said);
    assert_eq!(world.held(Kind::Lock).await, "mine of me");
    assert_eq!(world.lock("mine", "me", Kind::Lock).await, "ok", "what was granted stays so");
    assert_eq!(world.lock("cell-1", "rep", Kind::Presence).await, "ok");
    fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(world.lock("a", "you", Kind::Lock).await, "ok");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_keeps_nobody_from_starting() {
    let mut world = World::new().await;
    fs::write(world.dir.path().join("board.locks"), "no locks at all").unwrap();
    world.restart().await;
    assert_eq!(world.held(Kind::Lock).await, "");
    assert_eq!(world.lock("a", "me", Kind::Lock).await, "ok");
    world.restart().await;
    assert_eq!(world.held(Kind::Lock).await, "a of me");
}
