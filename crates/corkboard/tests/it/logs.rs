//! `corkboard logs`: what apps and tasks wrote, told by real cells to the real command, whatever becomes of either.

mod apps;
mod played;
mod secrets;
mod site;
