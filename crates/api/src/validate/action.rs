//! Actions: what a container runs, as a tree.
//!
//! An action is a pseudo-oneof: if several kinds are set, the first in the order of `findings_at` counts and the others
//! are not looked at. A nested action without any kind stops Diego's own server; here it is a finding like the same
//! mistake at the top of the tree.

use super::cached_dependency::checksum;
use super::{Findings, Validate};
use crate::models::{Action, DownloadAction, RunAction, TimeoutAction, UploadAction};

/// The recursion below and every decoder of our answers must survive the deepest tree. Each level is two messages on
/// the wire, older revisions of the API wrap a tree in two more levels, and common decoders stop at 100 messages.
pub const ACTION_DEPTH_MAX: usize = 40;

impl Validate for Action {
    fn findings(&self, found: &mut Findings) {
        findings_at(self, 1, found);
    }
}

fn findings_at(action: &Action, depth: usize, found: &mut Findings) {
    if depth > ACTION_DEPTH_MAX {
        found.field(&format!("inner-action nested deeper than {ACTION_DEPTH_MAX} levels"));
    } else if let Some(download) = &action.download_action {
        download.findings(found);
    } else if let Some(upload) = &action.upload_action {
        upload.findings(found);
    } else if let Some(run) = &action.run_action {
        run.findings(found);
    } else if let Some(timeout) = &action.timeout_action {
        inner(timeout.action.as_deref(), depth, found);
        timeout_length(timeout, found);
    } else if let Some(emit_progress) = &action.emit_progress_action {
        inner(emit_progress.action.as_deref(), depth, found);
    } else if let Some(r#try) = &action.try_action {
        inner(r#try.action.as_deref(), depth, found);
    } else if let Some(parallel) = &action.parallel_action {
        group(&parallel.actions, depth, found);
    } else if let Some(serial) = &action.serial_action {
        group(&serial.actions, depth, found);
    } else if let Some(codependent) = &action.codependent_action {
        group(&codependent.actions, depth, found);
    } else {
        found.field("inner-action");
    }
}

fn inner(action: Option<&Action>, depth: usize, found: &mut Findings) {
    match action {
        Some(action) => findings_at(action, depth + 1, found),
        None => found.field("action"),
    }
}

fn group(actions: &[Action], depth: usize, found: &mut Findings) {
    if actions.is_empty() {
        found.field("actions");
    }
    for action in actions {
        findings_at(action, depth + 1, found);
    }
}

fn timeout_length(timeout: &TimeoutAction, found: &mut Findings) {
    if timeout.timeout_ms <= 0 {
        found.field("timeout_ms");
    }
}

impl Validate for DownloadAction {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("from", &self.from);
        found.not_empty("to", &self.to);
        found.not_empty("user", &self.user);
        checksum(&self.checksum_algorithm, &self.checksum_value, found);
    }
}

impl Validate for UploadAction {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("to", &self.to);
        found.not_empty("from", &self.from);
        found.not_empty("user", &self.user);
    }
}

impl Validate for RunAction {
    fn findings(&self, found: &mut Findings) {
        found.not_empty("path", &self.path);
        found.not_empty("user", &self.user);
    }
}

