//! The metrics guid, which is deprecated, and the metric tag that replaced it: whichever is missing is filled from the
//! other, so that old and new readers agree.

use crate::models::{DesiredLrp, MetricTagValue};

const SOURCE_ID: &str = "source_id";

/// For the lists and lookups of desired LRPs, after the conversion to their revision; not for events and not for
/// routing infos.
pub fn with_metrics_guid(mut lrp: DesiredLrp) -> DesiredLrp {
    match lrp.metric_tags.get(SOURCE_ID) {
        Some(tag) if lrp.metrics_guid.is_empty() => lrp.metrics_guid.clone_from(&tag.r#static),
        None if !lrp.metrics_guid.is_empty() => {
            let tag = MetricTagValue { r#static: lrp.metrics_guid.clone(), ..MetricTagValue::default() };
            lrp.metric_tags.insert(SOURCE_ID.to_owned(), tag);
        }
        _ => {}
    }
    lrp
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(guid: &str, tag: Option<&str>, expected: (&str, Option<&str>)) {
        let metric_tags = tag
            .map(|text| (SOURCE_ID.to_owned(), MetricTagValue { r#static: text.into(), ..MetricTagValue::default() }));
        let lrp = DesiredLrp {
            metrics_guid: guid.into(),
            metric_tags: metric_tags.into_iter().collect(),
            ..DesiredLrp::default()
        };
        let lrp = with_metrics_guid(lrp);
        let found = lrp.metric_tags.get(SOURCE_ID).map(|tag| tag.r#static.as_str());
        assert_eq!((lrp.metrics_guid.as_str(), found), expected);
    }

    #[test]
    fn the_missing_one_is_filled_and_nothing_is_overwritten() {
        check("", None, ("", None));
        check("", Some("s"), ("s", Some("s")));
        check("m", None, ("m", Some("m")));
        check("m", Some("s"), ("m", Some("s")));
    }
}
