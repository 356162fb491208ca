//! Which cells welcome a start at all: root file system, volume drivers, placement tags.
//!
//! Many cells offer the same, so each distinct offer (a profile) is compared once with each distinct wish. A thousand cells
//! of three kinds cost three comparisons, however many images the apps bring along.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use api::rep::{CellState, Needs, RootfsProvider, RootfsProviders};

use super::reason::Reason;

#[derive(Debug, Default)]
pub(super) struct Filter<'c, 's> {
    profiles: HashMap<Profile<'c>, usize>,
    wishes: HashMap<Wish<'s>, usize>,
    /// For each wish, whether a profile welcomes it; or why none does.
    verdicts: Vec<Result<Vec<bool>, Reason>>,
}

type Wish<'a> = (&'a str, &'a [String], &'a [String]);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Profile<'a> {
    rootfs: &'a RootfsProviders,
    volume_drivers: BTreeSet<&'a str>,
    required_tags: BTreeSet<&'a str>,
    known_tags: BTreeSet<&'a str>,
}

/// How far a wish came; the furthest that it came anywhere is what is reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Rootfs,
    VolumeDrivers,
    PlacementTags,
    Welcome,
}

impl<'c, 's> Filter<'c, 's> {
    /// All cells must be known before the first wish.
    pub(super) fn profile(&mut self, state: &'c CellState) -> usize {
        let next = self.profiles.len();
        *self.profiles.entry(Profile::of(state)).or_insert(next)
    }

    /// By profile, whether it welcomes this start; or why none does.
    pub(super) fn welcome(&mut self, needs: &'s Needs) -> Result<&[bool], Reason> {
        let wish: Wish<'s> = (&needs.rootfs, &needs.volume_drivers, &needs.placement_tags);
        let at = match self.wishes.entry(wish) {
            Entry::Occupied(at) => *at.get(),
            Entry::Vacant(vacant) => {
                vacant.insert(self.verdicts.len());
                self.verdicts.push(verdict(&self.profiles, needs));
                self.verdicts.len() - 1
            }
        };
        self.verdicts[at].as_deref().map_err(Reason::clone)
    }
}

fn verdict(profiles: &HashMap<Profile<'_>, usize>, needs: &Needs) -> Result<Vec<bool>, Reason> {
    let mut furthest = Stage::Rootfs;
    let mut welcome = vec![false; profiles.len()];
    for (profile, at) in profiles {
        let stage = profile.stage(needs);
        furthest = furthest.max(stage);
        welcome[*at] = stage == Stage::Welcome;
    }
    match furthest {
        Stage::Rootfs => Err(Reason::Rootfs),
        Stage::VolumeDrivers => Err(Reason::VolumeDrivers),
        Stage::PlacementTags => Err(Reason::PlacementTags(needs.placement_tags.clone())),
        Stage::Welcome => Ok(welcome),
    }
}

impl<'a> Profile<'a> {
    fn of(state: &'a CellState) -> Self {
        let required_tags: BTreeSet<&str> = texts(&state.placement_tags);
        Self {
            rootfs: &state.rootfs_providers,
            volume_drivers: texts(&state.volume_drivers),
            known_tags: required_tags.union(&texts(&state.optional_placement_tags)).copied().collect(),
            required_tags,
        }
    }

    fn stage(&self, needs: &Needs) -> Stage {
        let wanted = texts(&needs.placement_tags);
        if !offers(self.rootfs, &needs.rootfs) {
            Stage::Rootfs
        } else if !needs.volume_drivers.iter().all(|driver| self.volume_drivers.contains(driver.as_str())) {
            Stage::VolumeDrivers
        } else if !(self.required_tags.is_subset(&wanted) && wanted.is_subset(&self.known_tags)) {
            Stage::PlacementTags
        } else {
            Stage::Welcome
        }
    }
}

fn texts(list: &[String]) -> BTreeSet<&str> {
    list.iter().map(String::as_str).collect()
}

/// The scheme names the provider. A fixed set is asked for what follows the colon, up to a query or a fragment; what begins
/// with a slash there is a path and in no set.
fn offers(providers: &RootfsProviders, rootfs: &str) -> bool {
    let Some((scheme, rest)) = rootfs.split_once(':') else { return false };
    match providers.0.get(&scheme.to_ascii_lowercase()) {
        None => false,
        Some(RootfsProvider::Arbitrary) => true,
        Some(RootfsProvider::FixedSet(set)) => {
            let opaque = rest.split(['?', '#']).next().unwrap_or_default();
            !opaque.starts_with('/') && set.contains(opaque)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_file_systems_are_found_by_scheme_and_name() {
        let fixed = |names: &[&str]| RootfsProvider::FixedSet(names.iter().map(|name| (*name).to_owned()).collect());
        let providers = [("docker", RootfsProvider::Arbitrary), ("preloaded", fixed(&["cflinuxfs4", ""]))];
        let providers = RootfsProviders(providers.into_iter().map(|(scheme, it)| (scheme.to_owned(), it)).collect());
        for (rootfs, expected) in [
            ("preloaded:cflinuxfs4", true),
            ("PreLoaded:cflinuxfs4", true),
            ("preloaded:cflinuxfs4?layer=https://host/x", true),
            ("preloaded:cflinuxfs4#part", true),
            ("preloaded:cflinuxfs3", false),
            ("preloaded:", true),
            ("preloaded:///cflinuxfs4", false),
            ("preloaded+layer:cflinuxfs4", false),
            ("docker:///busybox", true),
            ("docker://host:5000/busybox#tag", true),
            ("cflinuxfs4", false),
            ("", false),
            (":", false),
        ] {
            assert_eq!(offers(&providers, rootfs), expected, "{rootfs}");
        }
    }
}
