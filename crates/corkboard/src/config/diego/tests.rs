//! Diego's file, complete and spoiled in every way: what it means, and the exact words about it.

use std::path::Path;

use expect_test::{Expect, expect, expect_file};
use proptest::prelude::*;
use rig::pki::Pki;
use serde_json::{Map, Value, json};

use super::known::{Fate, KEYS, Kind};
use super::*;
use crate::config::{ConfigError, File};
use crate::logging::lager::{Level, TimeFormat};

/// Every key there is, each with a value that differs from the default.
const COMPLETE: &str = include_str!("complete.json");
/// What must not be shown, whatever is wrong.
const SECRETS: &[&str] = &["hunter2", "old passphrase", "grüße", "zitat"];

type Outcome = Result<(Config, Option<Account>), ConfigError>;

/// Reads `text` as `bbs.json` in the folder of `pki`, which is `DIR` in it.
fn read(pki: &Pki, text: &str, store: Option<&Path>) -> Outcome {
    let (path, dir) = (pki.path("bbs.json"), pki.dir.path().to_str().unwrap());
    std::fs::write(&path, text.replace("DIR", dir)).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let settings = File::read(&path).and_then(|file| file.check(store))?;
    Ok((settings.config, settings.account))
}

fn complete() -> Map<String, Value> {
    serde_json::from_str(COMPLETE).unwrap()
}

/// The complete file with some members changed, or taken out by `null`; one a line, so that lines can be told.
fn with(changes: Value) -> String {
    let mut members = complete();
    let Value::Object(changes) = changes else { panic!("changes are an object") };
    for (key, value) in changes {
        if value.is_null() {
            members.remove(&key);
        } else {
            members.insert(key, value);
        }
    }
    let lines: Vec<String> =
        members.iter().map(|(key, value)| format!("{}: {value}", Value::from(key.clone()))).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

fn told(pki: &Pki, text: &str) -> String {
    let said = match read(pki, text, None) {
        Ok(_) => panic!("no problem was found in {text}"),
        Err(error) => error.to_string().replace(pki.dir.path().to_str().unwrap(), "DIR"),
    };
    for secret in SECRETS {
        assert!(!said.contains(secret), "{said}");
    }
    said
}

#[test]
fn a_complete_file_means_this() {
    let pki = Pki::new();
    let (config, account) = read(&pki, COMPLETE, None).unwrap();
    let shown = format!("{config:#?}\n").replace(pki.dir.path().to_str().unwrap(), "DIR");
    expect_file!["golden_config.txt"].assert_eq(&shown);
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{secret}");
    }
    let account = account.unwrap();
    let names = |is_used: bool| KEYS.iter().filter(move |it| (it.2 == Fate::Used) == is_used).map(|(key, ..)| *key);
    assert_eq!(account.used, names(true).collect::<Vec<_>>());
    assert_eq!(account.ignored.iter().map(|(key, _)| *key).collect::<Vec<_>>(), names(false).collect::<Vec<_>>());
    assert_eq!((account.unknown, account.database, account.remarks), (vec![], "mysql", vec![]));
}

#[test]
fn the_list_of_keys_is_sorted_and_the_complete_file_has_them_all() {
    let listed: Vec<&str> = KEYS.iter().map(|(key, ..)| *key).collect();
    assert!(listed.is_sorted_by(|one, next| one < next));
    assert_eq!(complete().keys().map(String::as_str).collect::<Vec<_>>(), listed);
    for (key, kind, _) in KEYS {
        if let Kind::Group(inner) = kind {
            let whole = complete();
            let there: Vec<&String> = whole[*key].as_object().unwrap().keys().collect();
            assert_eq!(there, inner.iter().map(|(key, _)| *key).collect::<Vec<_>>());
        }
    }
}

/// The bytes of a key are those of the passphrase, so a ring made by hand opens what this one sealed.
#[test]
fn passphrases_are_the_bytes_of_keys() {
    use store::seal::{KeyName, Keyring, Place, Secret, Stamp};
    let (config, _) = read(&Pki::new(), COMPLETE, None).unwrap();
    let ring = config.encryption.unwrap().keyring;
    let place = Place { path: "/v1/x", version: store::Version::LATEST.number() };
    let sealed = ring.seal(place, Stamp { sealed_ns: 1, nonce: [7; 12] }, b"record");
    let name = KeyName::parse("key-2024_b").unwrap();
    let phrase = "grüße & \"zitat\"\n".as_bytes().to_vec();
    let by_hand = Keyring::new(vec![(name.clone(), Secret::new(phrase))], &name).unwrap();
    assert_eq!(by_hand.open(place, &sealed).unwrap(), &b"record"[..]);
}

