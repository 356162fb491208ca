//! A line between two programs that a test can cut.
