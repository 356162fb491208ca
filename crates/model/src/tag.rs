//! Modification tags let consumers order two versions of a record.

use std::fmt;
use std::sync::Arc;

/// A random epoch per record creation, and an index that grows with each change.
#[derive(Clone, PartialEq, Eq)]
pub struct ModificationTag {
    pub epoch: Arc<str>,
    pub index: u32,
}

impl ModificationTag {
    /// The tag of a record that was just created. The epoch is drawn by the caller.
    pub fn first(epoch: Arc<str>) -> Self {
        Self { epoch, index: 0 }
    }

    #[must_use]
    pub fn next(&self) -> Self {
        Self { epoch: self.epoch.clone(), index: self.index.wrapping_add(1) }
    }

    /// Whether a consumer that holds `held` should take this tag's record instead.
    pub fn supersedes(&self, held: Option<&ModificationTag>) -> bool {
        match held {
            None => true,
            Some(held) => {
                held.epoch.is_empty() || self.epoch.is_empty() || held.epoch != self.epoch || held.index < self.index
            }
        }
    }
}

impl fmt::Debug for ModificationTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.epoch, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(epoch: &str, index: u32) -> ModificationTag {
        ModificationTag { epoch: epoch.into(), index }
    }

    #[test]
    fn supersedes_follows_epoch_then_index() {
        let rows = [
            (None, tag("a", 0), true),
            (Some(tag("", 5)), tag("a", 0), true),
            (Some(tag("a", 5)), tag("", 0), true),
            (Some(tag("a", 5)), tag("b", 0), true),
            (Some(tag("a", 5)), tag("a", 6), true),
            (Some(tag("a", 5)), tag("a", 5), false),
            (Some(tag("a", 5)), tag("a", 4), false),
        ];
        for (held, new, expected) in rows {
            assert_eq!(new.supersedes(held.as_ref()), expected, "{held:?} -> {new:?}");
        }
    }
}