#[test]
fn go_is_easy_about_case_repetition_null_and_emptiness() {
    let pki = Pki::new();
    let text = with(json!({
        "listen_address": null, "LISTEN_Address": ":8889", "health_address": "localhost:8891", "debug_address": "",
        "rep_require_tls": null, "max_task_retries": 0, "time_format": 1, "locket_client_keepalive_timeout": 0,
        "future": {"a": [1]}, "loggregator": {"loggregator_new": 1}
    }));
    let text = text.replacen("\"uuid\":", "\"uuid\": \"first\",\n\"lock_ttl\": null,\n\"uuid\":", 1);
    let (config, account) = read(&pki, &text, Some(Path::new("/elsewhere"))).unwrap();
    let keepalive = config.locket.as_ref().unwrap().keepalive.unwrap();
    let shown = format!(
        "{} {} {} {} {} {keepalive:?} {}",
        config.node,
        config.listen,
        config.health,
        config.outbound.cell_require_tls,
        config.task_rejections_max,
        config.store
    );
    expect!["bbs-uuid-1 0.0.0.0:8889 127.0.0.1:8891 true 0 (10s, 20s) embedded, /elsewhere"].assert_eq(&shown);
    assert_eq!(account.unwrap().unknown, ["future", "loggregator.loggregator_new"]);
}

/// Releases of 2024 had `rep_require_tls`; later ones require TLS wherever there are certificates.
#[test]
fn cells_are_called_with_tls_as_the_release_would() {
    let pki = Pki::new();
    let none = json!(null);
    for (files, key, expected) in
        [(true, json!(true), true), (true, json!(false), false), (true, none.clone(), true), (false, none, false)]
    {
        let mut changes = json!({ "rep_require_tls": key });
        if !files {
            changes["rep_ca_cert"] = json!("");
            changes["rep_client_cert"] = json!(null);
            changes["rep_client_key"] = json!(null);
        }
        let (config, _) = read(&pki, &with(changes), None).unwrap();
        assert_eq!((config.outbound.cell_tls.is_some(), config.outbound.cell_require_tls), (files, expected));
    }
}

#[test]
fn what_may_be_missing_has_a_default() {
    let pki = Pki::new();
    let optional = [
        "advertise_url",
        "communication_timeout",
        "converge_repeat_interval",
        "expire_completed_task_duration",
        "expire_pending_task_duration",
        "kick_task_duration",
        "locket_client_keepalive_time",
        "max_task_retries",
        "session_name",
        "time_format",
    ];
    let changes: Map<String, Value> = optional.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
    let text = with(Value::Object(changes));
    let (config, _) = read(&pki, &text, None).unwrap();
    assert_eq!(config.timing, bbs::config::Timing::default());
    assert_eq!(config.outbound.communication_timeout, std::time::Duration::from_secs(10));
    assert_eq!((config.task_rejections_max, config.advertise_url), (3, None));
    assert_eq!(config.locket.unwrap().keepalive, None);
}

#[test]
fn the_log_is_known_before_the_rest_and_whatever_the_rest_is() {
    let shape = |text: &str| {
        let shape = Document::parse(text).unwrap().unwrap().shape(text);
        (shape.source, shape.level, shape.time, shape.text_bytes_max)
    };
    assert_eq!(shape(COMPLETE), ("bbs".to_owned(), Level::Error, TimeFormat::Rfc3339, 640));
    let usual = ("bbs".to_owned(), Level::Info, TimeFormat::UnixEpoch, 0);
    assert_eq!(shape("{}"), usual);
    assert_eq!(shape("{\"log_level\":7,\"time_format\":\"noon\",\"session_name\":\"\"}"), usual);
    assert_eq!(shape("{\"log_level\":\"debug\",\"time_format\":\"1\"}").2, TimeFormat::Rfc3339);
}

#[test]
fn a_file_that_everybody_may_read_is_remarked_on() {
    let pki = Pki::new();
    read(&pki, COMPLETE, None).unwrap();
    let path = pki.path("bbs.json");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let account = File::read(&path).unwrap().check(None).unwrap().account;
    let said = account.unwrap().remarks.join("\n").replace(pki.dir.path().to_str().unwrap(), "DIR");
    expect!["everybody on this machine may use DIR/bbs.json (its permissions are 644), which holds passphrases and the password of a database; close it with `chmod o= DIR/bbs.json`"].assert_eq(&said);
}

