//! Sealed records are what `docs/formats/storage.md` says they are.
//!
//! Promise: the bytes in `tests/vectors/frozen/sealed.json` never change, so a store that was sealed by any release is opened
//! by every later one. They are made here, by the code that seals records. `tests/vectors/seal.py` makes them too, from the
//! page alone and without a line of ours: it opens every vector, refuses the bad ones for the same reason, and the two
//! implementations open what the other has sealed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use expect_test::expect_file;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde::{Deserialize, Serialize};
use store::record::{DataVersion, Encoding, Header, encode};
use store::seal::{KeyName, Keyring, Place, Secret, Stamp, Unopened};

#[derive(Serialize)]
struct Vectors {
    about: &'static str,
    keys: Vec<KeyVector>,
    sealed: Vec<SealedVector>,
    refused: Vec<RefusedVector>,
}

#[derive(Serialize)]
struct KeyVector {
    name: String,
    bytes: String,
    aes_key: String,
    check: String,
}

#[derive(Serialize)]
struct SealedVector {
    case: &'static str,
    key: String,
    lies_at: &'static str,
    version: u64,
    path: &'static str,
    time_ns: i64,
    nonce: String,
    associated_data: String,
    plain: String,
    sealed: String,
}

/// A value that must not be opened as the record of this path and version.
#[derive(Serialize)]
struct RefusedVector {
    case: &'static str,
    version: u64,
    path: String,
    sealed: String,
    why: &'static str,
}

/// A name, and the bytes that are configured for it.
fn keys() -> Vec<(String, Vec<u8>)> {
    vec![
        ("A".into(), b"correct horse battery staple".to_vec()),
        ("B".into(), (0..32).collect()),
        ("a".into(), vec![0]),
        ("key-2026_11".into(), vec![0xff; 1_024]),
        ("x".repeat(127), "more bytes than one block of SHA-256 has, and some of them beyond ASCII: ✓✓✓".into()),
    ]
}

fn ring(active: &str) -> Keyring {
    let key = |(name, bytes): (String, Vec<u8>)| (KeyName::parse(&name).unwrap(), Secret::new(bytes));
    Keyring::new(keys().into_iter().map(key).collect(), &KeyName::parse(active).unwrap()).unwrap()
}

const TASK: &str = "/v1/task/t";
const MOVED_TASK: &str = "/quarantine/01794700800000000000/v1/task/t";
const SCHEDULE: &str = "/v1794700800/desired/schedule/process%2Fguid";
const BARE_JSON: &[u8] = br#"{"task_guid":"t","domain":"d","state":1}"#;
const TIME_NS: i64 = 1_794_700_800_123_456_789;

/// What it shows, the key, where it lies, what it holds.
fn cases() -> Vec<(&'static str, String, &'static str, Vec<u8>)> {
    let record = |encoding, version, payload: &[u8]| {
        encode(Header { encoding, version: DataVersion(version) }, payload).to_vec()
    };
    let base64 = record(Encoding::Base64Protobuf, 1_441_411_196, b"CgF0EgFk");
    let protobuf = record(Encoding::Protobuf, 1_794_700_800, b"\x0a\x01g\x12\x01d\x18\x02");
    let long: Vec<u8> = (0..1_000u32).map(|n| u8::try_from(n * n % 251).unwrap()).collect();
    vec![
        ("bare JSON of data version 1", "A".into(), TASK, BARE_JSON.to_vec()),
        ("base64 of protobuf", "A".into(), "/v1441411196/task/t", base64),
        ("protobuf, and a path with a percent", "B".into(), SCHEDULE, protobuf.clone()),
        ("nothing: a domain that has expired", "A".into(), "/v1/domain/d", Vec::new()),
        ("the longest name of a key", "x".repeat(127), SCHEDULE, protobuf.clone()),
        ("a key of one byte, whose name differs from another in case only", "a".into(), SCHEDULE, protobuf.clone()),
        ("the longest key, and a name with every kind of sign", "key-2026_11".into(), SCHEDULE, protobuf),
        ("moved aside: bound to where it was written", "A".into(), MOVED_TASK, BARE_JSON.to_vec()),
        ("one block exactly", "B".into(), TASK, vec![0; 16]),
        ("one byte more than a block", "B".into(), TASK, vec![0; 17]),
        ("many blocks of what is no record", "B".into(), TASK, long),
    ]
}

