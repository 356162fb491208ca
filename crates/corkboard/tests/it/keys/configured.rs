//! The table `[encryption]` in a file: what is right with it, and the exact words for everything that is wrong.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use expect_test::{Expect, expect};

use crate::program::{finish, program};

const STORE: &str = "[store]\ndir = \"board\"\n";
/// What no message may show.
const KEY: &str = "hunter2-hunter2-hunter2";

fn put(path: &Path, bytes: &[u8], mode: u32) {
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn checked(tables: &str, mode: u32) -> (i32, String) {
    checked_whole(&format!("{STORE}{tables}"), mode)
}

/// Checks a file with this text, in a folder that holds keys of several kinds; from elsewhere, so that paths are shown as
/// they are taken.
fn checked_whole(text: &str, mode: u32) -> (i32, String) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("keys")).unwrap();
    let long = vec![b'x'; 1_025];
    let most = [vec![b'y'; 1_024], b"\r\n".to_vec()].concat();
    for (name, bytes, mode) in [
        ("A", format!("{KEY}\n").as_bytes(), 0o600),
        ("crlf", format!("{KEY}\r\n").as_bytes(), 0o400),
        ("bare", KEY.as_bytes(), 0o600),
        ("two", format!("{KEY}\n\n").as_bytes(), 0o600),
        ("empty", b"", 0o600),
        ("newline", b"\n", 0o600),
        ("long", &long, 0o600),
        ("most", &most, 0o600),
        ("group", b"another-key-of-some-length", 0o640),
        ("others", b"another-key-of-some-length", 0o604),
    ] {
        put(&dir.path().join("keys").join(name), bytes, mode);
    }
    let file = dir.path().join("board.toml");
    put(&file, text.as_bytes(), mode);
    let mut command = program(&["config", "check"]);
    let outcome = finish(command.arg(&file).env("KEY_IN_ENV", "a-key-in-the-environment"));
    let text = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(!text.contains("hunter2"), "{text}");
    (outcome.code, text.replace(dir.path().to_str().unwrap(), "DIR"))
}

fn wrong(tables: &str, expected: &Expect) {
    wrong_in(tables, 0o600, expected);
}

fn wrong_in(tables: &str, mode: u32, expected: &Expect) {
    let (code, text) = checked(tables, mode);
    assert_eq!(code, 3, "{text}");
    expected.assert_eq(&text);
}

