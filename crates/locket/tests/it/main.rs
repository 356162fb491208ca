//! Locket from outside: real TLS, real gRPC, the client that the rest of the workspace uses.

#![expect(clippy::unwrap_used, reason = "the functions around the tests are tests too")]

mod calls;
mod locks;
mod rough;
mod several;
mod strangers;
mod world;