fn seal(key: &str, lies_at: &str, time_ns: i64, nonce: [u8; 12], plain: &[u8]) -> Vec<u8> {
    ring(key).seal(Place::of(lies_at).unwrap(), Stamp { sealed_ns: time_ns, nonce }, plain).to_vec()
}

fn sealed_vectors() -> Vec<SealedVector> {
    let vector = |(number, (case, key, lies_at, plain)): (u8, (&'static str, String, &'static str, Vec<u8>))| {
        let nonce: [u8; 12] = std::array::from_fn(|at| number.wrapping_mul(16).wrapping_add(at as u8));
        // A clock may be wrong, also before 1970.
        let time_ns = if plain.is_empty() { -1 } else { TIME_NS + i64::from(number) };
        let Place { version, path } = Place::of(lies_at).unwrap();
        let associated_data = [&time_ns.to_be_bytes(), format!("{version}:{path}").as_bytes()].concat();
        let sealed = seal(&key, lies_at, time_ns, nonce, &plain);
        assert_eq!(sealed, seal_by_hand(&key, time_ns, nonce, &associated_data, &plain), "{case}");
        SealedVector {
            case,
            key,
            lies_at,
            version: version.0,
            path,
            time_ns,
            nonce: hex(&nonce),
            associated_data: hex(&associated_data),
            plain: hex(&plain),
            sealed: hex(&sealed),
        }
    };
    (0..).zip(cases()).map(vector).collect()
}

/// With the key that the vectors publish, so that what they call the AES key is what seals.
fn seal_by_hand(key: &str, time_ns: i64, nonce: [u8; 12], associated_data: &[u8], plain: &[u8]) -> Vec<u8> {
    let (_, secret) = keys().into_iter().find(|(name, _)| name == key).unwrap();
    let aes_key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &aes_key(&secret)).unwrap());
    let mut text = plain.to_vec();
    let nonce_of = Nonce::assume_unique_for_key(nonce);
    aes_key.seal_in_place_append_tag(nonce_of, Aad::from(associated_data), &mut text).unwrap();
    [b"0007", key.as_bytes(), b":", &time_ns.to_be_bytes(), &nonce, &text].concat()
}

fn aes_key(secret: &[u8]) -> [u8; 32] {
    let root = Salt::new(HKDF_SHA256, b"corkboard encryption at rest").extract(secret);
    let mut key = [0; 32];
    root.expand(&[b"record AES-256-GCM"], HKDF_SHA256).unwrap().fill(&mut key).unwrap();
    key
}

