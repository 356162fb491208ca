//! How many records of which kind make up a size. Of a hundred, forty are DesiredLRPs, fifty instances and ten tasks: every
//! fourth LRP has two instances, as in the fleet of the other benchmarks.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::fleet::Fleet;
use crate::table::grouped;

pub const CELLS: u64 = 1_000;
const THOUSAND: u64 = 1_000;
const MILLION: u64 = 1_000_000;
/// Fewer would leave a kind of records out.
const RECORDS_MIN: u64 = 100;
/// Average of the mix: what a DesiredLRP, an instance and a task take on the wire, which is about what they take on disk.
pub const RECORD_BYTES: u64 = 2_400;

/// So many records in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size(pub u64);

impl Size {
    pub fn lrps(&self) -> u64 {
        self.0 * 2 / 5
    }

    pub fn fleet(&self) -> Fleet {
        Fleet { lrps: self.lrps(), cells: CELLS }
    }

    pub fn tasks(&self) -> u64 {
        self.0 / 10
    }

    /// About as many as the records have on disk.
    pub fn bytes(&self) -> u64 {
        self.0 * RECORD_BYTES
    }
}

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&grouped(self.0 as f64))
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (digits, unit) = match text.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, THOUSAND),
            None => text.strip_suffix(['m', 'M']).map_or((text, 1), |digits| (digits, MILLION)),
        };
        let count = digits.parse().ok().and_then(|count: u64| count.checked_mul(unit));
        count.filter(|count| *count >= RECORDS_MIN).map(Size).ok_or_else(|| {
            format!("{text:?} is no number of records; expected one from {RECORDS_MIN} on, such as 2000, 10k or 1M")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, count) in [("2000", 2_000), ("10k", 10_000), ("100K", 100_000), ("1M", 1_000_000)] {
            assert_eq!(text.parse(), Ok(Size(count)), "{text}");
        }
        for text in ["", "k", "1.5k", "-1", "99", "10g", "99999999999999999999", "99999999999999999M"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert_eq!(Size(1_000_000).to_string(), "1,000,000");
    }

    #[test]
    fn the_parts_make_up_the_whole() {
        for records in [100, 2_000, 10_000, 1_000_000] {
            let size = Size(records);
            assert_eq!(size.lrps() + size.fleet().instances() + size.tasks(), records);
        }
    }
}
