//! One call, from the first attempt to the last: which address is next, when to stop, and what to say about it.
//!
//! What an attempt does is the caller's; here is only what follows from how it ended. [`judge`] decides, and is pure.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::address::{Address, Addresses};
use super::error::{Failure, TransportKind};
use super::retry::{Nature, Repeat, Retry, chance};
use crate::DecodeError;
use crate::version::Version;

/// How a call went that did not succeed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// How many requests were sent or connections tried.
    pub made: u32,
    /// Where, each address once, in the order in which it was asked first.
    pub addresses: Vec<String>,
    /// From the first attempt to the end of the last.
    pub took: Duration,
    pub carried_out: CarriedOut,
}

/// Whether the call may have changed something although it failed. A call that only reads never does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CarriedOut {
    #[default]
    No,
    /// A request was sent, and no answer told what became of it.
    Perhaps,
}

impl Attempts {
    fn note(&mut self, address: &Address) {
        self.made += 1;
        if !self.addresses.contains(&address.shown) {
            self.addresses.push(address.shown.clone());
        }
    }

    /// What an error says behind its own words. A single attempt at a single address is told by the error itself.
    pub(super) fn told(&self) -> Told<'_> {
        Told(self)
    }
}

pub(super) struct Told<'a>(&'a Attempts);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Attempts { made, addresses, took, carried_out } = self.0;
        if *carried_out == CarriedOut::Perhaps {
            f.write_str("; the call may have been carried out")?;
        }
        if *made > 1 {
            write!(f, " ({made} attempts in {:.1} s at {})", took.as_secs_f64(), addresses.join(", "))?;
        }
        Ok(())
    }
}

/// How one attempt failed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// `sent`: the server may have read the request.
    Transport { failure: Failure, sent: bool },
    /// An answer that is none of the protocol.
    Status(StatusAnswer),
    /// A router between us and the server failed.
    Router(String),
    /// An answer that cannot be read.
    Decode(DecodeError),
    /// The server does not serve clients of our version.
    Version { server: Version, message: String },
}

#[derive(Debug)]
pub(super) struct StatusAnswer {
    pub(super) status: u16,
    pub(super) phase: Option<String>,
    pub(super) retry_after_s: Option<u64>,
    pub(super) location: Option<String>,
    /// The server says in the words of the operator's API that it did nothing.
    pub(super) is_refusal: bool,
    pub(super) body: Bytes,
}

impl StatusAnswer {
    /// The server says that it did not begin: it is busy with something else, or somebody else is master.
    fn is_untouched(&self) -> bool {
        match self.status {
            503 | 429 => self.phase.is_some() || self.retry_after_s.is_some() || self.is_refusal,
            300..=499 => true,
            _ => false,
        }
    }
}

impl Trouble {
    pub(super) fn unsent(failure: Failure) -> Self {
        Self::Transport { failure, sent: false }
    }

    fn leaves_open(&self) -> CarriedOut {
        let is_certain = match self {
            Self::Transport { failure, sent } => !sent || failure.is_refusal_of_tls(*sent),
            Self::Status(answer) => answer.is_untouched(),
            Self::Version { .. } => true,
            Self::Router(_) | Self::Decode(_) => false,
        };
        if is_certain { CarriedOut::No } else { CarriedOut::Perhaps }
    }

    /// How much it tells: of the last round, the failure that tells most is reported.
    fn weight(&self) -> u8 {
        match self {
            Self::Transport {
                failure: Failure { kind: TransportKind::Refused | TransportKind::Resolve, .. }, ..
            } => 1,
            Self::Status(StatusAnswer { status: 307, .. }) => 0,
            Self::Transport { .. } => 2,
            Self::Status(_) | Self::Router(_) | Self::Decode(_) | Self::Version { .. } => 3,
        }
    }
}

/// What follows from a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing helps, or it is not ours to decide.
    Over,
    /// This address will not do better; another may.
    Elsewhere,
    /// Another address, or the same one later: after this time, if the server said so.
    Again(Option<Duration>),
    /// Somebody else is master.
    Redirect(String),
}

/// When you add a row: whatever may have been carried out is decided by `may_repeat`.
pub(super) fn judge(trouble: &Trouble, nature: Nature, repeat: Repeat) -> Verdict {
    let may_repeat = nature != Nature::Once || repeat == Repeat::Always;
    match trouble {
        Trouble::Version { .. } | Trouble::Decode(_) => Verdict::Over,
        Trouble::Transport { failure: Failure { kind: TransportKind::TooLarge, .. }, .. } => Verdict::Over,
        // Certificates do not change while a call waits.
        Trouble::Transport { failure, sent } if failure.is_refusal_of_tls(*sent) => Verdict::Elsewhere,
        Trouble::Transport { sent: false, .. } => Verdict::Again(None),
        Trouble::Transport { .. } | Trouble::Router(_) if may_repeat => Verdict::Again(None),
        Trouble::Transport { .. } | Trouble::Router(_) => Verdict::Over,
        Trouble::Status(StatusAnswer { status: 307, location: Some(location), .. }) => {
            Verdict::Redirect(location.clone())
        }
        Trouble::Status(answer @ StatusAnswer { status: 503 | 429, .. }) if answer.is_untouched() || may_repeat => {
            Verdict::Again(answer.retry_after_s.map(Duration::from_secs))
        }
        Trouble::Status(StatusAnswer { status: 500 | 502 | 504, .. }) if may_repeat => Verdict::Again(None),
        Trouble::Status(_) => Verdict::Over,
    }
}

