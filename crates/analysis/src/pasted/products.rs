//! What is looked at next in a product's own tools and settings, as data (`catalogue/products.toml`).
//!
//! A product is known by its marks, a topic of it by further words near them. The surprise is that no entry names a
//! cause: it only says where whoever knows that product would look.

use aho_corasick::AhoCorasick;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

/// An entry.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Product {
    /// Product, with its topic behind a colon.
    pub name: String,
    /// One must be there.
    pub marks: Vec<String>,
    /// One of these too, in lines near the mark; empty where the marks are enough.
    #[serde(default)]
    pub when: Vec<String>,
    /// Commands, settings and patterns of that product.
    pub next: String,
    /// A line that leads to it; for the test of the file.
    #[cfg_attr(not(test), expect(dead_code, reason = "read by a test of the file"))]
    pub sample: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    product: Vec<Product>,
}

/// An entry that a text leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Led {
    pub product: &'static Product,
    /// How much of the entry's text is there; a topic is worth more than a product.
    pub score: usize,
    /// Whether the sentence that is told holds its mark.
    pub told: bool,
    /// Whether its further words are there too.
    pub whole: bool,
    /// Whether one of them is not the mark itself.
    pub apart: bool,
}

/// What a topic of a product is worth beyond its words, and one of no product (`any: ...`).
const TOPIC: usize = 40;
const ANY: usize = 10;
/// A mark that long names its product without further words.
const SURE: usize = 12;
/// Characters of marks that are counted: many of them are a long text, and no surer sign.
const MOST: usize = 40;
/// What a mark is worth in the line that is told.
const TOLD: usize = 30;
/// Lines before and behind a mark in which its further words are looked for.
const NEAR: usize = 4;
/// A shorter mark is a whole word.
const WORD: usize = 5;
/// A mark of letters alone up to that length is no begin of another word (`Tempo` of `Temporary`), but for its plural;
/// longer ones may be stems.
const STEM: usize = 7;

fn products() -> &'static [Product] {
    static PRODUCTS: OnceLock<Vec<Product>> = OnceLock::new();
    PRODUCTS.get_or_init(|| {
        let file: File = toml::from_str(include_str!("../../catalogue/products.toml"))
            .expect("a test parses the file that is compiled in");
        file.product
    })
}

impl Product {
    /// Whether it is of a topic of any product.
    pub(super) fn is_any(&self) -> bool {
        self.name.starts_with("any:")
    }

    /// Whether a mark is a name that only this product has: a package, a class, a file.
    fn is_sure(&self, mark: &str) -> bool {
        let named = mark.contains(['.', '_']) && !mark.contains(' ');
        !self.is_any() && named && mark.len() >= SURE
    }

    /// Whether it is of a topic of its product.
    pub(super) fn is_topic(&self) -> bool {
        self.name.contains(':')
    }
}

/// The marks of all products, each with the product's and its own number, for one pass over a text.
struct Marks {
    /// Those with a capital letter are looked for as they are written, the others in small letters.
    cased: (AhoCorasick, Vec<(usize, usize)>),
    lower: (AhoCorasick, Vec<(usize, usize)>),
}

fn marks() -> &'static Marks {
    static MARKS: OnceLock<Marks> = OnceLock::new();
    MARKS.get_or_init(|| {
        let all = products().iter().enumerate().flat_map(|(at, product)| {
            let marks = product.marks.iter().enumerate();
            marks.map(move |(mark, text)| ((at, mark), text.as_str()))
        });
        Marks::new(&all.collect::<Vec<_>>())
    })
}

impl Marks {
    fn new(all: &[((usize, usize), &str)]) -> Self {
        let of = |cased: bool| {
            let is_cased = |mark: &str| mark.contains(|c: char| c.is_ascii_uppercase());
            let its = all.iter().filter(|(_, mark)| is_cased(mark) == cased);
            let (of, texts): (Vec<_>, Vec<_>) = its.copied().unzip();
            let finder = AhoCorasick::new(texts).expect("some thousands of short marks");
            (finder, of)
        };
        Self {
            cased: of(true),
            lower: of(false),
        }
    }

    /// By product the marks that are in a text, each with its first place.
    fn found(&self, text: &Text) -> BTreeMap<usize, BTreeMap<usize, usize>> {
        let mut all: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
        for ((finder, of), plain) in [
            (&self.cased, text.plain),
            (&self.lower, text.lower.as_str()),
        ] {
            for hit in finder.find_overlapping_iter(plain) {
                let (product, mark) = of[hit.pattern().as_usize()];
                if is_word(text.plain, hit.range()) {
                    let places = all.entry(product).or_default();
                    let first = places.entry(mark).or_insert(hit.start());
                    *first = hit.start().min(*first);
                }
            }
        }
        all
    }
}

