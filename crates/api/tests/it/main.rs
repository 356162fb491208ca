//! The client against servers that behave, misbehave and vanish; and the build script against wrong comments.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

// Inside the workspace the crate goes by its short name; here too, so that tests read like their users.
extern crate corkboard_api as api;

mod attempts;
mod build_script;
mod calls;
mod documentation;
mod events;
mod every_route;
mod feed;
mod operator;
mod races;
mod server;
mod tls;
