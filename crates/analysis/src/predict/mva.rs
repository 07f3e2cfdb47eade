//! Queueing networks, solved: how fast and how quickly a server answers when each place costs so much.
//!
//! ```text
//! closed   Reiser and Lavenberg's exact mean value analysis; several servers by Seidmann's transformation
//! pool     the network behind slots as one flow-equivalent server (Chandy, Herzog, Woo), exact for product form
//! open     a sum of M/G/1 queues (Pollaczek and Khinchine), the measured variance where it is known
//! bounds   Denning and Buzen's asymptotes, which hold for every distribution and discipline
//! ```
//! The surprise: fewer servers than one are possible. A core of which a foreign program takes half serves like half a
//! server: its capacity falls, and no request is served by a fraction of it in parallel.
//!
//! Sources: M. Reiser, S. Lavenberg: Mean-Value Analysis of Closed Multichain Queuing Networks, J. ACM 27(2), 1980.
//! A. Seidmann, P. Schweitzer, S. Shalev-Oren: Computerized Closed Queueing Network Models of Flexible Manufacturing
//! Systems, Large Scale Systems 12, 1987. K. Chandy, U. Herzog, L. Woo: Parametric Analysis of Queuing Networks, IBM J.
//! Res. Dev. 19(1), 1975. P. Denning, J. Buzen: The Operational Analysis of Queueing Network Models, ACM Computing
//! Surveys 10(3), 1978.

/// A place where a request spends time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Center {
    /// Seconds of service that a request takes there.
    pub demand: f64,
    /// How many are served at a time; `None`: all of them (a delay).
    pub servers: Option<f64>,
}

impl Center {
    pub(crate) fn queue(demand: f64, servers: f64) -> Self {
        Self {
            demand,
            servers: Some(servers),
        }
    }

    pub(crate) fn delay(demand: f64) -> Self {
        Self {
            demand,
            servers: None,
        }
    }

    /// Seconds by which a request keeps the next one waiting; 0 for a delay.
    pub(crate) fn spacing(&self) -> f64 {
        self.servers.map_or(0.0, |servers| self.demand / servers)
    }

    /// The part of the demand that is spent beside others: Seidmann's delay.
    fn beside(&self) -> f64 {
        (self.demand - self.spacing()).max(0.0)
    }
}

/// A network under a load.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Solution {
    pub rate_per_s: f64,
    /// Mean time in the network, s.
    pub response_s: f64,
    /// Requests at each center, in their order; those that wait for a slot stand at none.
    pub at: Vec<f64>,
}

/// `customers` requests in flight, each back after `think` seconds.
pub(crate) fn closed(centers: &[Center], think: f64, customers: u32) -> Solution {
    let mut queues = vec![0.0; centers.len()];
    let mut solution = Solution {
        rate_per_s: 0.0,
        response_s: centers.iter().map(|c| c.demand).sum(),
        at: queues.clone(),
    };
    for n in 1..=customers {
        let waited = |(c, queue): (&Center, &f64)| c.spacing() * (1.0 + queue);
        let stays: Vec<f64> = centers.iter().zip(&queues).map(waited).collect();
        let beside: f64 = centers.iter().map(Center::beside).sum();
        let response = stays.iter().sum::<f64>() + beside;
        let cycle = think + response;
        if cycle <= 0.0 {
            return solution;
        }
        let rate = f64::from(n) / cycle;
        queues = stays.iter().map(|stay| rate * stay).collect();
        let at = centers.iter().zip(&queues);
        solution = Solution {
            rate_per_s: rate,
            response_s: response,
            at: at.map(|(c, queue)| queue + rate * c.beside()).collect(),
        };
    }
    solution
}

