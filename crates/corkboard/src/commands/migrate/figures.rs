//! Numbers, times and sizes as people read them.

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A measured number without its fraction; what is less than nothing, or no number, is nothing.
pub(crate) fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// 100 only when all is done.
pub(crate) fn percent(done: u64, total: u64) -> u64 {
    let part = u128::from(done.min(total)) * 100;
    u64::try_from(part.checked_div(u128::from(total)).unwrap_or(100)).unwrap_or(100)
}

/// Seconds in the two largest units that say something.
pub(crate) fn time(seconds: f64) -> String {
    if seconds > 0.0 && seconds < 1.0 {
        return "less than 1 s".to_owned();
    }
    let s = whole(seconds);
    match s {
        0..60 => format!("{s} s"),
        60..3_600 => format!("{} min {} s", s / 60, s % 60),
        3_600..86_400 => format!("{} h {} min", s / 3_600, s % 3_600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3_600),
    }
}

/// Bytes in the largest unit of which there is at least one.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: &[(u64, &str)] = &[(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} bytes"),
    }
}

/// A moment in UTC, to the second.
pub(crate) fn moment(since_epoch_ns: i64) -> String {
    let s = since_epoch_ns.div_euclid(1_000_000_000);
    let (days, s) = (s.div_euclid(86_400), s.rem_euclid(86_400));
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", s / 3_600, s % 3_600 / 60, s % 60)
}

/// The Gregorian date of a day, counted from 1970. Years begin in March here, so that the leap day comes last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let numbers = [0, 999, 1_000, 123_456, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "123,456", "1,234,567"]);
        let times = [0.0, 0.2, 59.4, 61.0, 3_700.0, 90_000.0].map(time);
        assert_eq!(times, ["0 s", "less than 1 s", "59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
        let sizes = [0, 999, 1_000, 1_990_000, 12_000_000_000].map(size);
        assert_eq!(sizes, ["0 bytes", "999 bytes", "1.0 kB", "1.9 MB", "12.0 GB"]);
        assert_eq!((whole(-3.0), whole(f64::NAN)), (0, 0));
    }

    #[test]
    fn moments_are_dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_442_529_338, "2015-09-17 22:35:38"),
            (1_794_700_800, "2026-11-15 00:00:00"),
            (4_107_542_399, "2100-02-28 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(moment(seconds * 1_000_000_000), text);
        }
    }
}
