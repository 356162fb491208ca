//! Where locks and presences are kept.
//!
//! The rules are the same wherever that is: [`crate::book`] has them, with the order in which a request is checked. A keeper
//! gets requests as they came in, applies the rules, and is the only one who knows who holds a key. Several servers may share one
//! place; then taking a key has to be one atomic step there.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::book::{Asked, Refusal, Resource};

/// A future of a trait object. A call goes over the network anyway, so what a box costs does not matter.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub trait Keeper: fmt::Debug + Send + Sync + 'static {
    /// Takes a key for its owner, or keeps it for them; refused while somebody else has it.
    fn lock(&self, asked: Option<Asked>, ttl_s: i64) -> Later<'_, Result<(), Refusal>>;
    /// Gives a key back. One that nobody has is given back already.
    fn release(&self, asked: Option<Asked>) -> Later<'_, Result<(), Refusal>>;
    fn fetch(&self, key: String) -> Later<'_, Result<Resource, Refusal>>;
    fn fetch_all(&self, type_code: i32) -> Later<'_, Result<Vec<Resource>, Refusal>>;
    /// What has to be done from time to time; never ends.
    fn look_after(&self) -> Later<'_, ()> {
        Box::pin(std::future::pending())
    }
}
