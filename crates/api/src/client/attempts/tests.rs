//! What follows from how attempts end: the table, and whole journeys in virtual time.

use std::cell::RefCell;
use std::fmt::Write;

use expect_test::expect;

use super::*;

fn failure(kind: TransportKind) -> Failure {
    Failure { kind, source: None }
}

fn unsent(kind: TransportKind) -> Trouble {
    Trouble::unsent(failure(kind))
}

fn sent(kind: TransportKind) -> Trouble {
    Trouble::Transport { failure: failure(kind), sent: true }
}

fn tls(error: rustls::Error, sent: bool) -> Trouble {
    Trouble::Transport { failure: Failure::from_error(std::io::Error::other(error)), sent }
}

fn status(status: u16) -> StatusAnswer {
    StatusAnswer { status, phase: None, retry_after_s: None, location: None, is_refusal: false, body: Bytes::new() }
}

fn busy(retry_after_s: u64) -> Trouble {
    Trouble::Status(StatusAnswer { retry_after_s: Some(retry_after_s), ..status(503) })
}

fn redirect(to: &str) -> Trouble {
    Trouble::Status(StatusAnswer { location: Some(format!("{to}/v1/ping")), ..status(307) })
}

#[test]
fn what_follows_from_each_end() {
    use rustls::AlertDescription::{CertificateRequired, InternalError};
    let server = Version { major: 9, minor: 0, patch: 0 };
    let rows = [
        ("refused", unsent(TransportKind::Refused)),
        ("no address", unsent(TransportKind::Resolve)),
        ("connecting too slow", unsent(TransportKind::Timeout)),
        ("handshake cut", unsent(TransportKind::Closed)),
        ("not trusted", tls(rustls::Error::NoCertificatesPresented, false)),
        ("we are not trusted", tls(rustls::Error::AlertReceived(CertificateRequired), true)),
        ("server broke down in TLS", tls(rustls::Error::AlertReceived(InternalError), true)),
        ("sent, no answer", sent(TransportKind::Timeout)),
        ("sent, closed", sent(TransportKind::Closed)),
        ("answer too large", sent(TransportKind::TooLarge)),
        ("503 with phase", Trouble::Status(StatusAnswer { phase: Some("loading".into()), ..status(503) })),
        ("503 with Retry-After", busy(2)),
        ("503 refusal", Trouble::Status(StatusAnswer { is_refusal: true, ..status(503) })),
        ("503", Trouble::Status(status(503))),
        ("429 with Retry-After", Trouble::Status(StatusAnswer { retry_after_s: Some(1), ..status(429) })),
        ("307", redirect("http://b")),
        ("307 without Location", Trouble::Status(status(307))),
        ("500", Trouble::Status(status(500))),
        ("502", Trouble::Status(status(502))),
        ("404", Trouble::Status(status(404))),
        ("router", Trouble::Router("endpoint_failure".into())),
        ("unreadable", Trouble::Decode(crate::decode::<crate::models::Error>([0x0a]).unwrap_err())),
        ("version", Trouble::Version { server, message: String::new() }),
    ];
    let mut table = String::new();
    for (name, trouble) in rows {
        let harmless = judge(&trouble, Nature::Harmless, Repeat::IfHarmless);
        assert_eq!(judge(&trouble, Nature::Read, Repeat::IfHarmless), harmless);
        assert_eq!(judge(&trouble, Nature::Once, Repeat::Always), harmless, "if the caller says so");
        let once = judge(&trouble, Nature::Once, Repeat::IfHarmless);
        let (harmless, once) = (format!("{harmless:?}"), format!("{once:?}"));
        writeln!(table, "{name:25}{:8} {harmless:35}{once}", format!("{:?}", trouble.leaves_open())).unwrap();
    }
    expect![[r#"
        refused                  No       Again(None)                        Again(None)
        no address               No       Again(None)                        Again(None)
        connecting too slow      No       Again(None)                        Again(None)
        handshake cut            No       Again(None)                        Again(None)
        not trusted              No       Elsewhere                          Elsewhere
        we are not trusted       No       Elsewhere                          Elsewhere
        server broke down in TLS Perhaps  Again(None)                        Over
        sent, no answer          Perhaps  Again(None)                        Over
        sent, closed             Perhaps  Again(None)                        Over
        answer too large         Perhaps  Over                               Over
        503 with phase           No       Again(None)                        Again(None)
        503 with Retry-After     No       Again(Some(2s))                    Again(Some(2s))
        503 refusal              No       Again(None)                        Again(None)
        503                      Perhaps  Again(None)                        Over
        429 with Retry-After     No       Again(Some(1s))                    Again(Some(1s))
        307                      No       Redirect("http://b/v1/ping")       Redirect("http://b/v1/ping")
        307 without Location     No       Over                               Over
        500                      Perhaps  Again(None)                        Over
        502                      Perhaps  Again(None)                        Over
        404                      No       Over                               Over
        router                   Perhaps  Again(None)                        Over
        unreadable               Perhaps  Over                               Over
        version                  No       Over                               Over
    "#]]
    .assert_eq(&table);
}

fn plan(change: impl FnOnce(&mut Plan<'static>)) -> Plan<'static> {
    let (retry, timeout, attempt_timeout) = (Retry::default(), None, None);
    let mut plan = Plan { nature: Nature::Read, retry, timeout, attempt_timeout, path: "/v1/ping" };
    change(&mut plan);
    plan
}

fn addresses() -> Addresses {
    let urls = ["http://a", "http://b", "http://localhost:3"].map(str::to_owned);
    Addresses::new(&urls, None).unwrap()
}

/// Walks with attempts that end as `script` says, and tells at which address each was and after how long.
async fn walk(
    addresses: &Addresses,
    plan: Plan<'_>,
    mut script: impl FnMut(usize, &str) -> Result<(), Trouble>,
) -> (Vec<(String, Duration)>, Result<Attempts, Lost>) {
    let began = Instant::now();
    let made = RefCell::new(Vec::new());
    let outcome = travel(addresses, &plan, |address, _| {
        made.borrow_mut().push((address.shown.clone(), began.elapsed()));
        let number = made.borrow().len();
        std::future::ready(script(number, &address.shown))
    });
    let outcome = outcome.await.map(|((), attempts)| attempts);
    (made.into_inner(), outcome)
}

fn where_to(made: &[(String, Duration)]) -> Vec<&str> {
    made.iter().map(|(address, _)| address.trim_start_matches("http://")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_round_asks_everybody_without_waiting() {
    let addresses = addresses();
    let (made, outcome) = walk(&addresses, plan(|_| {}), |_, at| match at {
        "http://localhost:3" => Ok(()),
        _ => Err(unsent(TransportKind::Refused)),
    })
    .await;
    assert_eq!(where_to(&made), ["a", "b", "localhost:3"]);
    assert!(made.iter().all(|(_, after)| after.is_zero()), "{made:?}");
    assert_eq!(outcome.unwrap().made, 3);
    let (made, _) = walk(&addresses, plan(|_| {}), |_, _| Ok(())).await;
    assert_eq!(where_to(&made), ["localhost:3"], "the one that answered is remembered");
}

#[tokio::test(start_paused = true)]
async fn rounds_end_and_their_pauses_grow() {
    let retry = Retry { rounds_max: 5, ..Retry::default() };
    let (made, outcome) =
        walk(&addresses(), plan(|plan| plan.retry = retry), |_, _| Err(unsent(TransportKind::Refused))).await;
    let attempts = outcome.unwrap_err().attempts;
    assert_eq!((made.len(), attempts.made), (15, 15));
    assert_eq!(attempts.addresses, ["http://a", "http://b", "http://localhost:3"]);
    assert_eq!(attempts.carried_out, CarriedOut::No);
    for round in 1..5 {
        let pause = made[round * 3].1 - made[round * 3 - 1].1;
        let longest = Duration::from_millis(100 << (round - 1)) + Duration::from_millis(1);
        assert!(pause <= longest, "after round {round}: {pause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn once_is_one_round() {
    let retry = Retry::once();
    let (made, outcome) = walk(&addresses(), plan(|plan| plan.retry = retry), |_, _| Err(busy(1))).await;
    assert_eq!(where_to(&made), ["a", "b", "localhost:3"]);
    assert!(outcome.is_err() && made[2].1.is_zero());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_time_gets_it() {
    let (made, outcome) =
        walk(&addresses(), plan(|_| {}), |number, _| if number <= 3 { Err(busy(7)) } else { Ok(()) }).await;
    assert!(outcome.is_ok());
    assert!(made[3].1 >= Duration::from_secs(7) && made[3].1 <= Duration::from_millis(7101), "{made:?}");
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_ends_everything() {
    let limit = Some(Duration::from_secs(10));
    let stubborn = |plan: &mut Plan<'static>| (plan.timeout, plan.retry) = (limit, Retry::forever());
    let (made, outcome) = walk(&addresses(), plan(stubborn), |_, _| Err(unsent(TransportKind::Refused))).await;
    assert!(outcome.unwrap_err().attempts.took <= Duration::from_secs(10));
    assert!(made.len() > 10, "{made:?}");

    let began = Instant::now();
    let (made, outcome) = walk(&addresses(), plan(stubborn), |_, _| Err(busy(60))).await;
    assert_eq!((made.len(), outcome.is_err()), (3, true));
    assert!(began.elapsed().is_zero(), "a pause that cannot lead to anything is not begun");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_gets_what_is_left_of_the_limits() {
    let limits = RefCell::new(Vec::new());
    let plan = plan(|plan| {
        plan.timeout = Some(Duration::from_secs(10));
        plan.attempt_timeout = Some(Duration::from_secs(4));
    });
    let addresses = addresses();
    let outcome = travel(&addresses, &plan, |_, limit: Option<Duration>| {
        limits.borrow_mut().push(limit.unwrap().as_secs());
        async move {
            tokio::time::sleep(limit.unwrap()).await;
            Err::<(), _>(sent(TransportKind::Timeout))
        }
    });
    let lost = outcome.await.unwrap_err();
    assert_eq!(limits.into_inner(), [4, 4, 2]);
    assert_eq!(lost.attempts.took, Duration::from_secs(10));
    assert_eq!(lost.attempts.carried_out, CarriedOut::No, "it only reads");
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_carried_out_stays_so() {
    let harmless = plan(|plan| (plan.nature, plan.retry) = (Nature::Harmless, Retry::once()));
    let (made, outcome) = walk(&addresses(), harmless, |number, _| {
        Err(if number == 1 { sent(TransportKind::Closed) } else { unsent(TransportKind::Refused) })
    })
    .await;
    let lost = outcome.unwrap_err();
    assert_eq!((made.len(), lost.attempts.carried_out), (3, CarriedOut::Perhaps));
    assert!(matches!(lost.trouble, Trouble::Transport { sent: true, .. }), "the failure that tells most");

    let once = plan(|plan| plan.nature = Nature::Once);
    let (made, outcome) = walk(&addresses(), once, |_, _| Err(sent(TransportKind::Closed))).await;
    assert_eq!((made.len(), outcome.unwrap_err().attempts.carried_out), (1, CarriedOut::Perhaps));
}

#[tokio::test(start_paused = true)]
async fn a_redirect_is_followed_and_remembered() {
    let addresses = addresses();
    let (made, _) = walk(&addresses, plan(|_| {}), |_, at| match at {
        "http://a" => Err(redirect("http://127.0.0.1:9")),
        _ => Ok(()),
    })
    .await;
    assert_eq!(where_to(&made), ["a", "127.0.0.1:9"]);
    let (made, _) = walk(&addresses, plan(|_| {}), |_, _| Ok(())).await;
    assert_eq!(where_to(&made), ["127.0.0.1:9"]);
    let (made, _) = walk(&addresses, plan(|_| {}), |number, _| match number {
        1 => Err(unsent(TransportKind::Refused)),
        _ => Ok(()),
    })
    .await;
    assert_eq!(where_to(&made), ["127.0.0.1:9", "a"], "what it led to is no longer there");
}

#[tokio::test(start_paused = true)]
async fn redirects_in_a_circle_end() {
    let retry = Retry { rounds_max: 2, ..Retry::default() };
    let (made, outcome) = walk(&addresses(), plan(|plan| plan.retry = retry), |_, at| {
        Err(redirect(if at == "http://a" { "http://b" } else { "http://a" }))
    })
    .await;
    assert_eq!(where_to(&made), ["a", "b", "localhost:3", "a", "b", "localhost:3"]);
    assert!(made[3].1 > Duration::ZERO, "it may be an election, so there is another round");
    assert!(matches!(outcome.unwrap_err().trouble, Trouble::Status(StatusAnswer { status: 307, .. })));
}

#[tokio::test(start_paused = true)]
async fn redirects_without_end_end() {
    let once = |redirects_max| plan(|plan| plan.retry = Retry { redirects_max, ..Retry::once() });
    let endless = |number: usize, _: &str| Err(redirect(&format!("http://127.0.0.1:{}", 100 + number)));
    let (made, _) = walk(&addresses(), once(5), endless).await;
    assert_eq!(made.len(), 3 + 5, "{made:?}");
    let (made, _) = walk(&addresses(), once(0), endless).await;
    assert_eq!(where_to(&made), ["a", "b", "localhost:3"]);
}

#[tokio::test(start_paused = true)]
async fn a_redirect_that_is_not_safe_is_not_followed() {
    let (made, _) = walk(&addresses(), plan(|plan| plan.retry = Retry::once()), |_, at| match at {
        "http://a" => Err(redirect("http://evil.example.org")),
        _ => Ok(()),
    })
    .await;
    assert_eq!(where_to(&made), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_final_answer_ends_the_walk() {
    let (made, outcome) = walk(&addresses(), plan(|_| {}), |_, at| match at {
        "http://a" => Err(busy(1)),
        _ => Err(Trouble::Status(status(404))),
    })
    .await;
    assert_eq!(where_to(&made), ["a", "b"]);
    assert!(matches!(outcome.unwrap_err().trouble, Trouble::Status(StatusAnswer { status: 404, .. })));
}
