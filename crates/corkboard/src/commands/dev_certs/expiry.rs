//! The last moment of a certificate, read from its bytes.
//!
//! Programs that check a certificate take its authority as it is, some with its dates and some without (rustls looks at none of
//! them), so that whoever signs has to look. Nothing else is read here, and what has another shape than a certificate is `None`.

use std::time::Duration;

const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version, which stands before everything else if it is not the first.
const VERSION: u8 = 0xa0;
/// Serial number, algorithm, issuer.
const BEFORE_VALIDITY: usize = 3;

/// Since 1970.
pub(super) fn not_after(certificate: &[u8]) -> Option<Duration> {
    let (_, signed, _) = item(certificate)?;
    let (_, mut fields, _) = item(signed)?;
    if let (VERSION, _, rest) = item(fields)? {
        fields = rest;
    }
    for _ in 0..BEFORE_VALIDITY {
        (_, _, fields) = item(fields)?;
    }
    let (_, validity, _) = item(fields)?;
    let (_, _, last) = item(validity)?;
    let (kind, text, _) = item(last)?;
    moment(kind, std::str::from_utf8(text).ok()?)
}

/// The kind of the first item, its content, and what follows it.
fn item(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        // The length itself takes so many bytes; a certificate is far shorter than four of them could say.
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*kind, content, rest))
}

/// `YYMMDDHHMMSSZ`, or the same with the century.
fn moment(kind: u8, text: &str) -> Option<Duration> {
    let digits = text.strip_suffix('Z')?;
    let number = |from: usize| digits.get(from..from + 2)?.parse::<i64>().ok();
    let (year, at) = match kind {
        // Years of two digits are of this century below 50, and of the last one above.
        UTC_TIME => (number(0)? + if number(0)? < 50 { 2000 } else { 1900 }, 2),
        GENERALIZED_TIME => (number(0)? * 100 + number(2)?, 4),
        _ => return None,
    };
    let (month, day) = (u8::try_from(number(at)?).ok()?, u8::try_from(number(at + 2)?).ok()?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || digits.len() != at + 10 {
        return None;
    }
    let midnight = rcgen::date_time_ymd(i32::try_from(year).ok()?, month, day).unix_timestamp();
    let seconds = midnight + number(at + 4)? * 3_600 + number(at + 6)? * 60 + number(at + 8)?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_both_kinds() {
        let check = |kind: u8, text: &str, expected: Option<u64>| {
            assert_eq!(moment(kind, text), expected.map(Duration::from_secs), "{text}");
        };
        check(UTC_TIME, "700101000001Z", Some(1));
        check(UTC_TIME, "261115000000Z", Some(1_794_700_800));
        check(GENERALIZED_TIME, "20261115010203Z", Some(1_794_700_800 + 3_723));
        check(GENERALIZED_TIME, "21000228235959Z", Some(4_107_542_399));
        for odd in ["", "Z", "2611150000Z", "261115000000", "269915000000Z", "26111500000xZ", "üüüüüüZ"] {
            check(UTC_TIME, odd, None);
        }
        check(4, "261115000000Z", None);
    }

    #[test]
    fn what_is_no_certificate_is_nothing() {
        for bytes in [&b""[..], b"\x30", b"\x30\x80", b"\x30\x85\x01\x01\x01\x01\x01", b"\x30\x02\x30\x00", &[0x30; 40]]
        {
            assert_eq!(not_after(bytes), None);
        }
    }
}
