//! One lock: waiting for it, keeping it, and knowing when it is lost.
//!
//! Promise: as long as nobody was told that the lock is lost, no other owner can have it. Locket forgets a lock when its time
//! has passed since it was last asked for. That is counted here from the moment at which the last call that succeeded was
//! *sent*, so Locket's count ends later than ours, and a tenth is left off for clocks that do not run equally fast.
//!
//! Diego's clients give up at the first error of any kind, so that a restart of Locket, or of its database, stops every
//! server that holds a lock. That is more than safety asks for: until the time is over, the lock cannot be anybody else's,
//! whatever went wrong on the way to it. So a call that failed is made again, and the lock is lost in three cases only:
//! Locket says that it belongs to somebody else; no call succeeded until the time was over; or one did succeed, but its
//! answer came after that, when somebody may have had the lock in between (the machine slept, or the process was stopped).
//!
//! There is one call at a time. Whoever gives the lock back does so after the last call that asked for it has ended;
//! otherwise the two might overtake each other, and the lock would stay taken by somebody who has ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{Client, Kind, LocketError, Resource};

/// Diego's time limit for locks.
pub const TTL: Duration = Duration::from_secs(15);
/// How long after the last answer the next call is made, by whoever holds a lock and by whoever waits for it.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// How long one call may take.
const CALL_LIMIT: Duration = Duration::from_secs(3);
/// Of so many attempts by somebody who waits, one is followed by the question who has the lock.
const ASK_FOR_OWNER_EVERY: u32 = 5;

/// Which lock, for whom.
#[derive(Clone, Debug)]
pub struct Terms {
    pub key: String,
    /// Another holder must call itself something else.
    pub owner: String,
    pub ttl: Duration,
    pub interval: Duration,
}

impl Terms {
    pub fn new(key: &str, owner: &str) -> Self {
        Self { key: key.to_owned(), owner: owner.to_owned(), ttl: TTL, interval: INTERVAL }
    }

    fn resource(&self) -> Resource {
        Resource { key: self.key.clone(), owner: self.owner.clone(), value: String::new(), kind: Kind::Lock }
    }
}

/// Whose lock it is: what it reads from its machine, and what it is told.
pub trait Holder: Send + Sync + 'static {
    /// A time that passes also while the machine sleeps, and that nobody can set.
    fn uptime_ns(&self) -> u64;
    /// A name that nobody has used before.
    fn fresh_id(&self) -> Arc<str>;
    /// Somebody else has the lock, or Locket does not answer.
    fn waits(&self, waiting: &Waiting);
    /// The lock is held for its time limit, counted from `sent_ns`.
    fn renewed(&self, sent_ns: u64);
    /// Others may have it from now on. Told once.
    fn lost(&self, why: &str);
}

/// What somebody who waits for a lock knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Who had it when that was last asked.
    pub owner: Option<String>,
    /// What is wrong with Locket, if something is.
    pub trouble: Option<String>,
}

/// A lock that is held, or was until [`Holder::lost`] was called. Dropping it lets the time run out.
#[derive(Debug)]
pub struct LockSession {
    client: Client,
    terms: Terms,
    stop: watch::Sender<bool>,
    keeping: JoinHandle<Kept>,
}

/// What became of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// Still held when nobody wanted it any more.
    ToTheEnd,
    Lost,
}

impl LockSession {
    /// Waits for the lock. Returns `None` if told to stop before it was there, and an error only for what asking again does
    /// not change.
    pub async fn acquire(
        client: Client,
        terms: Terms,
        holder: Arc<dyn Holder>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Option<Self>, LocketError> {
        let mut waiting = Waiting::default();
        for attempt in 0.. {
            let sent_ns = holder.uptime_ns();
            let outcome = client.lock(&terms.resource(), terms.ttl, &holder.fresh_id(), CALL_LIMIT).await;
            let is_stopped = *stop.borrow();
            match outcome {
                Ok(()) if is_stopped => {
                    give_back(&client, &terms).await;
                    return Ok(None);
                }
                Ok(()) => {
                    // An answer that took longer than the lock is worth nothing, and the next call tells.
                    if let Some(session) = Self::begin(&client, &terms, &holder, sent_ns) {
                        return Ok(Some(session));
                    }
                    continue;
                }
                Err(LocketError::Collision { .. }) => {
                    if attempt % ASK_FOR_OWNER_EVERY == 0 || waiting.trouble.is_some() || waiting.owner.is_none() {
                        waiting.owner = client.fetch(&terms.key, CALL_LIMIT).await.ok().map(|held| held.owner);
                    }
                    waiting.trouble = None;
                }
                Err(error) if is_stopped => {
                    // It may have been granted without our hearing of it.
                    tracing::debug!(%error, "the last attempt to get the lock failed");
                    give_back(&client, &terms).await;
                    return Ok(None);
                }
                Err(error) if error.retryable() => waiting.trouble = Some(error.to_string()),
                Err(error) => return Err(error),
            }
            holder.waits(&waiting);
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return Ok(None),
                () = sleep(terms.interval) => {}
            }
        }
        Ok(None)
    }

