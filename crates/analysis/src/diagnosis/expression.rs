//! Arithmetic over facts, and sentences with such arithmetic in braces.
//!
//! A fact may be known, without meaning here, or unknown, and so may every expression over it: what is
//! unknown never turns into a number on the way. Its bounds may say enough all the same:
//! `a + applies(b, 0)` is at least `a`, whatever `b` is.

use super::fact::{FactView, Reading};
use crate::words::{count, percent};

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    Number(f64),
    Fact(String),
    /// Two expressions joined by `+ - * /`.
    Binary(char, Box<Expression>, Box<Expression>),
    /// `min(a, b)` or `max(a, b)`.
    Extreme(bool, Box<Expression>, Box<Expression>),
    /// `known(a, b)`: `a`, or `b` when `a` has no value. Not in conditions: there it would turn what is unknown
    /// into a number.
    Known(Box<Expression>, Box<Expression>),
    /// `applies(a, b)`: `a`, or `b` where `a` has no meaning; unknown where `a` is unknown.
    Applies(Box<Expression>, Box<Expression>),
}

/// The smallest and the largest value that an expression can have.
pub(crate) type Bounds = (f64, f64);

impl Expression {
    /// Parses a text.
    ///
    /// # Errors
    /// What was expected, and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, at: 0 };
        let parsed = parser.sum()?;
        parser.space();
        if parser.at == text.len() {
            Ok(parsed)
        } else {
            Err(parser.expected("an operator or the end"))
        }
    }

    /// Names of the facts in it, in order, each as often as it is used.
    pub fn facts(&self) -> Vec<&str> {
        match self {
            Expression::Number(_) => Vec::new(),
            Expression::Fact(name) => vec![name],
            Expression::Binary(_, a, b)
            | Expression::Extreme(_, a, b)
            | Expression::Known(a, b)
            | Expression::Applies(a, b) => {
                let mut names = a.facts();
                names.extend(b.facts());
                names
            }
        }
    }

    /// Its value over these facts. A division by 0 has no meaning.
    pub fn reading(&self, facts: &FactView<'_>) -> Reading {
        match self {
            Expression::Number(n) => Reading::Known(*n),
            Expression::Fact(name) => facts.reading(name),
            Expression::Known(a, b) => match a.reading(facts) {
                Reading::Known(value) => Reading::Known(value),
                _ => b.reading(facts),
            },
            Expression::Applies(a, b) => match a.reading(facts) {
                Reading::NotApplicable(_) => b.reading(facts),
                reading => reading,
            },
            Expression::Extreme(largest, a, b) => {
                let pick = if *largest { f64::max } else { f64::min };
                join(a.reading(facts), b.reading(facts), |a, b| Some(pick(a, b)))
            }
            Expression::Binary(operator, a, b) => {
                join(a.reading(facts), b.reading(facts), |a, b| match operator {
                    '+' => Some(a + b),
                    '-' => Some(a - b),
                    '*' => Some(a * b),
                    _ => (b != 0.0).then(|| a / b),
                })
            }
        }
    }
}

impl Expression {
    /// Whether it holds a `known(...)`.
    pub(crate) fn fills_in(&self) -> bool {
        match self {
            Expression::Number(_) | Expression::Fact(_) => false,
            Expression::Known(..) => true,
            Expression::Binary(_, a, b)
            | Expression::Extreme(_, a, b)
            | Expression::Applies(a, b) => a.fills_in() || b.fills_in(),
        }
    }

    /// What can be said of its value although some facts are unknown: those in `applies(...)` count for something,
    /// and are not negative. A bare fact may turn out to have no meaning, and then neither has the whole.
    pub(crate) fn bounds(&self, facts: &FactView<'_>) -> Option<Bounds> {
        match self.reading(facts) {
            Reading::Known(value) => return Some((value, value)),
            Reading::NotApplicable(_) => return None,
            Reading::Unknown(_) => {}
        }
        let both = |a: &Expression, b: &Expression| a.bounds(facts).zip(b.bounds(facts));
        match self {
            Expression::Number(_) | Expression::Fact(_) | Expression::Known(..) => None,
            Expression::Applies(_, b) => b.bounds(facts).map(|b| (b.0.min(0.0), f64::INFINITY)),
            Expression::Extreme(largest, a, b) => {
                let pick = if *largest { f64::max } else { f64::min };
                both(a, b).map(|(a, b)| (pick(a.0, b.0), pick(a.1, b.1)))
            }
            Expression::Binary(operator, a, b) => {
                both(a, b).and_then(|(a, b)| joined_bounds(*operator, a, b))
            }
        }
    }
}

