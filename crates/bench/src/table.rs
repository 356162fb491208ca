//! Tables that read well on a terminal and are valid Markdown, so that both come from one place.

use std::fmt;

/// The first row is the heading. Rows may be shorter than it; the rest is empty.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<S: Into<String>>(heading: impl IntoIterator<Item = S>) -> Self {
        Self { rows: vec![heading.into_iter().map(Into::into).collect()] }
    }

    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows[0].len();
        let cell = |row: &[String], at: usize| row.get(at).map(|text| text.replace('|', "\\|")).unwrap_or_default();
        let width = |at: usize| self.rows.iter().map(|row| cell(row, at).chars().count()).max().unwrap_or(0).max(3);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            for (at, width) in widths.iter().enumerate() {
                write!(out, "| {:<width$} ", cell(row, at))?;
            }
            writeln!(out, "|")?;
            if number == 0 {
                for width in &widths {
                    write!(out, "|{}", "-".repeat(width + 2))?;
                }
                writeln!(out, "|")?;
            }
        }
        Ok(())
    }
}

/// `12,345`, as people read it.
pub fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number <= -0.5 { format!("-{text}") } else { text }
}

/// Milliseconds with as many digits as mean something: `0.31 ms`, `8.1 ms`, `205 ms`, `7.0 s`.
pub fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{ms:.2} ms"),
        ms if ms < 100.0 => format!("{ms:.1} ms"),
        ms if ms < 1_000.0 => format!("{ms:.0} ms"),
        ms if ms < 10_000.0 => format!("{:.2} s", ms / 1e3),
        ms => format!("{:.1} s", ms / 1e3),
    }
}

pub fn seconds(s: f64) -> String {
    milliseconds(s * 1e3)
}

/// Of a processor, for how long it was used in a second.
pub fn cores(number: f64) -> String {
    format!("{number:.1} cores")
}

/// `186 MB`, `185 KB`, decimal units as disks and networks are sold.
pub fn bytes(count: f64) -> String {
    match count {
        count if count < 1e3 => format!("{count:.0} B"),
        count if count < 1e6 => format!("{:.0} KB", count / 1e3),
        count if count < 1e9 => format!("{:.0} MB", count / 1e6),
        count => format!("{:.2} GB", count / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_table_is_aligned_markdown() {
        let mut table = Table::new(["what", "p50"]);
        table.row(["claim | start", "0.31 ms"]);
        table.row(["short"]);
        expect![[r"
            | what           | p50     |
            |----------------|---------|
            | claim \| start | 0.31 ms |
            | short          |         |
        "]]
        .assert_eq(&table.to_string());
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            ["0", "999", "1,000", "1,234,568"],
            [0.0, 999.0, 1_000.0, 1_234_567.8].map(grouped).each_ref().map(|s| s.as_str())
        );
        assert_eq!(grouped(-1_500.0), "-1,500");
        assert_eq!(milliseconds(0.314), "0.31 ms");
        assert_eq!(milliseconds(8.14), "8.1 ms");
        assert_eq!(milliseconds(205.4), "205 ms");
        assert_eq!(milliseconds(7_000.0), "7.00 s");
        assert_eq!(bytes(185_400.0), "185 KB");
        assert_eq!(bytes(857e6), "857 MB");
    }
}
