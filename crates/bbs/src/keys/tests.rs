//! What the rotation engine promises, tried over the memory store: [`matrix`] lets it die at every write.

mod matrix;