#[test]
fn one_mistake_each() {
    let pki = Pki::new();
    let mut all = String::new();
    let mut case = |changes: Value| {
        let shown = changes.to_string().replace("hunter2", "SECRET");
        let said = told(&pki, &with(changes));
        let (problem, end) = said.rsplit_once('\n').unwrap();
        assert_eq!(end, "1 problem; nothing was started", "{said}");
        all.push_str(&format!("{shown}\n    {}\n", problem.replace("DIR/bbs.json:", "")));
    };
    for (key, ..) in KEYS {
        let kind_of_other = if complete()[*key].is_string() { json!(10) } else { json!("10") };
        case(json!({ *key: kind_of_other }));
    }
    for (key, _) in known::REQUIRED {
        case(json!({ *key: null }));
    }
    for key in ["ca_file", "cert_file", "key_file", "auctioneer_ca_cert", "rep_client_key", "locket_client_cert_file"] {
        case(json!({ key: null }));
        case(json!({ key: "/nowhere" }));
    }
    for changes in [
        json!({ "corkboard_store": null }),
        json!({ "corkboard_store": "/" }),
        json!({ "corkboard_store": "DIR/none/board" }),
        json!({ "active_key_label": "other" }),
        json!({ "encryption_keys": {} }),
        json!({ "encryption_keys": { "key-2024_b": "hunter2" , "a.b": "hunter2x" } }),
        json!({ "encryption_keys": { "key-2024_b": "hunter2" , "": "hunter2x" } }),
        json!({ "encryption_keys": { "key-2024_b": "hunter2" , "B": 5 } }),
        json!({ "encryption_keys": { "key-2024_b": "hunter2" , "B": "hunter2" } }),
        json!({ "encryption_keys": { "key-2024_b": "" } }),
        json!({ "advertise_url": "http://bbs:8889" }),
        json!({ "advertise_url": "bbs" }),
        json!({ "auctioneer_address": "auctioneer:9016" }),
        json!({ "auctioneer_address": "https://me:hunter2@auctioneer:9016" }),
        json!({ "auctioneer_address": "http://auctioneer:9016" }),
        json!({ "auctioneer_ca_cert": "", "auctioneer_client_cert": "", "auctioneer_client_key": "" }),
        json!({ "rep_ca_cert": "", "rep_client_cert": "", "rep_client_key": "" }),
        json!({ "key_file": "DIR/client.key" }),
        json!({ "listen_address": "bbs.example:8889" }),
        json!({ "health_address": "127.0.0.1" }),
        json!({ "health_address": "0.0.0.0:8889" }),
        json!({ "locket_address": "https://locket:8891" }),
        json!({ "locket_client_keepalive_time": -1 }),
        json!({ "log_level": "warn" }),
        json!({ "time_format": "noon" }),
        json!({ "database_driver": "diego:hunter2@tcp(db)/x" }),
        json!({ "communication_timeout": "0s" }),
        json!({ "communication_timeout": "-1s" }),
        json!({ "communication_timeout": "10" }),
        json!({ "communication_timeout": "" }),
        json!({ "lock_ttl": "ten" }),
        json!({ "report_interval": "0s" }),
        json!({ "update_workers": 0 }),
        json!({ "update_workers": 1.5 }),
        json!({ "max_task_retries": 3_000_000_000u32 }),
        json!({ "max_data_string_length": -1 }),
        json!({ "redact_patterns": ["a", 1] }),
        json!({ "loggregator": { "loggregator_api_port": "3458" } }),
        json!({ "advanced_metrics": { "route_config": { "request_count": "all" } } }),
    ] {
        case(changes);
    }
    expect_file!["golden_mistakes.txt"].assert_eq(&all);
}

