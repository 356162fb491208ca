//! The list of findings and the rules that many messages share.
//!
//! Promise: findings are reported in the order in which they were made, duplicates included, because test suites of
//! the ecosystem compare the joined text. A parent's finding stands before those of its children.
//!
//! Not done: findings carry no path and no code. Clients look at the error type only, and a richer text would differ
//! from what they know.

use super::Validate;
use crate::models;

/// A hostile request of a few megabytes may hold a million bad destinations. The answer and the log line stay small.
pub const FINDINGS_MAX: usize = 1_000;

/// Names become keys of stored records. Diego keeps them in columns of this width.
pub const STORED_NAME_BYTES_MAX: usize = 255;

/// Why a request was refused. Nothing was changed; the caller must correct the request before sending it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The message breaks rules; one text for each finding.
    #[error("{}", .texts.join(", "))]
    Rules { texts: Vec<String> },
    /// The message obeys the rules, but a value cannot be stored: a name is too long, or a route is not JSON.
    #[error("the request received is invalid")]
    Unstorable,
}

impl Invalid {
    /// The same bytes will be refused again, by any server.
    pub const fn retryable(&self) -> bool {
        false
    }
}

impl From<Invalid> for models::Error {
    fn from(invalid: Invalid) -> Self {
        models::Error { r#type: models::error::Type::InvalidRequest as i32, message: invalid.to_string() }
    }
}

/// Collects what is wrong with a message.
#[derive(Debug, Default)]
pub struct Findings {
    texts: Vec<String>,
    left_out: usize,
    unstorable: bool,
}

impl Findings {
    /// Reports a field under the name the wire uses for it.
    pub fn field(&mut self, name: &str) {
        self.text(format!("Invalid field: {name}"));
    }

    /// Reports a finding that has a text of its own.
    pub fn text(&mut self, text: impl Into<String>) {
        if self.texts.len() < FINDINGS_MAX {
            self.texts.push(text.into());
        } else {
            self.left_out += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Broken rules win over values that cannot be stored: a store would have seen the request only after the rules.
    pub fn into_result(mut self) -> Result<(), Invalid> {
        if self.left_out > 0 {
            self.texts.push(format!("and {} more", self.left_out));
        }
        match (self.texts.is_empty(), self.unstorable) {
            (false, _) => Err(Invalid::Rules { texts: self.texts }),
            (true, true) => Err(Invalid::Unstorable),
            (true, false) => Ok(()),
        }
    }

    /// Reports `name`, followed by what `children` reports, if `children` reports anything.
    pub(super) fn under(&mut self, name: &str, children: impl FnOnce(&mut Findings)) {
        let (position, left_out) = (self.texts.len(), self.left_out);
        children(self);
        if self.texts.len() > position {
            self.texts.insert(position, format!("Invalid field: {name}"));
        } else if self.left_out > left_out {
            self.left_out += 1;
        }
    }

    /// A sub-message that must be there, and must be valid itself.
    pub(super) fn present<M: Validate>(&mut self, name: &str, message: Option<&M>) {
        match message {
            Some(message) => message.findings(self),
            None => self.field(name),
        }
    }

    pub(super) fn not_empty(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            self.field(name);
        }
    }

    pub(super) fn not_negative(&mut self, name: &str, value: i32) {
        if value < 0 {
            self.field(name);
        }
    }

    pub(super) fn at_most(&mut self, name: &str, length_bytes: usize, bytes_max: usize) {
        if length_bytes > bytes_max {
            self.field(name);
        }
    }

    /// Guids chosen by clients: one or more ASCII letters, digits, `_` and `-`.
    pub(super) fn guid(&mut self, name: &str, value: &str) {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if value.is_empty() || !value.bytes().all(allowed) {
            self.field(name);
        }
    }

    /// Both credentials or neither; the missing one is reported.
    pub(super) fn credential_pair(&mut self, has_username: bool, has_password: bool) {
        match (has_username, has_password) {
            (true, false) => self.field("image_password"),
            (false, true) => self.field("image_username"),
            (true, true) | (false, false) => {}
        }
    }

    /// A name under which this request may create a record.
    pub(super) fn stored_name(&mut self, value: &str) {
        self.unstorable |= value.len() > STORED_NAME_BYTES_MAX;
    }

    /// The findings as one text, for the one rule that quotes a list inside a finding.
    pub(super) fn joined(self) -> Option<String> {
        self.into_result().err().map(|invalid| invalid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(report: impl FnOnce(&mut Findings)) -> String {
        let mut found = Findings::default();
        report(&mut found);
        found.into_result().map_or_else(|invalid| invalid.to_string(), |()| String::new())
    }

    #[test]
    fn order_and_duplicates_are_kept() {
        let report = |found: &mut Findings| {
            found.field("b");
            found.text("free text");
            found.field("a");
            found.field("b");
        };
        assert_eq!(text(report), "Invalid field: b, free text, Invalid field: a, Invalid field: b");
    }

    #[test]
    fn a_parent_is_reported_before_its_children_and_only_with_them() {
        let report = |found: &mut Findings| {
            found.field("first");
            found.under("quiet", |_| {});
            found.under("outer", |found| found.under("inner", |found| found.field("leaf")));
        };
        assert_eq!(
            text(report),
            "Invalid field: first, Invalid field: outer, Invalid field: inner, Invalid field: leaf"
        );
    }

    #[test]
    fn guids_match_the_whole_text() {
        for good in ["a", "Z-9_", "0", "-", "process-guid_1"] {
            assert_eq!(text(|found| found.guid("g", good)), "", "{good:?}");
        }
        for bad in ["", " ", "a b", "a\n", "\na", "a.b", "a/b", "é", "a\0"] {
            assert_eq!(text(|found| found.guid("g", bad)), "Invalid field: g", "{bad:?}");
        }
    }

    #[test]
    fn the_missing_credential_is_reported() {
        assert_eq!(text(|found| found.credential_pair(true, false)), "Invalid field: image_password");
        assert_eq!(text(|found| found.credential_pair(false, true)), "Invalid field: image_username");
        assert_eq!(text(|found| found.credential_pair(true, true)), "");
        assert_eq!(text(|found| found.credential_pair(false, false)), "");
    }

    #[test]
    fn broken_rules_hide_an_unstorable_name() {
        let long = "d".repeat(STORED_NAME_BYTES_MAX + 1);
        assert_eq!(text(|found| found.stored_name(&long[1..])), "");
        assert_eq!(text(|found| found.stored_name(&long)), "the request received is invalid");
        let report = |found: &mut Findings| {
            found.stored_name(&long);
            found.field("cell_id");
        };
        assert_eq!(text(report), "Invalid field: cell_id");
    }

    #[test]
    fn a_flood_of_findings_is_counted_instead_of_listed() {
        let report = |found: &mut Findings| {
            (0..FINDINGS_MAX).for_each(|_| found.text("x"));
            found.text("y");
            found.under("parent", |found| found.field("child"));
        };
        let text = text(report);
        assert!(text.ends_with("x, x, and 3 more"), "{}", &text[text.len() - 40..]);
        assert_eq!(text.matches('x').count(), FINDINGS_MAX);
    }

    #[test]
    fn the_answer_is_an_invalid_request_and_is_not_worth_a_retry() {
        let invalid = Invalid::Rules { texts: vec!["Invalid field: domain".into()] };
        assert!(!invalid.retryable());
        let error = models::Error::from(invalid);
        assert_eq!((error.r#type, error.message.as_str()), (4, "Invalid field: domain"));
        assert_eq!(models::Error::from(Invalid::Unstorable).message, "the request received is invalid");
    }
}