fn joined_bounds(operator: char, a: Bounds, b: Bounds) -> Option<Bounds> {
    let positive = a.0 >= 0.0 && b.0 >= 0.0;
    let (low, high) = match operator {
        '+' => (a.0 + b.0, a.1 + b.1),
        '-' => (a.0 - b.1, a.1 - b.0),
        '*' if positive => (a.0 * b.0, a.1 * b.1),
        // A divisor that may be 0 leaves it open whether the whole has a meaning.
        '/' if positive && b.0 > 0.0 => (a.0 / b.1, a.1 / b.0),
        _ => return None,
    };
    // 0 times what may be anything, anything over anything.
    let or = |value: f64, other: f64| if value.is_nan() { other } else { value };
    Some((or(low, 0.0), or(high, f64::INFINITY)))
}

/// Unknown outweighs what has no meaning: with it known, the whole might have one.
fn join(a: Reading, b: Reading, apply: impl Fn(f64, f64) -> Option<f64>) -> Reading {
    match (a, b) {
        (Reading::Known(a), Reading::Known(b)) => match apply(a, b).filter(|v| v.is_finite()) {
            Some(value) => Reading::Known(value),
            None => Reading::NotApplicable("a division by 0".to_owned()),
        },
        (unknown @ Reading::Unknown(_), _) | (_, unknown @ Reading::Unknown(_)) => unknown,
        (none @ Reading::NotApplicable(_), _) | (_, none) => none,
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn expected(&self, what: &str) -> String {
        format!("expected {what} at {} of `{}`", self.at + 1, self.text)
    }

    /// Takes one of these characters when it comes next.
    fn take(&mut self, any: &[char]) -> Option<char> {
        self.space();
        let next = self.text[self.at..].chars().next()?;
        any.contains(&next).then(|| {
            self.at += next.len_utf8();
            next
        })
    }

    fn needed(&mut self, c: char) -> Result<(), String> {
        match self.take(&[c]) {
            Some(_) => Ok(()),
            None => Err(self.expected(&format!("`{c}`"))),
        }
    }

    fn sum(&mut self) -> Result<Expression, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.take(&['+', '-']) {
            left = Expression::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut left = self.atom()?;
        while let Some(operator) = self.take(&['*', '/']) {
            left = Expression::Binary(operator, Box::new(left), Box::new(self.atom()?));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<Expression, String> {
        if self.take(&['(']).is_some() {
            let inner = self.sum()?;
            self.needed(')')?;
            return Ok(inner);
        }
        self.space();
        let rest = &self.text[self.at..];
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let length = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let token = &rest[..length];
        if token.is_empty() {
            return Err(self.expected("a number or a fact"));
        }
        if token.starts_with(|c: char| c.is_ascii_digit()) {
            let number = token.parse().map_err(|_| self.expected("a number"))?;
            self.at += length;
            return Ok(Expression::Number(number));
        }
        self.at += length;
        if !matches!(token, "min" | "max" | "known" | "applies") {
            return Ok(Expression::Fact(token.to_owned()));
        }
        self.needed('(')?;
        let a = Box::new(self.sum()?);
        self.needed(',')?;
        let b = Box::new(self.sum()?);
        self.needed(')')?;
        Ok(match token {
            "known" => Expression::Known(a, b),
            "applies" => Expression::Applies(a, b),
            _ => Expression::Extreme(token == "max", a, b),
        })
    }
}

/// How a value is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As its unit asks.
    Unit,
    /// `12 %`.
    Percent,
    /// Rounded.
    Int,
    /// Rounded up.
    IntUp,
    /// Three significant digits.
    Number,
    /// `90.0 KiB`.
    Bytes,
    /// `1.5 ms`.
    Ms,
    /// `20 us`.
    Us,
    /// The next power of two that holds the bytes: `128k`.
    SizeUp,
}

impl Format {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "percent" => Format::Percent,
            "int" => Format::Int,
            "int_up" => Format::IntUp,
            "number" => Format::Number,
            "bytes" => Format::Bytes,
            "ms" => Format::Ms,
            "us" => Format::Us,
            "size_up" => Format::SizeUp,
            _ => return None,
        })
    }

    /// A value in this format; `unit` is used by [`Format::Unit`] alone.
    pub fn text(self, value: f64, unit: &str) -> String {
        match self {
            Format::Percent => percent(value),
            Format::Int => whole(value),
            Format::IntUp => whole(value.ceil()),
            Format::Number => number(value),
            Format::Bytes => bytes(value),
            Format::Ms => format!("{} ms", number(value)),
            Format::Us => format!("{} us", number(value)),
            Format::SizeUp => size_up(value),
            Format::Unit => match unit {
                "1" if (0.0..=1.0).contains(&value) => percent(value),
                "1" | "1/request" | "" => number(value),
                "bytes" => bytes(value),
                "1/s" => format!("{}/s", number(value)),
                unit => format!("{} {unit}", number(value)),
            },
        }
    }
}

