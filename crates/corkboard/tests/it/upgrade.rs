//! Upgrades and ways back with two real binaries, on one store, under load: nobody loses anything, and nobody is let down.
//!
//! The former release and the newest one take turns on the same directory, are stopped, killed and told what to do by the
//! commands that operators give, while clients call without a pause; see [`load`] for what each of them checks. The former
//! release is the same source with the data version before the latest as its newest; see [`former`].

use store::Version;

mod back;
pub(crate) mod former;
mod forward;
pub(crate) mod load;
mod refusal;
mod revisions;
pub(crate) mod site;
mod spoiled;

/// The data version of the former release.
pub(crate) const FORMER: Version = Version::ALL[Version::ALL.len() - 2];
/// Slow enough that a migration can be hit in the middle.
const SLOWLY: &str = "[migration]\nrecords_per_s_max = 400\n[timing]\nconverge_interval = \"1h\"";
/// Nothing but the clients changes anything.
pub(crate) const QUIETLY: &str = "[timing]\nconverge_interval = \"1h\"";
pub(crate) const MANUALLY: &str = "[migration]\nfinalization = \"manual\"\n[timing]\nconverge_interval = \"1h\"";