/// The entries that a text leads to, the most specific first. `told` is what is said of it.
pub(super) fn led(text: &str, told: &str) -> Vec<Led> {
    let text = Text::new(text);
    let told = marks().found(&Text::new(told));
    let all = marks().found(&text).into_iter().filter_map(|(at, found)| {
        let product = &products()[at];
        let near = found.iter();
        let near = near.filter_map(|(mark, at)| text.further(product, *at, &product.marks[*mark]));
        let near: Vec<Near> = near.collect();
        // The product is known also where its topic is another one.
        let is_sure = |mark: &usize| product.is_sure(&product.marks[*mark]);
        let sure = || found.keys().any(is_sure).then_some(0);
        let further = near.iter().map(|near| near.longest).max();
        let longest = further.or_else(sure)?;
        let marks: usize = found.keys().map(|mark| product.marks[*mark].len()).sum();
        let told = found
            .keys()
            .any(|mark| told.get(&at).is_some_and(|t| t.contains_key(mark)));
        let topic = match further {
            Some(_) if product.is_any() => ANY,
            Some(_) if product.is_topic() => TOPIC,
            _ => 0,
        };
        Some(Led {
            product,
            score: marks.min(MOST) + longest + topic + if told { TOLD } else { 0 },
            told,
            whole: further.is_some(),
            apart: near.iter().any(|near| near.apart),
        })
    });
    let mut all: Vec<Led> = all.collect();
    all.sort_by_key(|led| std::cmp::Reverse((led.score, led.whole)));
    all
}

/// A text as it is and in small letters.
struct Text<'a> {
    plain: &'a str,
    lower: String,
}

impl<'a> Text<'a> {
    fn new(plain: &'a str) -> Self {
        Self {
            plain,
            lower: plain.to_ascii_lowercase(),
        }
    }

    /// What of a product's further words stands near a mark, where it needs some; `None` where none is there.
    fn further(&self, product: &Product, at: usize, mark: &str) -> Option<Near> {
        if product.when.is_empty() {
            return Some(Near::default());
        }
        let before = self.lower[..at].rmatch_indices('\n').nth(NEAR);
        let behind = self.lower[at..].match_indices('\n').nth(NEAR);
        let from = before.map_or(0, |(i, _)| i);
        let to = behind.map_or(self.lower.len(), |(i, _)| at + i);
        let near = &self.lower[from..to];
        let itself = at - from..at - from + mark.len();
        // An acronym means many things, and is no proof of itself.
        let acronym = mark.len() < WORD && mark.bytes().all(|b| b.is_ascii_uppercase());
        let words = product.when.iter();
        // Nor is the same one further on.
        let words = words.filter(|word| !(acronym && word.eq_ignore_ascii_case(mark)));
        let words = words.filter_map(|word| {
            let word = word.to_ascii_lowercase();
            let places = near.match_indices(&word).map(|(place, _)| place);
            let places = places.filter(|place| begins(near, *place..place + word.len()));
            let places: Vec<bool> = places.map(|place| !itself.contains(&place)).collect();
            let apart = places.contains(&true);
            let there = apart || !acronym && !places.is_empty();
            there.then_some(Near {
                longest: word.len(),
                apart,
            })
        });
        words.reduce(|a, b| Near {
            longest: a.longest.max(b.longest),
            apart: a.apart || b.apart,
        })
    }
}

/// Further words of a product near one of its marks.
#[derive(Clone, Copy, Default)]
struct Near {
    longest: usize,
    apart: bool,
}

/// Whether a mark of a text is a word of it: a longer one may be a word's begin.
fn is_word(text: &str, at: Range<usize>) -> bool {
    let mark = &text[at.clone()];
    let letters = mark.bytes().all(|b| b.is_ascii_alphabetic());
    let lower = |c: char| c.is_ascii_lowercase();
    let goes_on = || {
        let rest = &text[at.end..];
        let plural = rest.strip_prefix('s').unwrap_or(rest);
        letters && mark.len() <= STEM && mark.ends_with(lower) && plural.starts_with(lower)
    };
    // `.local` is the end of a name, and `~/.local` a directory.
    let ends_nothing = || {
        let name = text[..at.start].chars().next_back();
        mark.starts_with('.')
            && !name.is_some_and(|c| c.is_alphanumeric() || "_)]}\"'*".contains(c))
    };
    begins(text, at.clone()) && !goes_on() && !ends_nothing()
}

