//! The run in the README, line by line: what it says to type is typed, and what it shows is shown.

use super::first::typed;
use super::site::Site;

const README: &str = include_str!("../../../../../README.md");
/// What the README shows of addresses, all at their defaults.
const ROUTER: &str = "http://127.0.0.1:8080";

#[test]
fn the_run_in_the_readme_is_true() {
    let mut site = Site::start(9);
    // The program is found as a newcomer's shell finds it.
    let folder = site.dir.path().join("bin");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_corkboard"), folder.join("corkboard")).unwrap();
    let prefix = format!(
        "export PATH={}:/usr/bin:/bin BBS_URL={} CORKBOARD_ROUTER_URL={}; ",
        folder.display(),
        site.api,
        site.router
    );
    let mut typed_lines = 0;
    for (line, expected) in lines_of("## A run").into_iter().filter(|(line, _)| line != "corkboard up") {
        let line = line.replace(ROUTER, &site.router);
        let outcome = if line.starts_with("curl") { typed(&line) } else { typed(&format!("{prefix}{line}")) };
        assert_eq!(outcome.code, 0, "{line}: {outcome:?}");
        let stdout = outcome.stdout.replace(&site.router, ROUTER);
        for expected in expected {
            assert!(stdout.lines().any(|line| alike(line, &expected)), "{line}: {expected:?} is not in\n{stdout}");
        }
        typed_lines += 1;
    }
    assert!(typed_lines >= 4, "{typed_lines}");
    site.stop_in_order();
}

/// Each line that is typed, and what is shown below it.
fn lines_of(heading: &str) -> Vec<(String, Vec<String>)> {
    let section = README.split(heading).nth(1).unwrap().split("\n## ").next().unwrap();
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in section.lines() {
        if line.starts_with("```") {
            inside = line == "```text";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            found.push((command.to_owned(), Vec::new()));
        } else if let Some((_, shown)) = found.last_mut().filter(|_| inside && !line.is_empty()) {
            shown.push(line.to_owned());
        }
    }
    found
}

/// The same words where no number or guid stands: those differ from run to run.
fn alike(line: &str, expected: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let word =
            |word: &str| if word.contains(|c: char| c.is_ascii_digit()) { "N".to_owned() } else { word.to_owned() };
        text.split_whitespace().map(word).collect()
    };
    words(line) == words(expected)
}