#[test]
fn names() {
    wrong(
        "[encryption]\nactive = \"a b\"\n[encryption.keys]\nA = { file = \"keys/A\" }\n",
        &expect![[r#"
        DIR/board.toml:4: encryption.active: "a b" is not a name for a key; expected 1 to 127 ASCII letters or digits
        1 problem; nothing was started
    "#]],
    );
    wrong(
        "[encryption]\nactive = \"A\"\n[encryption.keys]\nA = \"a-long-enough-key\"\na-b = \"x\"\n",
        &expect![[r#"
            DIR/board.toml:7: encryption.keys.a-b: "a-b" is not a name for a key; expected 1 to 127 ASCII letters or digits
            1 problem; nothing was started
        "#]],
    );
    wrong(
        "[encryption]\nactive = 7\n[encryption.keys]\nA = { file = \"keys/A\" }\n",
        &expect![[r#"
        DIR/board.toml:4: encryption.active: is an integer; expected text in quotes
        1 problem; nothing was started
    "#]],
    );
    let long = "x".repeat(128);
    let (code, text) =
        checked(&format!("[encryption]\nactive = \"{long}\"\n[encryption.keys]\n{long} = \"y\"\n"), 0o600);
    assert_eq!((code, text.matches("expected 1 to 127 ASCII letters or digits").count()), (3, 2), "{text}");
}

#[test]
fn the_active_key_is_one_of_them() {
    wrong(
        "[encryption]\nactive = \"B\"\n[encryption.keys]\nA = { file = \"keys/A\" }\n",
        &expect![[r#"
        DIR/board.toml:4: encryption.active: "B" is not among the keys; expected one of A
        1 problem; nothing was started
    "#]],
    );
    wrong(
        "[encryption]\nactive = \"a\"\n[encryption.keys]\nA = { file = \"keys/A\" }\n",
        &expect![[r#"
        DIR/board.toml:4: encryption.active: "a" is not among the keys; expected one of A
        1 problem; nothing was started
    "#]],
    );
    wrong(
        "[encryption.keys]\nA = { file = \"keys/A\" }\n",
        &expect![[r#"
        DIR/board.toml: encryption.active: is missing; expected the name of the key that seals what is written
        1 problem; nothing was started
    "#]],
    );
    wrong(
        "[encryption]\nactive = \"A\"\n",
        &expect![[r#"
        DIR/board.toml: encryption.keys: is missing or empty; expected at least one key, such as A = { file = "keys/A" }
        1 problem; nothing was started
    "#]],
    );
    wrong(
        "[encryption]\nactive = \"A\"\n[encryption.keys]\n",
        &expect![[r#"
        DIR/board.toml: encryption.keys: is missing or empty; expected at least one key, such as A = { file = "keys/A" }
        1 problem; nothing was started
    "#]],
    );
    wrong(
        "[encryption]\n",
        &expect![[r#"
        DIR/board.toml: encryption.active: is missing; expected the name of the key that seals what is written
        DIR/board.toml: encryption.keys: is missing or empty; expected at least one key, such as A = { file = "keys/A" }
        2 problems; nothing was started
    "#]],
    );
}

#[test]
fn bytes_of_a_key() {
    let of = |value: &str| format!("[encryption]\nactive = \"A\"\n[encryption.keys]\nA = {value}\n");
    wrong(
        &of("\"\""),
        &expect![[r#"
        DIR/board.toml:6: encryption.keys.A: key A is empty; expected 1 to 1024 bytes, such as `corkboard keys generate` makes
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("{ file = \"keys/empty\" }"),
        &expect![[r#"
        DIR/board.toml:6: encryption.keys.A: key A is empty; expected 1 to 1024 bytes, such as `corkboard keys generate` makes
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("{ file = \"keys/newline\" }"),
        &expect![[r#"
        DIR/board.toml:6: encryption.keys.A: key A is empty; expected 1 to 1024 bytes, such as `corkboard keys generate` makes
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("{ file = \"keys/long\" }"),
        &expect![[r#"
        DIR/board.toml:6: encryption.keys.A: key A has 1025 bytes, and at most 1024 are allowed; is it the right file?
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("{ file = \"keys/nowhere\" }"),
        &expect![[r#"
        DIR/board.toml:6: encryption.keys.A: cannot read DIR/keys/nowhere: No such file or directory (os error 2)
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("{ file = \"keys\" }"),
        &expect![[r#"
        DIR/board.toml:6: encryption.keys.A: DIR/keys is not a file
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("{ file = \"keys/group\" }"),
        &expect![[r#"
        DIR/board.toml:6: encryption.keys.A: others may use DIR/keys/group (its permissions are 640), and whoever reads a key reads everything that it seals; give it to its owner alone with `chmod 600 DIR/keys/group`
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("{ file = \"keys/others\" }"),
        &expect![[r#"
        DIR/board.toml:6: encryption.keys.A: others may use DIR/keys/others (its permissions are 604), and whoever reads a key reads everything that it seals; give it to its owner alone with `chmod 600 DIR/keys/others`
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("{ env = \"NO_SUCH_KEY\" }"),
        &expect![[r#"
        DIR/board.toml:6: encryption.keys.A: the variable NO_SUCH_KEY is not set in the environment of this process
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("{ file = \"\" }"),
        &expect![[r#"
        DIR/board.toml:6: encryption.keys.A: is empty; leave the key out, or give it a value
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("{ path = \"keys/A\" }"),
        &expect![[r#"
        DIR/board.toml:6: encryption.keys.A: is not where a key can be; expected the key itself in quotes, { file = "…" } or { env = "…" }
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("{ file = \"keys/A\", env = \"KEY_IN_ENV\" }"),
        &expect![[r#"
        DIR/board.toml:6: encryption.keys.A: is not where a key can be; expected the key itself in quotes, { file = "…" } or { env = "…" }
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("7"),
        &expect![[r#"
        DIR/board.toml:6: encryption.keys.A: is of type integer; expected the key itself in quotes, { file = "…" } or { env = "…" }
        1 problem; nothing was started
    "#]],
    );
    wrong_in(
        &of(&format!("\"{KEY}\"")),
        0o644,
        &expect![[r#"
            DIR/board.toml:6: encryption.keys.A: others may use DIR/board.toml (its permissions are 644), and whoever reads a key reads everything that it seals; give it to its owner alone with `chmod 600 DIR/board.toml`
            1 problem; nothing was started
        "#]],
    );
}

#[test]
fn one_key_is_there_once() {
    let of =
        |keys: &str| format!("[encryption]\nactive = \"A\"\n[encryption.keys]\nA = {{ file = \"keys/A\" }}\n{keys}\n");
    wrong(
        &of("A = { file = \"keys/group\" }"),
        &expect![[r#"
        DIR/board.toml:7: duplicate key
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of(&format!("B = \"{KEY}\"")),
        &expect![[r#"
        DIR/board.toml:7: encryption.keys.B: keys A and B are the same bytes under two names, so that going from one to the other would protect nothing; expected different ones
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("B = { file = \"keys/bare\" }"),
        &expect![[r#"
        DIR/board.toml:7: encryption.keys.B: keys A and B are the same bytes under two names, so that going from one to the other would protect nothing; expected different ones
        1 problem; nothing was started
    "#]],
    );
}

#[test]
fn the_rest_of_the_table() {
    let of =
        |more: &str| format!("[encryption]\nactive = \"A\"\n{more}\n[encryption.keys]\nA = {{ file = \"keys/A\" }}\n");
    wrong(
        &of("algorithm = \"rot13\""),
        &expect![[r#"
        DIR/board.toml:5: encryption.algorithm: is not a key; expected one of active, mode, records_per_s_max, keys
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("mode = \"read-only\""),
        &expect![[r#"
        DIR/board.toml:5: encryption.mode: "read-only" is not known; expected "online" or "offline"
        1 problem; nothing was started
    "#]],
    );
    wrong(
        &of("records_per_s_max = -1"),
        &expect![[r#"
        DIR/board.toml:5: encryption.records_per_s_max: -1 is negative; expected a whole number, or 0 for no limit
        1 problem; nothing was started
    "#]],
    );
}

/// Whoever puts a key where something else belongs must not find it in a log.
#[test]
fn a_key_in_the_wrong_place_is_not_repeated() {
    wrong(
        &format!("[encryption]\nactive = \"A\"\nkeys = \"{KEY}\"\n"),
        &expect![[r#"
        DIR/board.toml:5: invalid type: text, expected a table of keys by name
        1 problem; nothing was started
    "#]],
    );
    let (code, text) = checked_whole(&format!("encryption = \"{KEY}\"\n{STORE}"), 0o600);
    assert_eq!(code, 3);
    expect![[r#"
        DIR/board.toml:1: invalid type: text, expected a table
        1 problem; nothing was started
    "#]]
    .assert_eq(&text);
    let of = |value: &str| format!("[encryption]\nactive = \"A\"\n[encryption.keys]\nA = {value}\n");
    for value in [
        format!("[\"{KEY}\"]"),
        format!("{{ bytes = \"{KEY}\" }}"),
        format!("{{ file = [\"{KEY}\"] }}"),
        format!("\"{KEY}"),
        format!("\"{KEY}\\q\""),
        format!("'{KEY}\" #"),
        KEY.to_owned(),
        format!("\"{KEY}\" \"{KEY}\""),
    ] {
        let (code, text) = checked(&of(&value), 0o600);
        assert_eq!(code, 3, "{value}: {text}");
        assert!(text.contains("DIR/board.toml:6: "), "{value}: {text}");
    }
    let (code, text) = checked(&format!("[[encryption]]\nactive = \"{KEY}\"\n"), 0o600);
    assert_eq!(code, 3, "{text}");
}

#[test]
fn keys_from_everywhere() {
    let tables = format!(
        "[encryption]\nactive = \"B\"\nmode = \"offline\"\nrecords_per_s_max = 9\n[encryption.keys]\nA = {{ file = \"keys/A\" }}\n\
         B = {{ env = \"KEY_IN_ENV\" }}\nC = \"{KEY}-inline\"\nD = {{ file = \"keys/most\" }}\n"
    );
    let (code, text) = checked(&tables, 0o600);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("encryption  key B seals, A, B, C, D can be opened; rotation offline\n"), "{text}");
    // Without a key of its own a configuration is nobody's secret.
    let (code, text) = checked("[encryption]\nactive = \"A\"\n[encryption.keys]\nA = { file = \"keys/A\" }\n", 0o644);
    assert_eq!(code, 0, "{text}");
}

/// An editor adds one to the end of the file; whoever typed two of them meant them.
#[test]
fn one_line_ending_does_not_belong_to_a_key() {
    for (other, is_same) in [("crlf", true), ("bare", true), ("two", false)] {
        let tables = format!(
            "[encryption]\nactive = \"A\"\n[encryption.keys]\nA = {{ file = \"keys/A\" }}\nB = {{ file = \"keys/{other}\" }}\n"
        );
        let (code, text) = checked(&tables, 0o600);
        assert_eq!(
            (code, text.contains("are the same bytes")),
            (if is_same { 3 } else { 0 }, is_same),
            "{other}: {text}"
        );
    }
}

/// The tables of the example are comments; with their marks taken away they must still mean something.
#[test]
fn the_example_shows_tables_that_work() {
    let example = finish(&mut program(&["config", "example"])).stdout;
    let (_, tables) = example.split_once("# [encryption]\n").unwrap();
    let is_setting =
        |line: &str| line.starts_with('[') || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
    let lines = tables.lines().filter_map(|line| line.strip_prefix("# ")).filter(|line| is_setting(line));
    let tables = format!("[encryption]\n{}\n", lines.collect::<Vec<_>>().join("\n"));
    let (code, text) = checked(&tables.replace("CORKBOARD_KEY_B", "KEY_IN_ENV"), 0o600);
    assert_eq!(code, 0, "{tables}\n{text}");
    assert!(text.contains("encryption  key A seals, A, B, C can be opened; rotation online\n"), "{text}");
}
