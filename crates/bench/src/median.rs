//! The number in the middle: what a few rounds of a measurement are summed up by, since one bad round does not move it.

/// Between the two in the middle when their number is even, and 0 of nothing.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    match numbers.len() {
        0 => 0.0,
        count if count % 2 == 1 => numbers[count / 2],
        count => f64::midpoint(numbers[count / 2 - 1], numbers[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let check = |numbers: &[f64], expected: f64| assert_eq!(median(numbers.to_vec()), expected, "{numbers:?}");
        check(&[], 0.0);
        check(&[7.0], 7.0);
        check(&[9.0, 1.0, 2.0], 2.0);
        check(&[1.0, 30.0, 2.0, 4.0], 3.0);
    }
}
