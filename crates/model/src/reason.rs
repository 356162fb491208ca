//! Free-text reasons (crash reason, placement error, failure and rejection reason) are bounded before they are stored.

/// The longest reason kept, in bytes.
pub const REASON_BYTES_MAX: usize = 1024;

const MARK: &str = "(truncated)";

/// Reasons shorter than the limit are kept as they are; longer ones are cut on a character boundary and say so.
///
/// Diego cuts between bytes, which can leave half a character behind; we give up at most three bytes instead.
pub fn truncate_reason(reason: &str) -> String {
    if reason.len() < REASON_BYTES_MAX {
        return reason.to_owned();
    }
    let end = reason.floor_char_boundary(REASON_BYTES_MAX - MARK.len());
    format!("{}{MARK}", &reason[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_reasons_are_untouched_and_long_ones_marked() {
        assert_eq!(truncate_reason("boom"), "boom");
        assert_eq!(truncate_reason(&"x".repeat(1023)).len(), 1023);
        let cut = truncate_reason(&"x".repeat(1024));
        assert_eq!(cut.len(), 1024);
        assert!(cut.ends_with("x(truncated)"));
    }

    #[test]
    fn the_cut_never_splits_a_character() {
        let cut = truncate_reason(&"é".repeat(1000));
        assert!(cut.len() <= REASON_BYTES_MAX && cut.len() > REASON_BYTES_MAX - 4);
        assert!(cut.ends_with("é(truncated)"));
    }
}