/// The action that every LRP, task and sidecar must have. Its absence has a text of its own.
pub(super) fn required_action(action: Option<&Action>, found: &mut Findings) {
    match action {
        Some(action) => found.under("action", |found| action.findings(found)),
        None => found.text("invalid action type"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{CodependentAction, EmitProgressAction, ParallelAction, SerialAction, TryAction};
    use crate::validate::samples::{run, verdict};

    fn timeout(action: Option<Action>, timeout_ms: i64) -> Action {
        let timeout = TimeoutAction { action: action.map(Box::new), timeout_ms, ..Default::default() };
        Action { timeout_action: Some(Box::new(timeout)), ..Default::default() }
    }

    fn attempt(action: Option<Action>) -> Action {
        let attempt = TryAction { action: action.map(Box::new), ..Default::default() };
        Action { try_action: Some(Box::new(attempt)), ..Default::default() }
    }

    fn emit_progress(action: Option<Action>) -> Action {
        let emit_progress = EmitProgressAction { action: action.map(Box::new), ..Default::default() };
        Action { emit_progress_action: Some(Box::new(emit_progress)), ..Default::default() }
    }

    fn parallel(actions: Vec<Action>) -> Action {
        Action { parallel_action: Some(ParallelAction { actions, ..Default::default() }), ..Default::default() }
    }

    fn serial(actions: Vec<Action>) -> Action {
        Action { serial_action: Some(SerialAction { actions, ..Default::default() }), ..Default::default() }
    }

    fn codependent(actions: Vec<Action>) -> Action {
        Action { codependent_action: Some(CodependentAction { actions, ..Default::default() }), ..Default::default() }
    }

    fn bad_run() -> Action {
        Action { run_action: Some(RunAction::default()), ..Default::default() }
    }

    fn download() -> DownloadAction {
        let [from, to, user] = ["http://blobs/a".into(), "/a".into(), "vcap".into()];
        DownloadAction { from, to, user, ..Default::default() }
    }

    #[test]
    fn leaves() {
        assert_eq!(verdict(&run()), "");
        assert_eq!(verdict(&bad_run()), "Invalid field: path, Invalid field: user");
        let empty = DownloadAction::default();
        assert_eq!(verdict(&empty), "Invalid field: from, Invalid field: to, Invalid field: user");
        assert_eq!(verdict(&download()), "");
        let unpaired = DownloadAction { checksum_value: "abc".into(), ..download() };
        assert_eq!(verdict(&unpaired), "Invalid field: checksum algorithm");
        let empty = UploadAction::default();
        assert_eq!(verdict(&empty), "Invalid field: to, Invalid field: from, Invalid field: user");
    }

    #[test]
    fn wrappers_need_an_action_and_report_its_findings_without_a_heading() {
        assert_eq!(verdict(&timeout(None, 0)), "Invalid field: action, Invalid field: timeout_ms");
        assert_eq!(verdict(&timeout(Some(run()), -1)), "Invalid field: timeout_ms");
        assert_eq!(verdict(&timeout(Some(run()), 1)), "");
        let both = "Invalid field: path, Invalid field: user, Invalid field: timeout_ms";
        assert_eq!(verdict(&timeout(Some(bad_run()), 0)), both);
        for wrap in [attempt, emit_progress] {
            assert_eq!(verdict(&wrap(None)), "Invalid field: action");
            assert_eq!(verdict(&wrap(Some(run()))), "");
            assert_eq!(verdict(&wrap(Some(bad_run()))), "Invalid field: path, Invalid field: user");
        }
    }

    #[test]
    fn groups_need_at_least_one_action_and_report_each() {
        for group in [parallel, serial, codependent] {
            assert_eq!(verdict(&group(vec![])), "Invalid field: actions");
            assert_eq!(verdict(&group(vec![run(), run()])), "");
            let twice = "Invalid field: path, Invalid field: user, Invalid field: path, Invalid field: user";
            assert_eq!(verdict(&group(vec![bad_run(), run(), bad_run()])), twice);
        }
    }

    #[test]
    fn an_action_without_a_kind_is_refused_wherever_it_stands() {
        let inner = "Invalid field: inner-action";
        assert_eq!(verdict(&Action::default()), inner);
        assert_eq!(verdict(&timeout(Some(Action::default()), 1)), inner);
        for wrap in [attempt, emit_progress] {
            assert_eq!(verdict(&wrap(Some(Action::default()))), inner);
        }
        for group in [parallel, serial, codependent] {
            assert_eq!(verdict(&group(vec![run(), Action::default()])), inner);
        }
    }

    #[test]
    fn the_first_kind_counts() {
        let both = Action { upload_action: Some(UploadAction::default()), ..run() };
        assert!(verdict(&both).starts_with("Invalid field: to"), "upload stands before run");
        let both = Action { try_action: attempt(None).try_action, ..run() };
        assert_eq!(verdict(&both), "", "run stands before try");
        let both = Action { try_action: attempt(None).try_action, ..emit_progress(Some(run())) };
        assert_eq!(verdict(&both), "", "emit_progress stands before try");
        let both = Action { codependent_action: codependent(vec![]).codependent_action, ..serial(vec![run()]) };
        assert_eq!(verdict(&both), "", "serial stands before codependent");
    }

    #[test]
    fn the_depth_is_limited() {
        let tree = |levels: usize| (1..levels).fold(run(), |action, _| attempt(Some(action)));
        assert_eq!(verdict(&tree(ACTION_DEPTH_MAX)), "");
        let text = "Invalid field: inner-action nested deeper than 40 levels";
        assert_eq!(verdict(&tree(ACTION_DEPTH_MAX + 1)), text);
        let groups = |levels: usize| (1..levels).fold(run(), |action, _| serial(vec![action]));
        assert_eq!(verdict(&groups(ACTION_DEPTH_MAX)), "");
        assert_eq!(verdict(&groups(1_000)), text);
    }

    #[test]
    fn the_deepest_tree_survives_the_wire_inside_an_event_of_an_old_revision() {
        use crate::models::{DesiredLrp, DesiredLrpChangedEvent};
        use prost::Message;
        let deepest = (1..ACTION_DEPTH_MAX).fold(run(), |action, _| attempt(Some(action)));
        let setup = Some(serial(vec![parallel(vec![run()]), deepest]));
        let after = Some(DesiredLrp { setup, ..Default::default() });
        let event = DesiredLrpChangedEvent { after, ..Default::default() };
        let decoded = DesiredLrpChangedEvent::decode(event.encode_to_vec().as_slice());
        assert_eq!(decoded.expect("the event decodes"), event);
    }

    #[test]
    fn a_required_action_that_is_absent_has_its_own_text() {
        let text = |action: Option<&Action>| {
            let mut found = Findings::default();
            required_action(action, &mut found);
            found.joined().unwrap_or_default()
        };
        assert_eq!(text(None), "invalid action type");
        assert_eq!(text(Some(&run())), "");
        assert_eq!(text(Some(&Action::default())), "Invalid field: action, Invalid field: inner-action");
    }
}