#[test]
fn everything_wrong_is_said_at_once_in_the_order_of_the_file() {
    let text =
        "{ \"uuid\": \"\",\n\"log_level\": \"loud\", \"lock_ttl\": 15,\n\n\"listen_address\": \"x\",\n\"other\": 1 }";
    expect![[r#"
        DIR/bbs.json:1: uuid: is missing; expected a name that no other BBS of this deployment has
        DIR/bbs.json:2: lock_ttl: is a number; expected a duration in quotes, such as "10s"
        DIR/bbs.json:2: log_level: "loud" is not known; expected "debug" or "info" or "error" or "fatal"
        DIR/bbs.json:4: listen_address: "x" is not an address; expected an IP address and a port, such as "127.0.0.1:8889" or "[::1]:8889"
        DIR/bbs.json: active_key_label: is missing; expected the label of the key that seals what is written
        DIR/bbs.json: auctioneer_address: is missing; expected the URL of the auctioneer, such as "https://auctioneer.service.cf.internal:9016"
        DIR/bbs.json: database_connection_string: is missing; expected what the Go BBS connects to its database with; here it is not used, and never shown
        DIR/bbs.json: database_driver: is missing; expected "mysql" or "postgres"
        DIR/bbs.json: encryption_keys: is missing; expected passphrases by label
        DIR/bbs.json: health_address: is missing; expected an IP address and a port, such as "127.0.0.1:8890"
        DIR/bbs.json: locket_address: is missing; expected the host and the port of Locket, such as "locket.service.cf.internal:8891"
        DIR/bbs.json: report_interval: is missing; expected a duration in quotes, such as "1m"
        DIR/bbs.json: ca_file: is missing; ca_file, cert_file and key_file belong together
        DIR/bbs.json: cert_file: is missing; ca_file, cert_file and key_file belong together
        DIR/bbs.json: key_file: is missing; ca_file, cert_file and key_file belong together
        DIR/bbs.json: locket_ca_cert_file: is missing; locket_ca_cert_file, locket_client_cert_file and locket_client_key_file belong together
        DIR/bbs.json: locket_client_cert_file: is missing; locket_ca_cert_file, locket_client_cert_file and locket_client_key_file belong together
        DIR/bbs.json: locket_client_key_file: is missing; locket_ca_cert_file, locket_client_cert_file and locket_client_key_file belong together
        DIR/bbs.json: corkboard_store: is missing, and so is --store. The SQL database is not used; records are kept in a directory of this machine. Say which: `corkboard bbs --config DIR/bbs.json --store DIR`, or "corkboard_store": "DIR" in this file
        19 problems; nothing was started"#]].assert_eq(&told(&Pki::new(), text));
}

#[test]
fn what_is_not_json_is_told_with_its_line() {
    let pki = Pki::new();
    let check = |text: &str, expected: Expect| expected.assert_eq(&told(&pki, text));
    check(
        "{\n\"uuid\": \"a\"\n\"log_level\": \"hunter2\"}",
        expect![[r#"
        DIR/bbs.json:3: is not JSON: expected `,` or `}`
        1 problem; nothing was started"#]],
    );
    check(
        "{\"uuid\": tru}",
        expect![[r#"
        DIR/bbs.json:1: is not JSON: expected ident
        1 problem; nothing was started"#]],
    );
    check(
        "{",
        expect![[r#"
        DIR/bbs.json:1: is not JSON: EOF while parsing an object
        1 problem; nothing was started"#]],
    );
    check(
        "{} {}",
        expect![[r#"
        DIR/bbs.json:1: is not JSON: trailing characters
        1 problem; nothing was started"#]],
    );
    check(
        &COMPLETE.replace("bbs-uuid-1", "\\ud800"),
        expect![[r#"
        DIR/bbs.json:89: uuid: is text with half a character in it (\ud800 to \udfff come in pairs); expected text
        1 problem; nothing was started"#]],
    );
    check(
        &COMPLETE.replace("gr\\u00fc", "\\ud800"),
        expect![[r#"
        DIR/bbs.json:31: encryption_keys.key-2024_b: is text with half a character in it (\ud800 to \udfff come in pairs)
        1 problem; nothing was started"#]],
    );
}

/// Whatever stands in a value of a key, known or not.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC*".prop_map(Value::from),
        prop::sample::select(vec!["", "10s", "-5m", "info", "mysql", "https://a:1", "a:1", ":1", "[::1]:2", "/x"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any_key(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_key() -> impl Strategy<Value = String> {
    let known: Vec<&str> = KEYS.iter().map(|(key, ..)| *key).collect();
    prop_oneof![4 => prop::sample::select(known).prop_map(str::to_owned), 1 => "\\PC{0,12}"]
}

/// Each problem lies within the file, and asking for the log never fails.
fn survives(text: &str) {
    match Document::parse(text) {
        Ok(Some(document)) => {
            document.shape(text);
            let problems = document.check(text, Path::new("bbs.json"), Some(Path::new("/x/board"))).err();
            for Problem { key, span, .. } in problems.unwrap_or_default() {
                assert!(span.is_none_or(|span| text.get(span).is_some()), "{key}");
            }
        }
        Ok(None) => assert!(!text.trim_start().starts_with('{')),
        Err(finding) => assert!(finding.line.is_some()),
    }
}

proptest! {
    #[test]
    fn no_object_makes_it_panic(members in prop::collection::vec((any_key(), any_json()), 0..30)) {
        let members: Vec<String> =
            members.iter().map(|(key, value)| format!("{}:{value}", Value::from(key.clone()))).collect();
        survives(&format!("{{{}}}", members.join(",\n")));
    }

    #[test]
    fn no_change_to_a_complete_file_makes_it_panic(key in any_key(), value in any_json()) {
        survives(&with(json!({ key: value })));
    }

    #[test]
    fn no_text_makes_it_panic(text in "[ \n]*[{]?[\\PC\n]*", cut in 0..COMPLETE.len()) {
        survives(&text);
        survives(&COMPLETE[..COMPLETE.floor_char_boundary(cut)]);
        survives(&format!("{}{text}{}", &COMPLETE[..cut], &COMPLETE[cut..]));
    }
}
