//! Does a prediction come true? Seeded networks, simulated event by event, before and after a demand is taken off.
//!
//! The surprise: service times are not exponential here. The model is exact for exponential ones only, so that the
//! simulation says how much that costs.

use super::mva::{Center, closed, pooled};
use crate::samples::Random;
use std::collections::{BinaryHeap, VecDeque};

/// How a service varies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Service {
    Exponential,
    /// Uniform from half to one and a half of the mean.
    Even,
    /// Squared coefficient of variation of 3: one in five takes most of the time.
    Bursty,
}

impl Service {
    fn draw(self, mean: f64, random: &mut Random) -> f64 {
        match self {
            Service::Exponential => -mean * random.uniform().ln(),
            Service::Even => mean * (0.5 + random.uniform()),
            Service::Bursty => {
                let long = random.uniform() < 0.2;
                -mean * random.uniform().ln() * if long { 3.0 } else { 0.5 }
            }
        }
    }
}

/// Ends of services, soonest first.
#[derive(Clone, Copy, Debug, PartialEq)]
struct End {
    at: f64,
    place: usize,
}

impl Eq for End {}

impl Ord for End {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.at.total_cmp(&self.at)
    }
}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Requests per second of a closed network whose places are passed in turn, `slots` of them at a time.
fn simulate(
    centers: &[Center],
    (customers, slots): (u32, u32),
    service: Service,
    random: &mut Random,
) -> f64 {
    const SERVED: u32 = 20_000;
    let mut queues: Vec<VecDeque<()>> = vec![VecDeque::new(); centers.len()];
    let mut busy = vec![0u32; centers.len()];
    let mut ends = BinaryHeap::new();
    let (mut now, mut done) = (0.0, 0);
    let mut arrived: Vec<usize> = vec![0; customers.min(slots) as usize];
    while done < SERVED {
        while let Some(place) = arrived.pop() {
            let servers = centers[place].servers.map_or(u32::MAX, |s| s as u32);
            if busy[place] < servers {
                busy[place] += 1;
                let takes = service.draw(centers[place].demand, random);
                ends.push(End {
                    at: now + takes,
                    place,
                });
            } else {
                queues[place].push_back(());
            }
        }
        let Some(End { at, place }) = ends.pop() else {
            break;
        };
        now = at;
        busy[place] -= 1;
        if queues[place].pop_front().is_some() {
            arrived.push(place);
        }
        match place + 1 < centers.len() {
            true => arrived.push(place + 1),
            false => {
                done += 1;
                // Whoever waited for the slot, or the same one again: without a think time there is always one.
                arrived.push(0);
            }
        }
    }
    f64::from(done) / now
}

/// A network like a proxy's: its core, a core behind it, the generator, and something that all wait for.
fn network(random: &mut Random) -> Vec<Center> {
    let mut demand = |from: f64| from * (0.3 + 1.4 * random.uniform());
    vec![
        Center::queue(demand(0.1), 1.0),
        Center::queue(demand(0.06), 1.0),
        Center::queue(demand(0.1), 2.0),
        Center::delay(demand(0.2)),
    ]
}

#[test]
fn what_is_taken_off_brings_what_was_predicted() {
    let mut random = Random::new(5);
    for (service, most) in [
        (Service::Exponential, 0.05),
        (Service::Even, 0.12),
        (Service::Bursty, 0.15),
    ] {
        let mut errors = Vec::new();
        for _ in 0..12 {
            let before = network(&mut random);
            let customers = 2 + (random.uniform() * 30.0) as u32;
            let mut after = before.clone();
            after[0].demand *= 1.0 - 0.8 * random.uniform();
            let rate = |centers: &[Center]| closed(centers, 0.0, customers).rate_per_s;
            let all = (customers, u32::MAX);
            let mut measured = |centers: &[Center]| simulate(centers, all, service, &mut random);
            let predicted = rate(&after) / rate(&before);
            errors.push((predicted / (measured(&after) / measured(&before)) - 1.0).abs());
        }
        let worst = errors.iter().copied().fold(0.0, f64::max);
        assert!(worst < most, "{service:?}: {errors:?}");
    }
}

#[test]
fn slots_hold_back_what_they_hold_back_in_a_simulation() {
    let mut random = Random::new(6);
    for _ in 0..8 {
        let centers = network(&mut random);
        let slots = 1 + (random.uniform() * 5.0) as u32;
        let predicted = pooled(&centers, 0.0, 40, f64::from(slots)).rate_per_s;
        let measured = simulate(&centers, (40, slots), Service::Exponential, &mut random);
        assert!(
            (predicted / measured - 1.0).abs() < 0.08,
            "{slots} slots: {predicted} {measured}"
        );
    }
}