/// One good value, and everything that can be wrong with it.
fn refused_vectors() -> Vec<RefusedVector> {
    let good = seal("A", TASK, TIME_NS, *b"twelve bytes", BARE_JSON);
    let flipped = |at: usize| {
        let mut value = good.clone();
        value[at] ^= 1;
        value
    };
    let renamed = |name: &str| [b"0007", name.as_bytes(), &good[5..]].concat();
    let (time, nonce, text, tag) = (6, 14, 26, good.len() - 16);
    let rows: Vec<(&str, u64, &str, Vec<u8>)> = vec![
        ("a bit of the time", 1, TASK, flipped(time)),
        ("a bit of the nonce", 1, TASK, flipped(nonce)),
        ("a bit of the ciphertext", 1, TASK, flipped(text)),
        ("a bit of the tag", 1, TASK, flipped(tag)),
        ("the name of another key that is known", 1, TASK, renamed("B")),
        ("the name in lower case, which is another key", 1, TASK, renamed("a")),
        ("the name of a key that is not known", 1, TASK, renamed("C")),
        ("another record of the same kind", 1, "/v1/task/u", good.clone()),
        ("the same record in another data version", 1_441_411_196, "/v1441411196/task/t", good.clone()),
        ("the same path with the number of another data version", 1_441_411_196, TASK, good.clone()),
        ("where it lies once it is moved aside: that is not where it was written", 1, MOVED_TASK, good.clone()),
        ("the last byte is missing", 1, TASK, good[..good.len() - 1].to_vec()),
        ("the ciphertext is missing, the tag is there", 1, TASK, [&good[..text], &good[tag..]].concat()),
        ("a byte too much", 1, TASK, [good.as_slice(), b"\0"].concat()),
        ("one byte less than time, nonce and tag", 1, TASK, good[..text + 15].to_vec()),
        ("nothing after the name", 1, TASK, good[..time].to_vec()),
        ("no colon after the name", 1, TASK, b"0007A".to_vec()),
        ("no name", 1, TASK, renamed("")),
        ("a name with a sign that no name has", 1, TASK, renamed("A.B")),
        ("a name that is too long", 1, TASK, renamed(&"x".repeat(128))),
        ("nothing but the digits", 1, TASK, b"0007".to_vec()),
        ("a record that is not sealed", 1, TASK, BARE_JSON.to_vec()),
        ("the digits of another encoding", 1, TASK, [b"0003", &good[4..]].concat()),
    ];
    let vector = |(case, version, path, value): (&'static str, u64, &str, Vec<u8>)| {
        let why = match ring("A").open(Place { version: DataVersion(version), path }, &value) {
            Ok(_) => "opened",
            Err(Unopened::UnknownKey { .. }) => "unknown-key",
            Err(Unopened::CutOff { .. }) => "cut-off",
            Err(Unopened::Damaged { .. }) => "damaged",
            Err(Unopened::NoName) => "no-name",
        };
        RefusedVector { case, version, path: path.to_owned(), sealed: hex(&value), why }
    };
    rows.into_iter().map(vector).collect()
}

#[test]
fn the_vectors_are_what_this_code_makes() {
    let key = |(name, bytes): (String, Vec<u8>)| KeyVector {
        aes_key: hex(&aes_key(&bytes)),
        check: hex(&ring("A").check(&name).unwrap()),
        bytes: hex(&bytes),
        name,
    };
    let vectors = Vectors {
        about: "Sealed records, as docs/formats/storage.md draws them. All bytes are in hex.",
        keys: keys().into_iter().map(key).collect(),
        sealed: sealed_vectors(),
        refused: refused_vectors(),
    };
    assert!(vectors.refused.iter().all(|vector| vector.why != "opened"));
    let text = serde_json::to_string_pretty(&vectors).unwrap() + "\n";
    expect_file!["../vectors/frozen/sealed.json"].assert_eq(&text);
}

#[test]
fn the_worked_example_of_the_page_is_the_first_vector() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/storage.md")).unwrap();
    let example = page.split("### A worked example").nth(1).unwrap();
    let example = example.split("\n#").next().unwrap();
    let vector = sealed_vectors().remove(0);
    let (_, secret) = keys().remove(0);
    let (head, sealed) = vector.sealed.split_at(2 * (4 + 1 + 1));
    let (time, sealed) = sealed.split_at(2 * 8);
    let (nonce, sealed) = sealed.split_at(2 * 12);
    let (ciphertext, tag) = sealed.split_at(sealed.len() - 2 * 16);
    let check = hex(&ring("A").check("A").unwrap());
    let parts = [&hex(&secret), &hex(&aes_key(&secret)), &check, &vector.associated_data, &vector.plain];
    for part in parts.map(String::as_str).into_iter().chain([head, time, nonce, ciphertext, tag]) {
        assert!(example.contains(part), "the example lacks {part}");
    }
}

