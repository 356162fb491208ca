//! The keeper on a store: the rules of Locket over keys that every node of the store sees.

use std::time::Duration;

use bbs::shelf::{Outcome, Shelf};
use locket::book::{Asked, check_lengths, kind_of, understood};
use locket::keeper::Later;
use locket::{Keeper, Refusal, Resource};
use store::StoreError;

/// The rules of Locket over the keys of a store.
#[derive(Debug)]
pub(crate) struct OnStore(pub(crate) Shelf);

impl OnStore {
    async fn take(&self, asked: Option<Asked>, ttl_s: i64) -> Result<(), Refusal> {
        let (resource, ttl_s) = understood(asked, ttl_s)?;
        let fits = check_lengths(&resource.key, &resource.owner, &resource.value);
        if let Err(too_long) = fits {
            // Whose key it is comes first, as in Diego's database.
            let held = self.0.get(&resource.key).await.map_err(unavailable)?;
            return Err(held.filter(|held| held.owner != resource.owner).map_or(too_long, |_| Refusal::Collision));
        }
        match self.0.take(&resource, Duration::from_secs(ttl_s)).await.map_err(unavailable)? {
            Outcome::Done => Ok(()),
            Outcome::SomebodyElses { .. } => Err(Refusal::Collision),
        }
    }

    async fn give_back(&self, asked: Option<Asked>) -> Result<(), Refusal> {
        let asked = asked.ok_or(Refusal::NoResource)?;
        match self.0.give_back(&asked.key, &asked.owner).await.map_err(unavailable)? {
            Outcome::Done => Ok(()),
            Outcome::SomebodyElses { .. } => Err(Refusal::Collision),
        }
    }
}

impl Keeper for OnStore {
    fn lock(&self, asked: Option<Asked>, ttl_s: i64) -> Later<'_, Result<(), Refusal>> {
        Box::pin(self.take(asked, ttl_s))
    }

    fn release(&self, asked: Option<Asked>) -> Later<'_, Result<(), Refusal>> {
        Box::pin(self.give_back(asked))
    }

    fn fetch(&self, key: String) -> Later<'_, Result<Resource, Refusal>> {
        Box::pin(async move { self.0.get(&key).await.map_err(unavailable)?.ok_or(Refusal::NotFound) })
    }

    fn fetch_all(&self, type_code: i32) -> Later<'_, Result<Vec<Resource>, Refusal>> {
        Box::pin(async move { self.0.list(kind_of(type_code)?).await.map_err(unavailable) })
    }
}

fn unavailable(error: StoreError) -> Refusal {
    match error {
        StoreError::TooLarge { .. } => Refusal::Full,
        error => Refusal::Unavailable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use locket::Desk;
    use proptest::prelude::*;
    use store::memory::Memory;

    use super::*;

    #[derive(Clone, Debug)]
    enum Call {
        Lock(Option<Asked>, i64),
        Release(Option<Asked>),
        Fetch(String),
        FetchAll(i32),
    }

    fn asked() -> impl Strategy<Value = Option<Asked>> {
        // The longest there are, in characters and in bytes, and one character more.
        let key = prop_oneof!["[ab]{0,2}", Just("k".repeat(256)), Just("\u{10348}".repeat(255))];
        let owner = prop_oneof![Just(String::new()), "[xy]", Just("o".repeat(256)), Just("\u{10348}".repeat(255))];
        let value = prop_oneof!["[a-z]{0,3}", Just("v".repeat(4097))];
        let resource = (key, owner, value, 0..4_i32).prop_map(|(key, owner, value, type_code)| Asked {
            key,
            owner,
            value,
            r#type: String::new(),
            type_code,
        });
        proptest::option::weighted(0.95, resource)
    }

    fn call() -> impl Strategy<Value = Call> {
        prop_oneof![
            4 => (asked(), prop_oneof![-1..1000_i64, Just(i64::MAX)]).prop_map(|(asked, ttl_s)| Call::Lock(asked, ttl_s)),
            2 => asked().prop_map(Call::Release),
            1 => "[ab]{0,2}".prop_map(Call::Fetch),
            1 => (0..4_i32).prop_map(Call::FetchAll),
        ]
    }

    async fn outcome(keeper: &dyn Keeper, call: Call) -> String {
        match call {
            Call::Lock(asked, ttl_s) => format!("{:?}", keeper.lock(asked, ttl_s).await),
            Call::Release(asked) => format!("{:?}", keeper.release(asked).await),
            Call::Fetch(key) => format!("{:?}", keeper.fetch(key).await),
            Call::FetchAll(type_code) => format!("{:?}", keeper.fetch_all(type_code).await),
        }
    }

    proptest! {
        /// Nobody can tell a Locket on a store from one in memory.
        #[test]
        fn both_keepers_answer_alike(calls in proptest::collection::vec(call(), 1..40)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let (desk, on_store) = (Desk::default(), OnStore(Shelf::new(Arc::new(Memory::new()))));
            for call in calls {
                let (expected, found) = runtime.block_on(async {
                    (outcome(&desk, call.clone()).await, outcome(&on_store, call.clone()).await)
                });
                prop_assert_eq!(expected, found, "{:?}", call);
            }
        }
    }
}
