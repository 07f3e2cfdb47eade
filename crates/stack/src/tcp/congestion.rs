//! How much may be in the network: slow start and congestion avoidance (RFC 5681), NewReno (RFC 6582) and CUBIC
//! (RFC 9438). Arithmetic alone; when a window grows or shrinks is decided where acknowledgements and losses are seen.

use super::flow::Flow;
use super::loss::{Cubic, Loss};
use super::settings::CongestionControl;

/// CUBIC's C (RFC 9438 4.1.2).
const C: f32 = 0.4;
/// CUBIC's multiplicative decrease (RFC 9438 4.6).
const BETA: f32 = 0.7;

/// The initial window (RFC 6928 2, with the number of segments settable).
pub fn initial_window(mss: u16, segments: u32) -> u32 {
    u32::from(mss).saturating_mul(segments.max(1))
}

/// Takes the window down for a loss or a mark of congestion; not again before all that is out now was acknowledged.
pub fn reduce(flow: &mut Flow, loss: &mut Loss, control: CongestionControl) {
    let out = flow.outstanding();
    flow.ssthresh = after_loss(flow, out, control, Some(&mut loss.cubic));
    flow.cwnd = flow.ssthresh;
    loss.recover = flow.snd_max;
}

/// The window that a loss leaves (RFC 5681 equation 4; RFC 9438 4.6), at least two segments.
pub fn after_loss(
    flow: &Flow,
    in_flight: u32,
    control: CongestionControl,
    cubic: Option<&mut Cubic>,
) -> u32 {
    let mss = u32::from(flow.mss);
    let reduced = match (control, cubic) {
        (CongestionControl::Cubic, Some(cubic)) => {
            let window = flow.cwnd as f32 / mss as f32;
            // Fast convergence (RFC 9438 4.7): a flow that lost below its last peak gives more way.
            cubic.w_max = if window < cubic.w_max {
                window * (1.0 + BETA) / 2.0
            } else {
                window
            };
            cubic.epoch_at = None;
            (in_flight as f32 * BETA) as u32
        }
        _ => in_flight / 2,
    };
    reduced.max(2 * mss)
}

/// The window after `acked` new bytes were acknowledged outside recovery, when the window was what limited.
pub fn on_acked(flow: &Flow, acked: u32, now_us: u32, cubic: Option<&mut Cubic>) -> u32 {
    let mss = u32::from(flow.mss);
    if flow.cwnd < flow.ssthresh {
        // A receiver that merges segments acknowledges many at once: all of them count (RFC 3465 with L as large as
        // the acknowledgement; kernels do the same).
        return flow
            .cwnd
            .saturating_add(acked)
            .min(flow.ssthresh.max(flow.cwnd + mss));
    }
    match cubic {
        Some(cubic) => cubic_window(flow, acked, now_us, cubic),
        None => {
            let grown = u64::from(mss) * u64::from(acked) / u64::from(flow.cwnd.max(1));
            flow.cwnd.saturating_add((grown as u32).max(1))
        }
    }
}

fn cubic_window(flow: &Flow, acked: u32, now_us: u32, cubic: &mut Cubic) -> u32 {
    let mss = f32::from(flow.mss);
    let window = flow.cwnd as f32 / mss;
    let epoch_at = *cubic.epoch_at.get_or_insert_with(|| {
        cubic.begin = window;
        cubic.w_est = window;
        if cubic.w_max < window {
            cubic.w_max = window;
        }
        // K = cubic root of (W_max - cwnd_epoch) / C (RFC 9438 equation 2).
        cubic.k = ((cubic.w_max - window) / C).cbrt();
        now_us
    });
    let rtt_s = flow.srtt as f32 / 8e6;
    let t = now_us.wrapping_sub(epoch_at) as f32 / 1e6 + rtt_s;
    let segments = acked as f32 / mss;
    // What Reno would have (RFC 9438 4.3).
    let alpha = if cubic.w_est < cubic.w_max {
        3.0 * (1.0 - BETA) / (1.0 + BETA)
    } else {
        1.0
    };
    cubic.w_est += alpha * segments / window;
    let target = (C * (t - cubic.k).powi(3) + cubic.w_max).clamp(window, 1.5 * window);
    let grown = window + (target - window) / window * segments;
    let window = grown.max(cubic.w_est).min(window + segments);
    (window * mss) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(cwnd: u32, ssthresh: u32) -> Flow {
        Flow {
            cwnd,
            ssthresh,
            mss: 1_000,
            srtt: 8 * 10_000,
            ..Flow::default()
        }
    }

    #[test]
    fn slow_start_grows_by_what_was_acknowledged_up_to_the_threshold() {
        assert_eq!(on_acked(&flow(10_000, u32::MAX), 4_000, 0, None), 14_000);
        assert_eq!(on_acked(&flow(10_000, 11_500), 4_000, 0, None), 11_500);
    }

    #[test]
    fn reno_grows_by_a_segment_a_round_trip() {
        let mut flow = flow(10_000, 5_000);
        for _ in 0..10 {
            flow.cwnd = on_acked(&flow, 1_000, 0, None);
        }
        assert!((10_950..=11_000).contains(&flow.cwnd), "{}", flow.cwnd);
    }

    #[test]
    fn losses_leave_a_half_or_seven_tenths_and_two_segments_at_least() {
        let flow = flow(100_000, u32::MAX);
        let reno = |bytes| after_loss(&flow, bytes, CongestionControl::NewReno, None);
        assert_eq!((reno(100_000), reno(1_000)), (50_000, 2_000));
        let mut cubic = Cubic::default();
        let left = after_loss(&flow, 100_000, CongestionControl::Cubic, Some(&mut cubic));
        assert_eq!((left, cubic.w_max), (70_000, 100.0));
    }

    /// RFC 9438: the window is concave up to W_max, reaches it after K, and then grows faster and faster.
    #[test]
    fn cubic_reaches_its_old_window_after_k() {
        let mut flow = flow(70_000, 70_000);
        flow.srtt = 8 * 100_000;
        let mut cubic = Cubic {
            w_max: 100.0,
            ..Cubic::default()
        };
        let (mut now_us, mut at_k) = (0, 0);
        for _ in 0..100 {
            // A round trip's acknowledgements, in ten parts.
            for _ in 0..10 {
                now_us += 10_000;
                flow.cwnd = on_acked(&flow, flow.cwnd / 10, now_us, Some(&mut cubic));
            }
            if at_k == 0 && now_us as f32 / 1e6 >= cubic.k {
                at_k = flow.cwnd;
            }
        }
        assert!((4.1..4.4).contains(&cubic.k), "{}", cubic.k);
        assert!((95_000..=104_000).contains(&at_k), "{at_k}");
        assert!(flow.cwnd > 150_000, "{}", flow.cwnd);
    }
}