fn whole(value: f64) -> String {
    let sign = if value.round() < 0.0 { "-" } else { "" };
    format!("{sign}{}", count(value.abs().round() as u64))
}

/// Three significant digits, no trailing zeros, thousands separated.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1_000.0 || size.fract() == 0.0 {
        return whole(value);
    }
    if size < 0.0005 {
        return format!("{value:.1e}");
    }
    let digits = (2 - size.log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn bytes(value: f64) -> String {
    let units = [
        ("GiB", 1_073_741_824.0),
        ("MiB", 1_048_576.0),
        ("KiB", 1_024.0),
    ];
    match units.into_iter().find(|(_, size)| value.abs() >= *size) {
        Some((unit, size)) => format!("{:.1} {unit}", value / size),
        None => format!("{} B", whole(value)),
    }
}

fn size_up(value: f64) -> String {
    let kib = (value.max(1.0) / 1_024.0).ceil() as u64;
    let size = kib.next_power_of_two();
    if size >= 1_024 {
        format!("{}m", size / 1_024)
    } else {
        format!("{size}k")
    }
}

/// A sentence with expressions in braces.
#[derive(Clone, Debug, PartialEq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Value(Expression, Format),
}

impl Template {
    /// Parses `text {expression} text {expression:format}`; `{{` and `}}` are literal braces.
    ///
    /// # Errors
    /// What is wrong with which brace.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
                continue;
            }
            let end = rest.find('}').filter(|_| brace == "{");
            let end = end.ok_or_else(|| format!("a single `{brace}` in `{text}`"))?;
            parts.push(Part::Text(std::mem::take(&mut literal)));
            parts.push(value_part(&rest[..end])?);
            rest = &rest[end + 1..];
        }
        literal.push_str(rest);
        parts.push(Part::Text(literal));
        Ok(Self(parts))
    }

    /// Names of the facts in it.
    #[cfg(test)]
    pub fn facts(&self) -> Vec<&str> {
        let expressions = self.0.iter().filter_map(|part| match part {
            Part::Value(expression, _) => Some(expression),
            Part::Text(_) => None,
        });
        expressions.flat_map(Expression::facts).collect()
    }

    /// The sentence with its values; `?` for those without one.
    pub fn text(&self, facts: &FactView<'_>) -> String {
        self.render(facts, Some("?")).unwrap_or_default()
    }

    /// The sentence, or `None` when a value is missing.
    pub fn complete(&self, facts: &FactView<'_>) -> Option<String> {
        self.render(facts, None).map(|text| ungrouped(&text))
    }

    fn render(&self, facts: &FactView<'_>, missing: Option<&str>) -> Option<String> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Value(expression, format) => match expression.reading(facts) {
                    Reading::Known(value) => {
                        let unit = unit_of(expression).unwrap_or_else(|| "number".to_owned());
                        text.push_str(&format.text(value, &unit));
                    }
                    _ => text.push_str(missing?),
                },
            }
        }
        Some(text)
    }
}

/// Without the commas between groups of digits: no server reads `65,536` as one number.
pub(crate) fn ungrouped(text: &str) -> String {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| {
        let byte = at.and_then(|at| bytes.get(at));
        byte.is_some_and(u8::is_ascii_digit)
    };
    let groups = |at: usize| {
        text[at..].starts_with(',')
            && is_digit(at.checked_sub(1))
            && (1..=3).all(|n| is_digit(Some(at + n)))
            && !is_digit(Some(at + 4))
    };
    let kept = text.char_indices().filter(|(at, _)| !groups(*at));
    kept.map(|(_, c)| c).collect()
}

fn value_part(inner: &str) -> Result<Part, String> {
    let (expression, format) = match inner.rsplit_once(':') {
        Some((expression, name)) => (
            expression,
            Format::parse(name.trim()).ok_or_else(|| format!("no format `{name}` in `{inner}`"))?,
        ),
        None => (inner, Format::Unit),
    };
    Ok(Part::Value(Expression::parse(expression)?, format))
}

