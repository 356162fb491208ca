//! What a release was asked and what it answered, asked again: this release gives the same answers.
//!
//! `corpus/frozen/0.1/` holds the exchanges of release 0.1, a file for each life of a server that begins with an empty
//! store. The real program of today is sent the very same bytes, and must answer with the same bytes, but for what is
//! [`volatile`], which is masked by its name, and what is [`allowed`] to differ. Streams of events are opened before
//! anything else, wherever they stand in a file, and compared when the server has been stopped.
//!
//! A new release is recorded from `corpus/script/`, which has requests only, after its messages were frozen:
//! ```text
//! RECORD_CORPUS=0.2 cargo test -p corkboard --test it corpus::the_script
//! ```
//! `CORPUS_BINARY=PATH` asks another build than this one. What is recorded is frozen: a second recording is refused.

mod allowed;
mod coverage;
mod exchange;
mod notation;
mod schema;
mod site;
mod volatile;
mod wire;

use std::path::{Path, PathBuf};

use allowed::ALLOWED;
use exchange::Exchange;
use schema::Schema;
use site::Site;

const RECORD: &str = "RECORD_CORPUS";
const BINARY: &str = "CORPUS_BINARY";

/// How much of an answer that differs is printed.
const CONTEXT_LINES: usize = 5;
const SHOWN_LINES_MAX: usize = 15;

/// Stands for the message of an answer that is a stream.
const EVENTS: &str = "events";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/corpus").join(name)
}

/// The messages of today, and the folder of those of all releases.
fn protos() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/proto")
}

fn released(number: &str) -> PathBuf {
    protos().join("frozen").join(number)
}

