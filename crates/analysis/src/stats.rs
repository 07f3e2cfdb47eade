//! Medians and spreads, and the noise between trials, without any assumption about the distribution:
//! the noise of servers on a shared machine is not Gaussian (it jumps between speeds).

use crate::Spread;

/// Median distance of two normal values in standard deviations: the third quartile times the square root of two.
const STEP_OF_NORMAL: f64 = 0.674_489_75 * std::f64::consts::SQRT_2;

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Median; `None` of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let n = sorted.len();
    (n > 0).then(|| (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0)
}

/// Median with the range; `None` of nothing.
pub(crate) fn spread(values: &[f64]) -> Option<Spread> {
    let sorted = sorted(values);
    Some(Spread {
        median: median(&sorted)?,
        min: *sorted.first()?,
        max: *sorted.last()?,
    })
}

/// `part / whole`, `None` when that is not a finite number.
pub(crate) fn share(part: f64, whole: f64) -> Option<f64> {
    let share = part / whole;
    (whole != 0.0 && share.is_finite()).then_some(share)
}

/// Noise of one trial from trials in the order in which they ran, as a relative standard deviation: the median of the
/// distances between neighbours, on logarithms, scaled to the normal distribution. Neighbours leave out a slow drift
/// (von Neumann et al. 1941), the median leaves out jumps. `None` of fewer than three.
pub(crate) fn successive_noise(in_order: &[f64]) -> Option<f64> {
    let steps: Vec<f64> = in_order
        .windows(2)
        .filter(|pair| pair[0] > 0.0 && pair[1] > 0.0)
        .map(|pair| (pair[1] / pair[0]).ln().abs())
        .collect();
    (steps.len() > 1).then(|| median(&steps).map(|step| step / STEP_OF_NORMAL))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_range() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(median(&[3.0, 1.0, f64::NAN, 10.0]), Some(3.0));
        let s = spread(&[2.0, 9.0, 4.0]).unwrap();
        assert_eq!((s.median, s.min, s.max), (4.0, 2.0, 9.0));
    }

    #[test]
    fn noise_leaves_out_drift_and_jumps() {
        assert_eq!(successive_noise(&[1.0, 2.0]), None);
        assert_eq!(successive_noise(&[3.0; 5]), Some(0.0));
        let drift: Vec<f64> = (0..20).map(|i| 1.001f64.powi(i)).collect();
        assert!(successive_noise(&drift).unwrap() < 0.002);
        let mut jump = vec![100.0, 101.0, 99.5, 100.5, 99.0, 100.0, 101.0];
        let quiet = successive_noise(&jump).unwrap();
        jump.extend([130.0, 131.0, 129.0, 130.5, 129.5]);
        assert!((quiet - successive_noise(&jump).unwrap()).abs() < 0.003);
        assert_eq!(share(1.0, 0.0), None);
    }
}