#[test]
fn an_independent_implementation_agrees_with_every_vector() {
    let said = python(&["check", "frozen/sealed.json"], "");
    assert_eq!(said, format!("{} keys, {} sealed, {} refused\n", keys().len(), cases().len(), refused_vectors().len()));
}

/// A record under a key of its own.
#[derive(Debug)]
struct Drawn {
    key: String,
    bytes: Vec<u8>,
    lies_at: String,
    stamp: Stamp,
    plain: Vec<u8>,
}

impl Drawn {
    fn any() -> impl Strategy<Value = Drawn> {
        let key = ("[A-Za-z0-9_-]{1,127}", prop::collection::vec(any::<u8>(), 1..=200));
        let moved = prop::sample::select(vec!["", "/quarantine/01794700800000000000"]);
        let place = (moved, "/v(1|1442529338|18446744073709551615)/[ -~é✓]{1,40}");
        let stamp = (any::<i64>(), any::<[u8; 12]>()).prop_map(|(sealed_ns, nonce)| Stamp { sealed_ns, nonce });
        let all = (key, place, stamp, prop::collection::vec(any::<u8>(), 0..100));
        all.prop_map(|((key, bytes), (moved, path), stamp, plain)| {
            let lies_at = format!("{moved}{path}");
            Drawn { key, bytes, lies_at, stamp, plain }
        })
    }

    fn place(&self) -> Place<'_> {
        Place::of(&self.lies_at).unwrap()
    }

    fn ring(&self) -> Keyring {
        let name = KeyName::parse(&self.key).unwrap();
        Keyring::new(vec![(name.clone(), Secret::new(self.bytes.clone()))], &name).unwrap()
    }
}

#[derive(Serialize)]
struct Question {
    key: String,
    bytes: String,
    lies_at: String,
    time_ns: i64,
    sealed: String,
}

#[derive(Deserialize)]
struct Answer {
    plain: String,
    sealed: String,
}

/// Python chooses its own nonces here, so what it seals is new each time.
#[test]
fn each_implementation_opens_what_the_other_sealed() {
    const RECORDS: usize = 50;
    let mut runner = TestRunner::deterministic();
    let records: Vec<Drawn> = (0..RECORDS).map(|_| Drawn::any().new_tree(&mut runner).unwrap().current()).collect();
    let question = |record: &Drawn| Question {
        key: record.key.clone(),
        bytes: hex(&record.bytes),
        lies_at: record.lies_at.clone(),
        time_ns: record.stamp.sealed_ns,
        sealed: hex(&record.ring().seal(record.place(), record.stamp, &record.plain)),
    };
    let questions: Vec<Question> = records.iter().map(question).collect();
    let said = python(&["exchange"], &serde_json::to_string(&questions).unwrap());
    let answers: Vec<Answer> = serde_json::from_str(&said).unwrap();
    assert_eq!(answers.len(), RECORDS);
    for ((record, question), answer) in records.iter().zip(&questions).zip(&answers) {
        assert_eq!(answer.plain, hex(&record.plain), "what Python opens: {record:?}");
        assert_ne!(answer.sealed, question.sealed, "a nonce of its own: {record:?}");
        let opened = record.ring().open(record.place(), &from_hex(&answer.sealed));
        assert_eq!(opened.unwrap(), record.plain, "what Python sealed: {record:?}");
    }
}

/// Runs the independent implementation and returns what it prints.
fn python(arguments: &[&str], input: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut command = Command::new("python3");
    command.args(["-I", "seal.py"]).args(arguments).current_dir(folder);
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap_or_else(|error| {
        panic!("python3 cannot be started ({error}). Install it: `cargo xtask test --only install`, or `apt-get install python3`")
    });
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "seal.py: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