/// The names in a folder, in order.
fn listing(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn files(folder: &Path) -> Vec<(String, Vec<Exchange>)> {
    let read = |name: String| {
        let exchanges = exchange::parse(&std::fs::read_to_string(folder.join(&name)).unwrap());
        (name, exchanges)
    };
    listing(folder).into_iter().map(read).collect()
}

/// Asks everything in order, in one life of a server, and returns the exchanges with the answers of today.
fn ask(binary: &Path, schema: &Schema, asked: &[Exchange]) -> Vec<Exchange> {
    let mut site = Site::start(binary);
    let mut epochs = volatile::Epochs::default();
    let mut answered: Vec<Exchange> = asked.to_vec();
    let mut streams = Vec::new();
    let (first, then): (Vec<_>, Vec<_>) =
        asked.iter().enumerate().partition(|(_, exchange)| exchange.response == EVENTS);
    for (at, exchange) in first.into_iter().chain(then) {
        let body = match exchange.request.as_str() {
            "-" => Vec::new(),
            message => notation::encoded(schema, message, &exchange.body),
        };
        let answer = wire::send(site.address, exchange, &body);
        let head = answer.head.clone();
        if exchange.response == EVENTS && head.starts_with("200 ") {
            streams.push((at, answer));
            continue;
        }
        let text = match answer.is_protobuf && schema.knows(&exchange.response) {
            true => epochs.masked(&notation::shown(schema, &exchange.response, &answer.body())),
            false => format!("{}\n", notation::quoted(&answer.body())),
        };
        answered[at].answer = format!("{head}{text}");
    }
    site.stop();
    for (at, answer) in streams {
        let head = answer.head.clone();
        let events = String::from_utf8(answer.body()).unwrap();
        answered[at].answer = head + &shown_events(schema, &mut epochs, &events);
    }
    answered
}

fn shown_events(schema: &Schema, epochs: &mut volatile::Epochs, text: &str) -> String {
    use base64::Engine as _;

    let mut shown = String::new();
    for frame in text.split_terminator("\n\n") {
        let line =
            |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{frame}"));
        assert!(!line("id: ").is_empty(), "{frame}");
        let name = line("event: ");
        let data = base64::engine::general_purpose::STANDARD.decode(line("data: ")).unwrap();
        let inside = match schema.event(name) {
            Some(message) => epochs.masked(&notation::shown(schema, message, &data)),
            None => notation::quoted(&data),
        };
        shown += &format!("event {name}\n");
        inside.lines().for_each(|line| shown += &format!("    {line}\n"));
    }
    shown
}

/// The differences between what was answered and what is, as a person wants to read them.
fn differences(release: &str, file: &str, was: &[Exchange], is: &[Exchange], used: &mut [bool]) -> Vec<String> {
    let mut found = Vec::new();
    for (number, (was, is)) in was.iter().zip(is).enumerate() {
        let (expected, answered) =
            (allowed::apply(ALLOWED, release, was, used), allowed::without_later_fields(&is.answer));
        if expected != answered {
            let Exchange { method, path, comment, .. } = was;
            let (expected, answered) = apart(&expected, &answered);
            found.push(format!(
                "{file}, exchange {}: {method} {path}\n{comment}--- release {release} answered\n{expected}\
                 --- this one answers\n{answered}",
                number + 1
            ));
        }
    }
    found
}

/// Where two texts part: a few lines before, and not more of the rest than fits on a screen.
fn apart(was: &str, is: &str) -> (String, String) {
    let same = was.lines().zip(is.lines()).take_while(|(was, is)| was == is).count();
    let shown = |text: &str| {
        let from = same.saturating_sub(CONTEXT_LINES);
        let lines: String = text.lines().skip(from).take(SHOWN_LINES_MAX).map(|line| format!("{line}\n")).collect();
        if from > 0 { format!("({from} lines)\n{lines}") } else { lines }
    };
    (shown(was), shown(is))
}

/// The program that is asked.
fn today() -> PathBuf {
    std::env::var_os(BINARY).map_or_else(|| env!("CARGO_BIN_EXE_corkboard").into(), PathBuf::from)
}

#[test]
fn what_a_release_was_answered_is_answered_still() {
    let mut used = vec![false; ALLOWED.len()];
    let mut found = Vec::new();
    for release in listing(&folder("frozen")) {
        let schema = Schema::read(&released(&release));
        for (file, recorded) in files(&folder("frozen").join(&release)) {
            let answered = ask(&today(), &schema, &recorded);
            found.extend(differences(&release, &file, &recorded, &answered, &mut used));
        }
    }
    assert!(
        found.is_empty(),
        "{} answers differ from those of a release. If a client could rely on one, keep it; if it differs on purpose, add \
         it to tests/it/corpus/allowed.rs with the reason.\n\n{}",
        found.len(),
        found.join("\n")
    );
    assert!(used.iter().all(|used| *used), "an entry of tests/it/corpus/allowed.rs matches nothing any more");
}

/// Nothing of the release is left out of its corpus.
fn complete(release: &str, recorded: &[Exchange]) {
    let table = std::fs::read_to_string(released(release).join("routes.txt")).unwrap();
    assert_eq!(
        coverage::unheard(&table, recorded),
        [""; 0],
        "paths that have not succeeded; add them to corpus/script"
    );
    let unset = coverage::unset(&Schema::read(&released(release)), recorded);
    assert_eq!(unset, [""; 0], "fields that are in no answer; add requests that set them to corpus/script");
}

#[test]
fn every_path_has_succeeded_and_every_field_was_set() {
    for release in listing(&folder("frozen")) {
        let recorded = files(&folder("frozen").join(&release)).into_iter().flat_map(|(_, exchanges)| exchanges);
        complete(&release, &recorded.collect::<Vec<_>>());
    }
}

/// The script is asked of today's program on every run, so that it can be recorded on the day of a release.
#[test]
fn the_script_can_be_recorded() {
    let release = std::env::var(RECORD).ok();
    let schema = Schema::read(&release.as_deref().map_or_else(protos, released));
    let mut recorded = Vec::new();
    for (file, script) in files(&folder("script")) {
        let answered = ask(&today(), &schema, &script);
        for exchange in &answered {
            assert!(!exchange.answer.contains("hex "), "{file}: {exchange:#?} is answered with what cannot be read");
        }
        recorded.push((file, answered));
    }
    let Some(release) = release else { return };
    // A failure here means that nothing was written.
    complete(&release, &recorded.iter().flat_map(|(_, exchanges)| exchanges.clone()).collect::<Vec<_>>());
    let into = folder("frozen").join(&release);
    std::fs::create_dir(&into).unwrap_or_else(|error| panic!("nothing was written: {}: {error}", into.display()));
    for (file, exchanges) in recorded {
        std::fs::write(into.join(file), exchange::print(&exchanges)).unwrap();
    }
}

#[test]
fn a_changed_answer_is_a_difference() {
    let was = exchange::parse("# Why.\nPOST /v1/ping -\n= PingResponse\n200 application/x-protobuf\navailable: true\n");
    let mut is = was.clone();
    assert_eq!(differences("0.1", "a.txt", &was, &is, &mut []), [""; 0]);
    is[0].answer = is[0].answer.replace("available: true\n", "");
    let found = differences("0.1", "a.txt", &was, &is, &mut []);
    expect_test::expect![[r#"
        a.txt, exchange 1: POST /v1/ping
        # Why.
        --- release 0.1 answered
        200 application/x-protobuf
        available: true
        --- this one answers
        200 application/x-protobuf
    "#]]
    .assert_eq(&found[0]);
    let long = |last: &str| format!("{}{last}\n", "same\n".repeat(9));
    assert_eq!(apart(&long("a"), &long("b")).1, format!("(4 lines)\n{}b\n", "same\n".repeat(5)));
}