/// The same, where at most `slots` of them are inside at a time and the others wait before it. A fraction of a slot is
/// one that is there for this fraction of the time.
pub(crate) fn pooled(centers: &[Center], think: f64, customers: u32, slots: f64) -> Solution {
    if slots >= f64::from(customers) {
        return closed(centers, think, customers);
    }
    let inside = |n: f64| {
        let (below, above) = (n.floor(), n.ceil());
        let [low, high] = [below, above].map(|n| closed(centers, 0.0, n as u32));
        let part = n - below;
        let mix = |a: f64, b: f64| a * (1.0 - part) + b * part;
        let at = low.at.iter().zip(&high.at);
        Solution {
            rate_per_s: mix(low.rate_per_s, high.rate_per_s),
            response_s: mix(low.response_s, high.response_s),
            at: at.map(|(a, b)| mix(*a, *b)).collect(),
        }
    };
    let full = inside(slots);
    if think <= 0.0 {
        return Solution {
            response_s: f64::from(customers) / full.rate_per_s,
            ..full
        };
    }
    // A birth-death chain over the requests in the system: those that think come back, the flow-equivalent server
    // lets them out. Weights are logarithms: products over hundreds of states leave the range of a number.
    let rates = (0..=customers).map(|n| inside(slots.min(f64::from(n))).rate_per_s);
    let rates: Vec<f64> = rates.collect();
    let mut logs = vec![0.0];
    for n in 1..=customers {
        let born = f64::from(customers - n + 1) / think;
        let last = logs[logs.len() - 1];
        logs.push(last + born.ln() - rates[n as usize].ln());
    }
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| (log - most).exp()).collect();
    let whole: f64 = weights.iter().sum();
    let rate = weights.iter().zip(&rates).map(|(w, r)| w * r).sum::<f64>() / whole;
    let busy = rate / full.rate_per_s;
    Solution {
        rate_per_s: rate,
        response_s: f64::from(customers) / rate - think,
        at: full.at.iter().map(|n| n * busy).collect(),
    }
}

/// Requests that a clock sends, `rate_per_s` of them; `variability` is the squared coefficient of variation of the
/// service. `None` when a center cannot keep up.
pub(crate) fn open(centers: &[Center], rate_per_s: f64, variability: f64) -> Option<Solution> {
    let mut response = 0.0;
    let mut at = Vec::new();
    for center in centers {
        let spacing = center.spacing();
        let busy = rate_per_s * spacing;
        if busy >= 1.0 {
            return None;
        }
        let waits = busy * spacing * (1.0 + variability) / (2.0 * (1.0 - busy));
        let stay = center.demand.max(spacing) + waits;
        response += stay;
        at.push(rate_per_s * stay);
    }
    Some(Solution {
        rate_per_s,
        response_s: response,
        at,
    })
}

/// The most that any discipline can reach, and the least that a closed network without slots can fall to.
pub(crate) fn bounds(centers: &[Center], think: f64, customers: u32) -> (f64, f64) {
    let most = centers.iter().map(Center::spacing).fold(0.0, f64::max);
    let spacing: f64 = centers.iter().map(Center::spacing).sum();
    let beside: f64 = centers.iter().map(Center::beside).sum();
    let n = f64::from(customers);
    let alone = n / (think + spacing + beside);
    let high = if most > 0.0 {
        alone.min(1.0 / most)
    } else {
        alone
    };
    (n / (think + beside + n * spacing), high)
}

