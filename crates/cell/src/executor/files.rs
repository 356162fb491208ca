//! Files on their way into containers and out of them.
//!
//! [`root`] is the door: what belongs to a container is reached through its own root folder, and no link that an app has laid
//! leads out of it. [`cache`] keeps what was fetched, [`transfer`] fetches and sends, [`unpack`] opens archives.

pub(crate) mod cache;
mod checksum;
pub(crate) mod root;
pub(crate) mod transfer;
pub(crate) mod unpack;

pub(crate) use checksum::Checksum;