/// What a call is bound by.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    pub(super) nature: Nature,
    pub(super) retry: Retry,
    /// Over all attempts and pauses.
    pub(super) timeout: Option<Duration>,
    /// For each attempt.
    pub(super) attempt_timeout: Option<Duration>,
    /// Of the call, with its query; redirects must lead to the same.
    pub(super) path: &'a str,
}

/// A call that got no answer of the kind it asked for.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) trouble: Trouble,
    pub(super) attempts: Attempts,
}

/// Attempts until one succeeds or there is no point in another. Each is given its address and its time limit, and must keep
/// that itself, because only it knows whether the request was sent.
pub(super) async fn travel<T, F>(
    addresses: &Addresses,
    plan: &Plan<'_>,
    // Not an async closure: of those the compiler cannot see that their futures may go to another thread.
    mut attempt: impl FnMut(Arc<Address>, Option<Duration>) -> F,
) -> Result<(T, Attempts), Lost>
where
    F: Future<Output = Result<T, Trouble>>,
{
    let started = Instant::now();
    let left = || plan.timeout.map(|limit| limit.saturating_sub(started.elapsed()));
    let is_late = || left().is_some_and(|left| left.is_zero());
    let mut attempts = Attempts::default();
    let mut rounds = 0;
    loop {
        let mut round = Round::new(addresses);
        while let Some(address) = round.waiting.pop_front() {
            attempts.note(&address);
            let limit = plan.attempt_timeout.into_iter().chain(left()).min();
            let outcome = attempt(Arc::clone(&address), limit).await;
            attempts.took = started.elapsed();
            match outcome {
                Ok(value) => {
                    addresses.answered(&address);
                    return Ok((value, attempts));
                }
                Err(trouble) => {
                    if plan.nature != Nature::Read && trouble.leaves_open() == CarriedOut::Perhaps {
                        attempts.carried_out = CarriedOut::Perhaps;
                    }
                    round.take(addresses, plan, &address, trouble);
                }
            }
            if is_late() {
                break;
            }
        }
        let trouble = round.lost.expect("a round asks at least one address, and it failed");
        rounds += 1;
        let pause = plan.retry.pause(rounds, round.asked, chance());
        // A pause that the time limit would cut short leads to nothing, so the caller is told at once.
        let is_in_time = left().is_none_or(|left| pause < left);
        if !round.is_worth_another || rounds >= plan.retry.rounds_max || !is_in_time {
            return Err(Lost { trouble, attempts });
        }
        tokio::time::sleep(pause).await;
    }
}

/// One walk through the addresses.
struct Round {
    waiting: VecDeque<Arc<Address>>,
    /// Those that a redirect must not lead to again.
    asked_already: Vec<String>,
    redirects: u32,
    lost: Option<Trouble>,
    is_worth_another: bool,
    /// The longest time that a server asked us to wait.
    asked: Option<Duration>,
}

impl Round {
    fn new(addresses: &Addresses) -> Self {
        let waiting = addresses.round();
        Self { waiting, asked_already: Vec::new(), redirects: 0, lost: None, is_worth_another: false, asked: None }
    }

    fn take(&mut self, addresses: &Addresses, plan: &Plan<'_>, address: &Arc<Address>, trouble: Trouble) {
        self.asked_already.push(address.shown.clone());
        match judge(&trouble, plan.nature, plan.retry.repeat) {
            Verdict::Over => {
                if !matches!(trouble, Trouble::Transport { .. }) {
                    addresses.answered(address);
                }
                self.waiting.clear();
                self.is_worth_another = false;
                self.lost = Some(trouble);
                return;
            }
            Verdict::Elsewhere => {}
            Verdict::Again(after) => {
                self.is_worth_another = true;
                self.asked = self.asked.max(after);
            }
            Verdict::Redirect(location) => self.redirect(addresses, plan, address, &location),
        }
        if self.lost.as_ref().is_none_or(|lost| lost.weight() <= trouble.weight()) {
            self.lost = Some(trouble);
        }
    }

    /// The address that a redirect names is next. One that was asked already is not asked again before the pause: masters
    /// change, and two nodes may each believe for a moment that the other one is it.
    fn redirect(&mut self, addresses: &Addresses, plan: &Plan<'_>, from: &Address, location: &str) {
        let there = addresses.redirected(from, location, plan.path).filter(|_| plan.retry.redirects_max > 0);
        let Some(there) = there else { return };
        self.is_worth_another = true;
        if self.redirects == plan.retry.redirects_max || self.asked_already.contains(&there.shown) {
            return;
        }
        self.redirects += 1;
        self.waiting.retain(|waiting| waiting.shown != there.shown);
        self.waiting.push_front(there);
    }
}

#[cfg(test)]
mod tests;
