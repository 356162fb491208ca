//! Sidecars: processes that share the container of an LRP.

use super::action::required_action;
use super::{Findings, Validate};
use crate::models::Sidecar;

impl Validate for Sidecar {
    fn findings(&self, found: &mut Findings) {
        required_action(self.action.as_ref(), found);
        found.not_negative("memory_mb", self.memory_mb);
        found.not_negative("disk_mb", self.disk_mb);
    }
}

/// One heading for all sidecars.
pub(super) fn sidecars(sidecars: &[Sidecar], found: &mut Findings) {
    found.under("sidecars", |found| sidecars.iter().for_each(|sidecar| sidecar.findings(found)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Action;
    use crate::validate::samples::{run, verdict};

    #[test]
    fn a_sidecar_needs_an_action_and_sensible_sizes() {
        let good = Sidecar { action: Some(run()), memory_mb: 0, disk_mb: 0 };
        assert_eq!(verdict(&good), "");
        assert_eq!(verdict(&Sidecar::default()), "invalid action type");
        let bad = Sidecar { action: Some(Action::default()), memory_mb: -1, disk_mb: -1 };
        let text = "Invalid field: action, Invalid field: inner-action, Invalid field: memory_mb, \
                    Invalid field: disk_mb";
        assert_eq!(verdict(&bad), text);
    }

    #[test]
    fn the_heading_comes_once() {
        let mut found = Findings::default();
        sidecars(&[Sidecar::default(), Sidecar::default()], &mut found);
        assert_eq!(
            found.joined().as_deref(),
            Some("Invalid field: sidecars, invalid action type, invalid action type")
        );
    }
}
