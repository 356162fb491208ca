//! Certificates for one test: an authority, and pairs that it signed.
