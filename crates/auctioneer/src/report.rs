//! Tells the state server what found no place, and why.
//!
//! A failure that cannot be told is not lost: the instance or task still waits, and convergence asks for it again; only the
//! reason is missing until then. So a state server that does not answer is not asked ten thousand times.

use std::collections::HashMap;
use std::sync::Arc;

use api::client::{Client, ClientError};
use api::models::ActualLrpKey;
use futures_util::StreamExt;

use crate::auction::traced;
use crate::metrics::Metrics;
use crate::place::{Failed, Start};
use crate::queue::Key;

const REPORTS_AT_ONCE: usize = 32;
/// After so many reports in a row without an answer the rest is left to convergence.
const UNANSWERED_MAX: usize = 32;

#[derive(Debug)]
pub(crate) struct Reports<'a> {
    pub(crate) bbs: &'a Client,
    pub(crate) metrics: &'a Metrics,
    /// Under which id each start was asked for.
    pub(crate) traces: &'a HashMap<Key, Arc<str>>,
}

impl Reports<'_> {
    pub(crate) async fn send(&self, failed: Vec<Failed>) {
        let total = failed.len();
        let (mut told, mut in_a_row) = (0, 0);
        let mut last_error = None;
        let reports: Vec<_> = failed.iter().map(|failed| self.report(failed)).collect();
        let mut reports = futures_util::stream::iter(reports).buffer_unordered(REPORTS_AT_ONCE);
        while let Some(result) = reports.next().await {
            match result {
                Ok(()) => (told, in_a_row) = (told + 1, 0),
                Err(error) => {
                    in_a_row += 1;
                    last_error = Some(error);
                }
            }
            if in_a_row >= UNANSWERED_MAX {
                break;
            }
        }
        if let Some(error) = last_error {
            let unreported = total - told;
            self.metrics.unreported.inc_by(unreported as u64);
            tracing::warn!(
                unreported, told, %error,
                "the state server was not told why some starts found no place; convergence asks for them again"
            );
        }
    }

    /// An answer that refuses the report is an answer: the instance was claimed, or is no longer wanted.
    async fn report(&self, Failed { start, reason }: &Failed) -> Result<(), ClientError> {
        let trace = self.traces.get(&Key::of(start)).map_or("", |trace| trace);
        tracing::info!(trace, "{start} found no place: {reason}");
        let bbs = traced(self.bbs, trace);
        let reported = match start {
            Start::Lrp(lrp) => {
                let key = ActualLrpKey {
                    process_guid: lrp.process_guid.clone(),
                    index: lrp.index,
                    domain: lrp.domain.clone(),
                };
                bbs.fail_actual_lrp(key, &reason.to_string()).await
            }
            Start::Task(task) => bbs.reject_task(&task.task_guid, &reason.to_string()).await,
        };
        match reported {
            Err(error) if error.bbs().is_some() => {
                tracing::debug!(%error, trace, "the state server has no use for the failure of {start}");
                Ok(())
            }
            other => other,
        }
    }
}
