//! Durations as people write them: `500ms`, `30s`, `1h30m`. The notation is Go's, since that is what Diego's operators know.

use std::time::Duration;

/// Why a text is not a duration; a half sentence that follows the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DurationError {
    #[error("is not a duration; expected a number and a unit, such as \"500ms\", \"30s\", \"5m\" or \"2h\"")]
    Form,
    #[error("is negative; expected a duration of zero or more")]
    Negative,
    #[error("is too long for a duration; the most is about 292 years")]
    TooLong,
}

/// Go counts nanoseconds in 64 bits with a sign.
const DURATION_NS_MAX: u128 = i64::MAX as u128;

/// Longer units first, so that `ms` is not read as `m`.
const UNITS: &[(&str, u128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
];

/// Digits after the point beyond this change nothing, even in hours.
const FRACTION_DIGITS_MAX: usize = 13;

pub(crate) fn parse(text: &str) -> Result<Duration, DurationError> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(DurationError::Form);
    }
    let mut total_ns: u128 = 0;
    while !rest.is_empty() {
        let (part_ns, after) = part(rest)?;
        total_ns = total_ns.saturating_add(part_ns);
        rest = after;
    }
    if total_ns > DURATION_NS_MAX {
        return Err(DurationError::TooLong);
    }
    if negative && total_ns > 0 {
        return Err(DurationError::Negative);
    }
    Ok(Duration::from_nanos(u64::try_from(total_ns).map_err(|_| DurationError::TooLong)?))
}

/// One number with its unit, and what follows it.
fn part(text: &str) -> Result<(u128, &str), DurationError> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationError::Form);
    }
    let (unit_ns, rest) = UNITS
        .iter()
        .find_map(|(unit, ns)| rest.strip_prefix(unit).map(|rest| (*ns, rest)))
        .ok_or(DurationError::Form)?;
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| DurationError::TooLong)? };
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let scale = fraction.bytes().fold(1, |scale: u128, _| scale * 10);
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| DurationError::Form)? };
    Ok((whole.saturating_mul(unit_ns).saturating_add(fraction * unit_ns / scale), rest))
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// The shortest way to write a duration of whole milliseconds, for summaries.
pub(crate) fn show(duration: Duration) -> String {
    let (s, ms) = (duration.as_secs(), duration.subsec_millis());
    match (s, ms) {
        (s, ms) if ms > 0 => format!("{}ms", s.saturating_mul(1000).saturating_add(u64::from(ms))),
        (0, _) => "0s".to_owned(),
        (s, _) if s % 3600 == 0 => format!("{}h", s / 3600),
        (s, _) if s % 60 == 0 => format!("{}m", s / 60),
        (s, _) => format!("{s}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_reads_is_read() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            (".5s", 500),
            ("1.s", 1_000),
            ("+2s", 2_000),
            ("0", 0),
            ("-0s", 0),
            ("1000000us", 1_000),
            ("1000µs", 1),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse("0.99999999999999999999s"), Ok(Duration::from_nanos(999_999_999)));
    }

    #[test]
    fn the_rest_is_refused_with_the_reason() {
        for text in ["", "30", "s", "30 s", "1d", "1h30", "-", ".s", "1e3s", "٣s"] {
            assert_eq!(parse(text), Err(DurationError::Form), "{text}");
        }
        assert_eq!(parse("-1s"), Err(DurationError::Negative));
        assert_eq!(parse("9999999h"), Err(DurationError::TooLong));
        assert_eq!(parse(&"9".repeat(60)), Err(DurationError::Form));
        assert_eq!(parse(&format!("{}s", "9".repeat(60))), Err(DurationError::TooLong));
    }

    #[test]
    fn shown_durations_are_read_back() {
        for text in ["0s", "500ms", "1500ms", "30s", "90s", "2m", "2h"] {
            assert_eq!(show(parse(text).unwrap()), text);
        }
    }
}
