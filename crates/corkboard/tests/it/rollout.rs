//! Updates of apps through the program, with a real server and a cell that the test plays.

mod refusals;
mod steered;
mod whole;
mod world;
