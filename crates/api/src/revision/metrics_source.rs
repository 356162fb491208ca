//! Metric tags are demanded of every desired LRP, and there are clients that are older than the tags.

use crate::models::{DesiredLrp, MetricTagValue};

/// The tag that names the source of an app's metrics.
const SOURCE_ID: &str = "source_id";

/// An LRP without any metric tag gets a `source_id`: the metrics guid, with which older clients said the same; or, where they
/// left that out as well, the log guid, and if there is none either, the process guid. Metrics under a name that can be found
/// are better than a refusal. One tag is enough to be a client that knows about tags, and then nothing is added.
///
/// To be called before validation, for every revision of desire: the newest is what Diego's clients of 2017 call.
pub fn name_metrics_source(lrp: &mut DesiredLrp) {
    if !lrp.metric_tags.is_empty() {
        return;
    }
    let names = [&lrp.metrics_guid, &lrp.log_guid, &lrp.process_guid];
    if let Some(name) = names.into_iter().find(|name| !name.is_empty()) {
        let tag = MetricTagValue { r#static: name.clone(), dynamic: 0 };
        lrp.metric_tags.insert(SOURCE_ID.to_owned(), tag);
    }
}