/// The center that is full first: the largest spacing.
pub(crate) fn narrowest(centers: &[Center]) -> Option<usize> {
    let queues = centers
        .iter()
        .enumerate()
        .filter(|(_, c)| c.spacing() > 0.0);
    let narrowest = queues.max_by(|a, b| a.1.spacing().total_cmp(&b.1.spacing()));
    narrowest.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Random;

    fn near(found: f64, expected: f64) {
        assert!(
            (found / expected - 1.0).abs() < 1e-9,
            "{found} instead of {expected}"
        );
    }

    /// M/M/1//N: the machine repairman, by its birth-death chain.
    fn repairman(machines: u32, think: f64, service: f64, repairers: u32) -> f64 {
        let mut weight = 1.0;
        let (mut sum, mut busy) = (1.0, 0.0);
        for n in 1..=machines {
            let at_work = f64::from(n.min(repairers));
            weight *= f64::from(machines - n + 1) / think * service / at_work;
            sum += weight;
            busy += weight * at_work;
        }
        busy / sum / service
    }

    #[test]
    fn one_queue_and_a_think_time_are_the_machine_repairman() {
        for machines in [1, 2, 5, 40] {
            for think in [0.1, 1.0, 10.0] {
                let queue = [Center::queue(0.3, 1.0)];
                let found = closed(&queue, think, machines);
                near(found.rate_per_s, repairman(machines, think, 0.3, 1));
                // Little's law over the whole cycle.
                near(
                    found.rate_per_s * (found.response_s + think),
                    f64::from(machines),
                );
            }
        }
    }

    #[test]
    fn a_balanced_network_has_its_closed_form() {
        for (queues, customers) in [(1, 7), (3, 1), (4, 16), (9, 100)] {
            let centers = vec![Center::queue(0.02, 1.0); queues];
            let found = closed(&centers, 0.0, customers);
            let n = f64::from(customers);
            near(found.rate_per_s, n / (0.02 * (n + queues as f64 - 1.0)));
        }
    }

    /// Seidmann's approximation is exact for one customer and at saturation, and near the chain between.
    #[test]
    fn several_servers_are_near_their_chain() {
        for servers in [2, 4] {
            let queue = [Center::queue(1.0, f64::from(servers))];
            near(closed(&queue, 0.0, 1).rate_per_s, 1.0);
            for customers in [2, 4, 8, 40] {
                let found = closed(&queue, 2.0, customers).rate_per_s;
                let chain = repairman(customers, 2.0, 1.0, servers);
                assert!(
                    (found / chain - 1.0).abs() < 0.11,
                    "{servers}, {customers}: {found} {chain}"
                );
            }
            near(
                closed(&queue, 0.0, 4000).rate_per_s.round(),
                f64::from(servers),
            );
        }
    }

    /// An open queue is the limit of many customers that think for long, and M/M/1 has a closed form.
    #[test]
    fn many_that_think_are_an_open_queue() {
        let queue = [Center::queue(0.5, 1.0)];
        let open = open(&queue, 1.0, 1.0).unwrap();
        near(open.response_s, 1.0);
        let customers = 4000;
        let think = f64::from(customers) - open.response_s;
        let found = closed(&queue, think, customers);
        assert!((found.response_s - 1.0).abs() < 0.005, "{found:?}");
        assert!((found.rate_per_s - 1.0).abs() < 0.005, "{found:?}");
        // Even service halves the wait.
        near(super::open(&queue, 1.0, 0.0).unwrap().response_s, 0.75);
        assert_eq!(super::open(&queue, 2.0, 1.0), None);
    }

    #[test]
    fn slots_hold_what_is_behind_them() {
        let inside = [Center::queue(0.001, 1.0), Center::delay(0.05)];
        // Two slots, no think time: two at a time, whoever waits before them.
        let two = closed(&inside, 0.0, 2).rate_per_s;
        let held = pooled(&inside, 0.0, 64, 2.0);
        near(held.rate_per_s, two);
        near(held.response_s, 64.0 / two);
        near(
            pooled(&inside, 0.0, 64, 64.0).rate_per_s,
            closed(&inside, 0.0, 64).rate_per_s,
        );
        // Slots before a delay alone are a queue with so many servers.
        for (think, slots) in [(0.1, 1), (0.1, 3), (2.0, 2)] {
            let found = pooled(&[Center::delay(0.4)], think, 12, f64::from(slots));
            near(found.rate_per_s, repairman(12, think, 0.4, slots));
        }
        let between = pooled(&inside, 0.0, 64, 2.5).rate_per_s;
        assert!(between > two && between < closed(&inside, 0.0, 3).rate_per_s);
    }

    #[test]
    fn no_network_leaves_its_bounds() {
        let mut random = Random::new(11);
        for _ in 0..300 {
            let count = 1 + (random.uniform() * 6.0) as usize;
            let centers: Vec<Center> = (0..count)
                .map(|_| {
                    let demand = 10f64.powf(-5.0 + 4.0 * random.uniform());
                    match random.uniform() {
                        u if u < 0.3 => Center::delay(demand),
                        u if u < 0.6 => Center::queue(demand, 1.0),
                        u => Center::queue(demand, 0.5 + 8.0 * u),
                    }
                })
                .collect();
            let think = if random.uniform() < 0.5 { 0.0 } else { 0.01 };
            let customers = 1 + (random.uniform() * 200.0) as u32;
            let found = closed(&centers, think, customers);
            let (low, high) = bounds(&centers, think, customers);
            let rate = found.rate_per_s;
            assert!(
                low * (1.0 - 1e-9) <= rate && rate <= high * (1.0 + 1e-9),
                "{low} {rate} {high}: {centers:?} {think} {customers}"
            );
            let inside: f64 = found.at.iter().sum();
            near(inside + rate * think, f64::from(customers));
            let slots = 0.5 + random.uniform() * f64::from(customers);
            let held = pooled(&centers, think, customers, slots).rate_per_s;
            assert!(held <= rate * (1.0 + 1e-9), "slots only take away");
            // More of the narrowest center never helps.
            let mut slower = centers.clone();
            if let Some(at) = narrowest(&centers) {
                slower[at].demand *= 1.5;
                assert!(closed(&slower, think, customers).rate_per_s < rate);
            }
        }
    }
}
