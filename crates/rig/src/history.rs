//! What clients saw, and whether one register per key explains it.
