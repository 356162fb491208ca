//! Why an action failed, and what of it is said.

use std::fmt;
use std::time::Duration;

/// `Told` may be shown to whoever owns the app, and is what `timeout` and `emit_progress` repeat; `Untold` ends in the crash
/// reason only. What was asked for is no reason: `Cancelled` and `Killed` are not mentioned among several failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Cancelled,
    /// It did not end within its grace time.
    Killed,
    Told(String),
    Untold(String),
    Several(Vec<Failure>),
}

impl Failure {
    /// Nothing, or all of them as one.
    pub(crate) fn all(failures: impl IntoIterator<Item = Failure>) -> Result<(), Failure> {
        let mut flat = Vec::new();
        for failure in failures {
            match failure {
                Failure::Several(several) => flat.extend(several),
                one => flat.push(one),
            }
        }
        if flat.is_empty() { Ok(()) } else { Err(Failure::Several(flat)) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Cancelled => f.write_str("cancelled"),
            Failure::Killed => f.write_str("exceeded graceful shutdown interval"),
            Failure::Told(text) | Failure::Untold(text) => f.write_str(text),
            Failure::Several(several) => {
                let shown = several.iter().filter(|one| !matches!(one, Failure::Cancelled | Failure::Killed));
                let texts: Vec<String> = shown.map(ToString::to_string).filter(|text| !text.is_empty()).collect();
                f.write_str(&texts.join("; "))
            }
        }
    }
}

/// A time as Go prints it: `1m30s`, `1.5s`, `100ms`, `0s`.
pub(crate) fn go_duration(time: Duration) -> String {
    let micros = time.as_micros();
    if micros == 0 {
        return "0s".to_owned();
    }
    if micros < 1_000 {
        return format!("{micros}µs");
    }
    let decimal = |whole: u128, part: u128, digits: usize, unit: &str| {
        let part = format!("{part:0digits$}");
        match part.trim_end_matches('0') {
            "" => format!("{whole}{unit}"),
            part => format!("{whole}.{part}{unit}"),
        }
    };
    if micros < 1_000_000 {
        return decimal(micros / 1_000, micros % 1_000, 3, "ms");
    }
    let (seconds, part) = (micros / 1_000_000, micros % 1_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let seconds = decimal(seconds % 60, part, 6, "s");
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_go_prints_them() {
        for (ms, text) in [
            (0, "0s"),
            (1, "1ms"),
            (100, "100ms"),
            (1_000, "1s"),
            (1_500, "1.5s"),
            (60_000, "1m0s"),
            (90_001, "1m30.001s"),
            (3_600_000, "1h0m0s"),
            (3_661_000, "1h1m1s"),
        ] {
            assert_eq!(go_duration(Duration::from_millis(ms)), text);
        }
    }
}
