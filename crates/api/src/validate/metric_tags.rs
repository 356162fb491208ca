//! Metric tags: each is either a fixed text or a value that the cell fills in.

use std::collections::BTreeMap;

use super::{Findings, Validate};
use crate::models::MetricTagValue;
use crate::models::metric_tag_value::DynamicValue;

impl Validate for MetricTagValue {
    /// Exactly one of the two. A map entry that came without a value decodes as neither, and is refused here.
    fn findings(&self, found: &mut Findings) {
        let is_static = !self.r#static.is_empty();
        let dynamic = DynamicValue::try_from(self.dynamic);
        let is_dynamic = matches!(dynamic, Ok(DynamicValue::Index | DynamicValue::InstanceGuid));
        if is_static == is_dynamic {
            found.field("static");
            found.field("dynamic");
        }
    }
}

/// One heading for all bad tags. If `metrics_guid` is given, the tag `source_id` must repeat it.
pub(super) fn metric_tags(tags: &BTreeMap<String, MetricTagValue>, metrics_guid: &str, found: &mut Findings) {
    found.under("metric_tags", |found| {
        for tag in tags.values() {
            tag.findings(found);
        }
        let source_id = tags.get("source_id").map(|tag| tag.r#static.as_str());
        if !tags.is_empty() && !metrics_guid.is_empty() && source_id != Some(metrics_guid) {
            found.field("source_id should match metrics_guid");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tags: &[(&str, &str, i32)], metrics_guid: &str) -> String {
        let tag = |&(name, text, dynamic): &(&str, &str, i32)| {
            (name.to_owned(), MetricTagValue { r#static: text.to_owned(), dynamic })
        };
        let mut found = Findings::default();
        metric_tags(&tags.iter().map(tag).collect(), metrics_guid, &mut found);
        found.joined().unwrap_or_default()
    }

    #[test]
    fn exactly_one_kind_of_value() {
        let bad = "Invalid field: metric_tags, Invalid field: static, Invalid field: dynamic";
        for (fixed, dynamic, expected) in [
            ("x", 0, ""),
            ("", 1, ""),
            ("", 2, ""),
            ("", 0, bad),
            ("", 3, bad),
            ("x", 1, bad),
            ("x", 2, bad),
            // An unknown number counts as no dynamic value at all.
            ("x", 3, ""),
            ("x", -1, ""),
        ] {
            assert_eq!(text(&[("tag", fixed, dynamic)], ""), expected, "{fixed:?} {dynamic}");
        }
    }

    #[test]
    fn the_heading_comes_once_for_all_tags() {
        let pair = "Invalid field: static, Invalid field: dynamic";
        assert_eq!(
            text(&[("a", "", 0), ("b", "x", 0), ("c", "", 9)], ""),
            format!("Invalid field: metric_tags, {pair}, {pair}")
        );
    }

    #[test]
    fn source_id_repeats_the_metrics_guid() {
        let mismatch = "Invalid field: metric_tags, Invalid field: source_id should match metrics_guid";
        assert_eq!(text(&[("source_id", "guid", 0)], "guid"), "");
        assert_eq!(text(&[("source_id", "other", 0)], "guid"), mismatch);
        assert_eq!(text(&[("source_id", "", 1)], "guid"), mismatch);
        assert_eq!(text(&[("tag", "guid", 0)], "guid"), mismatch);
        assert_eq!(text(&[("tag", "x", 0)], ""), "");
        assert_eq!(text(&[], "guid"), "");
    }
}