    fn begin(client: &Client, terms: &Terms, holder: &Arc<dyn Holder>, sent_ns: u64) -> Option<Self> {
        let tenure = Tenure::new(terms.ttl, sent_ns);
        if tenure.left(holder.uptime_ns()).is_zero() {
            return None;
        }
        holder.renewed(sent_ns);
        let (stop, stopped) = watch::channel(false);
        let keeping = keep(client.clone(), terms.clone(), holder.clone(), tenure, stopped);
        Some(Self { client: client.clone(), terms: terms.clone(), stop, keeping: tokio::spawn(keeping) })
    }

    /// Gives the lock back, so that nobody has to wait for its time to pass. Nothing is asked of Locket if it was lost.
    pub async fn release(self) {
        self.stop.send_replace(true);
        if matches!(self.keeping.await, Ok(Kept::ToTheEnd)) {
            give_back(&self.client, &self.terms).await;
        }
    }
}

async fn give_back(client: &Client, terms: &Terms) {
    match client.release(&terms.resource(), CALL_LIMIT).await {
        Ok(()) => tracing::info!(lock = terms.key, "the lock is given back"),
        // Between the last answer and this one somebody else got it.
        Err(LocketError::Collision { .. }) => {}
        Err(error) => {
            let ttl_s = terms.ttl.as_secs();
            tracing::warn!(%error, "the lock could not be given back; others get it when its {ttl_s} s are over");
        }
    }
}

async fn keep(
    client: Client,
    terms: Terms,
    holder: Arc<dyn Holder>,
    mut tenure: Tenure,
    mut stop: watch::Receiver<bool>,
) -> Kept {
    let resource = terms.resource();
    let mut trouble: Option<LocketError> = None;
    loop {
        let pause = terms.interval.min(tenure.left(holder.uptime_ns()));
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return Kept::ToTheEnd,
            () = sleep(pause) => {}
        }
        let sent_ns = holder.uptime_ns();
        let limit = CALL_LIMIT.min(tenure.left(sent_ns));
        let outcome = match limit.is_zero() {
            true => Err(Tenure::ended(trouble.as_ref())),
            false => {
                let called = client.lock(&resource, terms.ttl, &holder.fresh_id(), limit).await;
                tenure.judge(called, sent_ns, holder.uptime_ns())
            }
        };
        match outcome {
            Ok(Verdict::Renewed) => {
                holder.renewed(sent_ns);
                if trouble.take().is_some() {
                    tracing::info!(lock = terms.key, "the lock is renewed again");
                }
            }
            Ok(Verdict::Unsure { error }) => {
                if trouble.is_none() {
                    let left_s = tenure.left(holder.uptime_ns()).as_secs();
                    tracing::warn!(%error, left_s, "the lock was not renewed; it is still ours, and asked for again");
                }
                trouble = Some(error);
            }
            Err(why) => {
                holder.lost(&why);
                return Kept::Lost;
            }
        }
    }
}

/// How long the lock is certainly ours.
#[derive(Debug)]
struct Tenure {
    /// When the last call that succeeded was sent.
    sent_ns: u64,
    /// The time limit without its margin.
    certain_ns: u64,
}

#[derive(Debug)]
enum Verdict {
    Renewed,
    /// The call failed, and the lock is ours all the same.
    Unsure {
        error: LocketError,
    },
}

impl Tenure {
    fn new(ttl: Duration, sent_ns: u64) -> Self {
        let certain = ttl.saturating_sub(ttl / 10);
        Self { sent_ns, certain_ns: u64::try_from(certain.as_nanos()).unwrap_or(u64::MAX) }
    }