/// Whether a part of a text begins a word; a short one is a whole word.
fn begins(text: &str, at: Range<usize>) -> bool {
    let found = &text[at.clone()];
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let before = text[..at.start].chars().next_back();
    let behind = text[at.end..].chars().next();
    let whole = found.len() < WORD && found.ends_with(part);
    !(found.starts_with(part) && before.is_some_and(part) || whole && behind.is_some_and(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What people write about any server, without a product.
    const PROSE: &str = "The server is slow under load and we do not know why. Requests take a long time, some fail \
        with an error or a timeout, and the database seems fine. We looked at memory, disk, network, threads, workers, \
        connections, cache, queue, the limit of the pool, the log of the service and the time of each response. It was \
        restarted, the problem went away and came back after a day; a call of the other application waits for data. \
        Thanks for any help, I got this message when a user opens the page. The host is at a provider, a process has \
        most of the CPU, the build and the test are fine, and the client gets its response late.";

    #[test]
    fn every_entry_is_well_formed() {
        let (mut names, mut steps) = (BTreeSet::new(), BTreeSet::new());
        let prose = marks().found(&Text::new(PROSE));
        for product in products() {
            let name = &product.name;
            assert!(names.insert(name), "{name} is there twice");
            assert!(steps.insert(&product.next), "{name}: another says the same");
            assert!(!product.marks.is_empty(), "{name}: no mark");
            assert!(product.next.contains('`'), "{name}: no command or setting");
            assert!(!product.next.ends_with('.'), "{name}: ends with a point");
            assert!(
                product.next.chars().count() <= 380,
                "{name}: too long to read"
            );
            assert!(
                product.next.matches('`').count() % 2 == 0,
                "{name}: marks of code"
            );
            let marks: BTreeSet<_> = product.marks.iter().collect();
            assert!(marks.len() == product.marks.len(), "{name}: a mark twice");
            for mark in &product.marks {
                assert!(mark.len() >= 2 && mark.trim() == mark, "{name}: `{mark}`");
            }
        }
        let common = prose.iter().flat_map(|(at, marks)| {
            let product = &products()[*at];
            let named = marks
                .keys()
                .map(|mark| (&product.name, &product.marks[*mark]));
            named.collect::<Vec<_>>()
        });
        let common: Vec<_> = common.collect();
        assert!(common.is_empty(), "common words: {common:?}");
        assert!(led(PROSE, "").is_empty());
    }

    #[test]
    fn the_sample_of_every_entry_leads_to_it() {
        let mut other = Vec::new();
        for product in products() {
            let first = led(&product.sample, "").into_iter().next();
            match first {
                Some(led) if led.product.name == product.name => {}
                first => other.push(format!(
                    "{}: {:?}",
                    product.name,
                    first.map(|l| &l.product.name)
                )),
            }
        }
        assert!(other.is_empty(), "{}", other.join("\n"));
    }

    #[test]
    fn a_short_mark_is_a_whole_word_and_capitals_count() {
        let find = |text: &str, mark: &str| {
            let marks = Marks::new(&[((0, 0), mark)]);
            !marks.found(&Text::new(text)).is_empty()
        };
        assert!(find("the GIL is held", "GIL") && !find("the gil", "GIL") && !find("AGILE", "GIL"));
        assert!(find("Caused by: tombstones", "tombstone") && !find("xtombstone", "tombstone"));
    }

    #[test]
    fn a_mark_is_neither_a_part_of_another_word_nor_its_own_proof() {
        let find = |text: &str, mark: &str| {
            let marks = Marks::new(&[((0, 0), mark)]);
            !marks.found(&Text::new(text)).is_empty()
        };
        assert!(find("Express: 3 ms, ExpressJS", "Express") && !find("Expression", "Express"));
        assert!(
            find("at caddy", "caddy") && find("two Caddys", "caddy") && !find("caddying", "caddy")
        );
        assert!(find("http://site.local/", ".local") && !find("~/.local/share", ".local"));
        let named = |text: &str| {
            let first = led(text, "").into_iter().next();
            first.map(|led| led.product.name.as_str())
        };
        let packets = "kernel: interrupts and packets on one CPU";
        assert_ne!(named("it takes 900 RPS"), Some(packets));
        assert_ne!(named("RPS: 900, result RPS: 3"), Some(packets));
        assert_eq!(named("RPS of eth0 is off, softirq 99 %"), Some(packets));
    }
}
