//! What is desired runs after every start, however the one before ended.

use std::time::Duration;
use tokio::time::Instant;

use rustix::process::{Signal, kill_process};

use super::site::{PATIENCE, Site};

/// Far below the 30 seconds after which a cluster would look again; machines that test are slow.
const SOON: Duration = Duration::from_secs(15);

#[test]
fn apps_run_again_after_a_stop_in_order_and_after_none() {
    let mut site = Site::start(3);
    let outcome = site.run_hello(&["--instances", "3", "--env", "LINGER=200ms"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let first = site.until_answered_by(3);
    assert_eq!(site.app_processes().len(), 6, "each instance and its parent");

    site.stop_in_order();
    let began = Instant::now();
    site.start_again(&[]);
    let second = site.until_answered_by(3);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(first.iter().all(|guid| !second.contains(guid)), "they were stopped, and these are new");

    site.kill();
    assert_eq!(site.app_processes().len(), 6, "apps do not notice");
    let began = Instant::now();
    site.start_again(&[]);
    assert_eq!(site.until_answered_by(3), second, "they are found again");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());

    let outcome = site.call(&["stop-app", "hello"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "hello is stopped\n"));
    site.stop_in_order();
}

/// As after a power cut: nothing of what ran is there, and the records say that it is.
#[test]
fn apps_run_again_when_everything_died_with_it() {
    let mut site = Site::start(10);
    let outcome = site.run_hello(&["--instances", "2"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    site.kill();
    for process in site.app_processes() {
        // The parent of one that was killed before may have ended by itself.
        let _ = kill_process(process, Signal::KILL);
    }
    let began = Instant::now();
    site.start_again(&[]);
    site.until_answered_by(2);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    site.stop_in_order();
}

/// In a hurry, apps are left as they are, as if it had been killed.
#[test]
fn a_second_signal_ends_at_once_and_apps_run_on() {
    let mut site = Site::start(4);
    let outcome = site.run_hello(&["--env", "LINGER=1m"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    site.process.signal(Signal::INT);
    site.process.lines_until(|line| line.starts_with("Stopping, with the one instance that runs."));
    site.process.signal(Signal::INT);
    assert_eq!(site.process.wait().code(), Some(128 + 2));
    assert_eq!(site.app_processes().len(), 2);
    site.start_again(&[]);
    site.until_answered_by(1);
}

/// Nobody would look after what runs on cells that are not there any more.
#[test]
fn fewer_cells_leave_nothing_behind() {
    let mut site = Site::start(5);
    let outcome = site.run_hello(&["--instances", "2", "--env", "LINGER=0"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    site.kill();
    assert_eq!(site.app_processes().len(), 4);
    site.start_again(&["--cells", "1"]);
    let began = Instant::now();
    while site.app_processes().len() > 2 {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
    let cells = site.call(&["cells"]).stdout;
    assert_eq!(cells.lines().count(), 1, "{cells}");
    site.stop_in_order();
}

#[test]
fn requests_in_flight_are_answered_when_it_stops() {
    let mut site = Site::start(6);
    let outcome = site.run_hello(&[]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let router = site.router.clone();
    let slow = std::thread::spawn(move || {
        super::site::get(router.strip_prefix("http://").unwrap(), "hello.local", "/slow?ms=4000")
    });
    let began = Instant::now();
    while !site.call(&["logs", "hello"]).stdout.contains("answering in 4000 ms") {
        assert!(began.elapsed() < PATIENCE);
    }
    site.process.signal(Signal::TERM);
    let (status, text) = slow.join().unwrap().unwrap();
    assert_eq!(status, 200);
    assert!(text.starts_with("message: "), "{text}");
    assert_eq!(site.process.wait().code(), Some(0));
    assert_eq!(site.app_processes(), []);
}