    fn left(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(self.sent_ns.saturating_add(self.certain_ns).saturating_sub(now_ns))
    }

    /// Why a lock is lost whose time is over.
    fn ended(last: Option<&LocketError>) -> String {
        let why = "no call to Locket succeeded before its time was over";
        last.map_or_else(|| why.to_owned(), |error| format!("{why}. The last one: {error}"))
    }

    /// What a call that was sent and answered at these moments means, or why the lock is lost.
    fn judge(&mut self, outcome: Result<(), LocketError>, sent_ns: u64, now_ns: u64) -> Result<Verdict, String> {
        match outcome {
            Err(LocketError::Collision { .. }) => Err("Locket says that it belongs to somebody else".to_owned()),
            Ok(()) if self.left(now_ns).is_zero() => {
                Err("Locket's answer came after its time was over, and somebody else may have had it since".to_owned())
            }
            Ok(()) => {
                self.sent_ns = sent_ns;
                Ok(Verdict::Renewed)
            }
            Err(error) if self.left(now_ns).is_zero() => Err(Self::ended(Some(&error))),
            Err(error) => Ok(Verdict::Unsure { error }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::expect;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn error(kind: &str) -> LocketError {
        let doing = "asking".to_owned();
        match kind {
            "taken" => LocketError::Collision { doing },
            "silent" => LocketError::Unreachable { doing, address: "a:1".into(), why: "silence".into() },
            "invalid" => LocketError::Invalid { doing, message: "invalid-ttl".into() },
            _ => LocketError::Failed { doing, code: tonic::Code::Unknown, message: "sql-deadlock".into() },
        }
    }

    /// Each row: when a call was sent and answered, in seconds, and how.
    #[test]
    fn when_a_lock_is_lost() {
        let mut text = String::new();
        for calls in [
            &[(1, 1, "ok"), (13, 14, "ok"), (25, 26, "ok")][..],
            &[(1, 1, "silent"), (2, 5, "failed"), (6, 6, "invalid"), (12, 13, "ok"), (25, 26, "silent")],
            &[(1, 1, "taken")],
            &[(5, 5, "ok"), (18, 18, "silent"), (18, 19, "silent")],
            &[(13, 14, "ok")],
            // The machine slept, and the lock was free again when it woke.
            &[(1, 1, "ok"), (2, 100, "ok")],
            &[(100, 100, "ok")],
        ] {
            let mut tenure = Tenure::new(TTL, 0);
            for (sent, answered, how) in calls {
                let outcome = if *how == "ok" { Ok(()) } else { Err(error(how)) };
                let verdict = tenure.judge(outcome, sent * SECOND, answered * SECOND);
                let verdict = match verdict {
                    Ok(Verdict::Renewed) => format!("ours for {:?}", tenure.left(answered * SECOND)),
                    Ok(Verdict::Unsure { .. }) => format!("still ours for {:?}", tenure.left(answered * SECOND)),
                    Err(why) => format!("lost: {why}"),
                };
                writeln!(text, "{sent}-{answered} {how}: {verdict}").unwrap();
            }
            text.push('\n');
        }
        expect![[r#"
            1-1 ok: ours for 13.5s
            13-14 ok: ours for 12.5s
            25-26 ok: ours for 12.5s

            1-1 silent: still ours for 12.5s
            2-5 failed: still ours for 8.5s
            6-6 invalid: still ours for 7.5s
            12-13 ok: ours for 12.5s
            25-26 silent: lost: no call to Locket succeeded before its time was over. The last one: asking: Locket at a:1 does not answer: silence

            1-1 taken: lost: Locket says that it belongs to somebody else

            5-5 ok: ours for 13.5s
            18-18 silent: still ours for 500ms
            18-19 silent: lost: no call to Locket succeeded before its time was over. The last one: asking: Locket at a:1 does not answer: silence

            13-14 ok: lost: Locket's answer came after its time was over, and somebody else may have had it since

            1-1 ok: ours for 13.5s
            2-100 ok: lost: Locket's answer came after its time was over, and somebody else may have had it since

            100-100 ok: lost: Locket's answer came after its time was over, and somebody else may have had it since

        "#]].assert_eq(&text);
    }
}