/// The unit of a value: that of its fact, or of the terms of a sum that agree on one. Products and quotients have none
/// that could be told.
pub(super) fn unit_of(expression: &Expression) -> Option<String> {
    let common = |a: &Expression, b: &Expression| {
        let units = [unit_of(a), unit_of(b)];
        match (a, b) {
            (Expression::Number(_), _) => units[1].clone(),
            (_, Expression::Number(_)) => units[0].clone(),
            _ => units[0].clone().filter(|_| units[0] == units[1]),
        }
    };
    match expression {
        Expression::Number(_) => None,
        Expression::Fact(name) => Some(super::catalogue().unit_of(name).to_owned()),
        Expression::Binary('+' | '-', a, b) => common(a, b),
        // A number that scales may change the unit (us / 1000).
        Expression::Binary(..) => None,
        Expression::Extreme(_, a, b) | Expression::Known(a, b) | Expression::Applies(a, b) => {
            common(a, b)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::fact::FactSet;

    fn facts() -> FactSet {
        let mut facts = FactSet::default();
        facts.known("", "a", 6.0, "test");
        facts.known("web", "b", 3.0, "test");
        facts.unknown("", "gone", "no probe");
        facts.not_applicable("", "never", "no such call");
        facts
    }

    fn check(text: &str, expected: Option<f64>) {
        let set = facts();
        let reading = Expression::parse(text).unwrap().reading(&set.view("web"));
        assert_eq!(reading.value(), expected, "{text}");
    }

    #[test]
    fn arithmetic_over_facts() {
        check("a + b * 2", Some(12.0));
        check("(a + b) * 2", Some(18.0));
        check("a - b - 1", Some(2.0));
        check("max(a, b) / min(a, b)", Some(2.0));
        check("known(gone, 0.5)", Some(0.5));
        check("known(never, b)", Some(3.0));
        check("applies(never, 0.5)", Some(0.5));
        check("applies(gone, 0.5)", None);
        check("gone * 0", None);
        check("a / 0", None);
        check("a + never", None);
    }

    #[test]
    fn bounds_of_what_is_partly_unknown() {
        let set = facts();
        let check = |text: &str, expected: Option<Bounds>| {
            let bounds = Expression::parse(text).unwrap().bounds(&set.view("web"));
            assert_eq!(bounds, expected, "{text}");
        };
        let any = f64::INFINITY;
        check("a + b", Some((9.0, 9.0)));
        check("a + applies(gone, 0)", Some((6.0, any)));
        check("a - applies(gone, 0)", Some((-any, 6.0)));
        check("applies(gone, 0) - applies(gone, 0)", Some((-any, any)));
        check("max(a, applies(gone, 0))", Some((6.0, any)));
        check("min(a, applies(gone, 0))", Some((0.0, 6.0)));
        check("a * applies(gone, 1)", Some((0.0, any)));
        check("applies(gone, 0) / a", Some((0.0, any)));
        check("a / applies(gone, 1)", None);
        check("(a - applies(gone, 0)) * b", None);
        check("max(a, applies(gone, 0)) / b", Some((2.0, any)));
        check(
            "max(a, applies(never, 0)) + applies(gone, 0)",
            Some((6.0, any)),
        );
        check("gone", None);
        check("a + gone", None);
        check("a + never", None);
        check("applies(gone, 0) + never", None);
    }

    #[test]
    fn unknown_outweighs_what_does_not_apply() {
        let set = facts();
        let reading = Expression::parse("never + gone").unwrap();
        assert!(matches!(
            reading.reading(&set.view("")),
            Reading::Unknown(_)
        ));
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for text in ["", "a +", "min(a)", "(a", "a b", "1x", "a ? b"] {
            assert!(Expression::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn templates_print_values() {
        let set = facts();
        for (text, expected) in [
            ("{a} and {b:int}", "6 and 3"),
            ("{a * 15000:size_up}", "128k"),
            ("{a * 1000:bytes}", "5.9 KiB"),
            ("{a / 50:percent}", "12 %"),
            ("{gone} {{a}}", "? {a}"),
            ("{b / a:number}", "0.5"),
        ] {
            let template = Template::parse(text).unwrap();
            assert_eq!(template.text(&set.view("web")), expected, "{text}");
        }
        let template = Template::parse("{gone:int}").unwrap();
        assert_eq!(template.complete(&set.view("web")), None);
        for text in ["{a", "a}", "{a:furlongs}", "{}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }
}
