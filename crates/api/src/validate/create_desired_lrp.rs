//! The request that brings a desired LRP in two halves. The halves are checked here; the whole that they make is checked as if
//! it had been desired, by whoever joins them.

use super::{Findings, Validate};
use crate::models::{
    CreateDesiredLrpRequest, CreateDesiredLrpRequest09, ListDesiredLrPsRequest09, ListImmutableDesiredLrPsRequest,
    ListMutableDesiredLrPsRequest,
};

impl Validate for CreateDesiredLrpRequest {
    fn findings(&self, found: &mut Findings) {
        match (&self.mutable_desired_lrp, &self.immutable_desired_lrp) {
            (Some(mutable), Some(immutable)) if mutable.process_guid == immutable.process_guid => {}
            (Some(_), Some(_)) => found.field("process_guid"),
            (mutable, immutable) => {
                if mutable.is_none() {
                    found.field("mutable_desired_lrp");
                }
                if immutable.is_none() {
                    found.field("immutable_desired_lrp");
                }
            }
        }
    }
}

impl Validate for CreateDesiredLrpRequest09 {
    fn findings(&self, found: &mut Findings) {
        found.present("desired_lrp", self.desired_lrp.as_ref());
    }
}

impl Validate for ListMutableDesiredLrPsRequest {
    fn findings(&self, _: &mut Findings) {}
}

impl Validate for ListImmutableDesiredLrPsRequest {
    fn findings(&self, _: &mut Findings) {}
}

impl Validate for ListDesiredLrPsRequest09 {
    fn findings(&self, _: &mut Findings) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{ImmutableDesiredLrp, MutableDesiredLrp};
    use crate::validate::samples::verdict;

    #[test]
    fn both_halves_of_the_same_process() {
        let mutable = |guid: &str| Some(MutableDesiredLrp { process_guid: guid.into(), ..Default::default() });
        let immutable = |guid: &str| Some(ImmutableDesiredLrp { process_guid: guid.into(), ..Default::default() });
        for (mutable_desired_lrp, immutable_desired_lrp, expected) in [
            (mutable("a"), immutable("a"), ""),
            (mutable("a"), immutable("b"), "Invalid field: process_guid"),
            (mutable("a"), immutable(""), "Invalid field: process_guid"),
            (None, immutable("a"), "Invalid field: mutable_desired_lrp"),
            (mutable("a"), None, "Invalid field: immutable_desired_lrp"),
            (None, None, "Invalid field: mutable_desired_lrp, Invalid field: immutable_desired_lrp"),
        ] {
            let request = CreateDesiredLrpRequest { mutable_desired_lrp, immutable_desired_lrp };
            assert_eq!(verdict(&request), expected);
        }
        assert_eq!(verdict(&CreateDesiredLrpRequest09::default()), "Invalid field: desired_lrp");
    }
}
