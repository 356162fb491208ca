//! `top` on a real terminal with a real server, and printed once without one.

use expect_test::expect;
use rustix::process::Signal;
use rustix::termios::LocalModes;

use crate::operator::Operator;
use crate::program::{LRP, Outcome, Server, TASK, utf8};
use crate::terminal::Terminal;

/// Taking the terminal, and giving it back.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

fn must(server: &Server, args: &[&str]) {
    let Outcome { code, stderr, .. } = server.call(args);
    assert_eq!(code, 0, "{args:?}: {stderr}");
}

fn top(server: &Server) -> Terminal {
    let mut terminal = Terminal::run(&mut server.command(&["top"]));
    terminal.meet(ENTER);
    terminal
}

/// It ended well, and the terminal is as every shell wants it.
fn check_given_back(mut terminal: Terminal) {
    let code = terminal.ended();
    let shown = terminal.shown();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.ends_with(LEAVE), "{shown:?}");
    let cooked = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
    assert!(terminal.modes().local_modes.contains(cooked), "{:?}", terminal.modes());
}

#[test]
fn what_happens_is_seen_and_keys_are_obeyed() {
    let server = Server::plain();
    must(&server, &["create-desired-lrp", LRP]);
    let mut terminal = top(&server);
    terminal.see("cells 1");
    terminal.see("running 0 of 2");
    terminal.see("> hello");
    assert!(!terminal.modes().local_modes.contains(LocalModes::ICANON));
    // By an event: nothing is listed again so soon.
    must(&server, &["update-desired-lrp", "hello", r#"{"instances":3}"#]);
    terminal.see("running 0 of 3");
    terminal.type_keys("\r");
    terminal.see("of app hello");
    terminal.see("hello/2");
    must(&server, &["create-task", TASK]);
    terminal.type_keys("\t");
    terminal.see("2 -> 3 instances");
    terminal.type_keys("/once");
    terminal.see("/once_");
    terminal.type_keys("\x1b");
    // With another key right behind it, Escape would be a part of that one.
    terminal.see("q quit");
    terminal.type_keys("5");
    terminal.see("[Server]");
    terminal.see("master");
    // Without colours a wider window shows what did not fit.
    terminal.type_keys("1");
    terminal.see("[Apps]");
    terminal.resize(30, 140);
    terminal.see("UNCLAIMED");
    terminal.type_keys("q");
    check_given_back(terminal);
}

#[test]
fn signals_and_ctrl_c_give_the_terminal_back() {
    let server = Server::plain();
    for end in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut terminal = top(&server);
        terminal.see("no apps");
        terminal.signal(end);
        check_given_back(terminal);
    }
    let mut terminal = top(&server);
    terminal.see("no apps");
    terminal.type_keys("\x03");
    check_given_back(terminal);
}

#[test]
fn a_server_that_goes_away_comes_back() {
    let server = Server::plain();
    must(&server, &["create-desired-lrp", LRP]);
    let mut terminal = top(&server);
    terminal.see("> hello");
    let Server { mut process, flags, dir } = server;
    process.signal(Signal::KILL);
    process.wait();
    terminal.see("NO ANSWER since ");
    terminal.see("the last that was seen");
    // The whole screen again, to see that the last picture is kept.
    terminal.resize(24, 100);
    terminal.see("> hello");

    let file = dir.path().join("board.toml");
    let address = flags[1].strip_prefix("http://").unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("127.0.0.1:0", address, 1)).unwrap();
    let server = Server::start_as_configured(dir, "http", &[]);
    terminal.see("corkboard top  http://");
    must(&server, &["delete-desired-lrp", "hello"]);
    terminal.see("no apps");
    terminal.type_keys("q");
    check_given_back(terminal);
    assert!(utf8(server.dir.path()).len() > 1);
}

#[test]
fn off_a_terminal_it_is_printed_once() {
    let server = Server::plain();
    must(&server, &["create-desired-lrp", LRP]);
    must(&server, &["create-task", TASK]);
    let Outcome { code, stdout, stderr } = server.call(&["top", "--app", "hello"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (moment, rest) = stdout.split_once('\n').unwrap();
    assert!(moment.ends_with(" UTC"), "{moment}");
    let shown: String =
        rest.split_once("\nNodes").unwrap().0.lines().map(|line| format!("{}\n", age_masked(line))).collect();
    expect![[r#"
        cells 1 · apps 1 · running 0 of 2 · unclaimed 2 · tasks pending 1

        Cells
          CELL    ZONE  STATE  INSTANCES  TASKS  MEMORY MB  DISK MB  CONTAINERS  ADDRESS
          cell-1  z1    there          0      0     0/1024   0/2048        0/10  http://127.0.0.1:1

        Apps
          APP    DOMAIN  DESIRED  RUNNING  CLAIMED  UNCLAIMED  CRASHED  NOT PLACED  WHY
          hello  demo          2        0                   2

        Instances
          INSTANCE  STATE      CELL          SINCE  CRASHES  ADDRESS  WHY
          hello/0   unclaimed  …
          hello/1   unclaimed  …
    "#]]
    .assert_eq(&shown);

    let Outcome { code, stdout, .. } = server.call(&["top", "--json"]);
    assert_eq!(code, 0);
    assert_eq!(stdout.lines().count(), 1);
    for part in
        [r#""desired":2"#, r#""cell_id":"cell-1""#, r#""migration":{"#, r#""state":"none""#, r#""is_master":true"#]
    {
        assert!(stdout.contains(part), "{part} is not in {stdout}");
    }
}

/// How long ago something was depends on the machine.
fn age_masked(line: &str) -> String {
    match line.split_once("unclaimed  ") {
        Some((before, _)) if line.contains("hello/") => format!("{before}unclaimed  …"),
        _ => line.to_owned(),
    }
}

#[test]
fn without_a_server_it_says_so() {
    let nobody = Operator::new(&[("POST /v1/cells/list.r1", crate::operator::GONE, "")]);
    let outcome = nobody.call(&["top"]);
    assert_eq!(outcome.code, 5, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("cannot talk to the server"), "{}", outcome.stderr);
}
