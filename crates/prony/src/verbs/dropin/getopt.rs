//! Flags as getopt reads them: `-c10`, `-c 10`, `-kc 10`, `--duration=10`, `--duration 10`, `--` and operands anywhere.

/// A flag: its letter, its long name (or none), and whether a value follows.
pub struct Flag {
    pub letter: char,
    pub long: &'static str,
    pub has_value: bool,
}

/// The flags of a tool from getopt's own form, `n:c:k`, with long names for some letters.
pub fn flags(letters: &str, long: &[(char, &'static str)]) -> Vec<Flag> {
    let mut all: Vec<Flag> = Vec::new();
    for letter in letters.chars() {
        match (letter, all.last_mut()) {
            (':', Some(last)) => last.has_value = true,
            _ => all.push(Flag {
                letter,
                long: long.iter().find(|(l, _)| *l == letter).map_or("", |l| l.1),
                has_value: false,
            }),
        }
    }
    all
}

/// Flags in their order with their values, and the operands.
pub type Read = (Vec<(char, String)>, Vec<String>);

/// Takes a command line apart.
///
/// # Errors
/// What is wrong with it, as the tools say it.
pub fn read(args: &[String], flags: &[Flag]) -> Result<Read, String> {
    let (mut found, mut operands) = (Vec::new(), Vec::new());
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == "--" {
            operands.extend(rest.by_ref().cloned());
        } else if let Some(long) = arg.strip_prefix("--") {
            let (name, given) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let flag = flags.iter().find(|f| !f.long.is_empty() && f.long == name);
            let flag = flag.ok_or_else(|| format!("invalid option -- '--{name}'"))?;
            let value = match (flag.has_value, given) {
                (true, Some(value)) => value,
                (true, None) => next(&mut rest, &format!("--{name}"))?,
                (false, Some(_)) => return Err(format!("--{name} takes no value")),
                (false, None) => String::new(),
            };
            found.push((flag.letter, value));
        } else if let Some(letters) = arg.strip_prefix('-').filter(|l| !l.is_empty()) {
            let mut letters = letters.chars();
            while let Some(letter) = letters.next() {
                let flag = flags.iter().find(|f| f.letter == letter);
                let flag = flag.ok_or_else(|| format!("invalid option -- '{letter}'"))?;
                let value = match (flag.has_value, letters.as_str()) {
                    (false, _) => String::new(),
                    (true, "") => next(&mut rest, &format!("-{letter}"))?,
                    (true, value) => value.to_owned(),
                };
                found.push((letter, value));
                if flag.has_value {
                    break;
                }
            }
        } else {
            operands.push(arg.clone());
        }
    }
    Ok((found, operands))
}

fn next<'a>(rest: &mut impl Iterator<Item = &'a String>, flag: &str) -> Result<String, String> {
    let value = rest.next().cloned();
    value.ok_or_else(|| format!("option {flag} requires an argument"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Result<(&str, &str), &str>) {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let flags = flags("n:c:kd:", &[('d', "duration"), ('k', "keep")]);
        let said = read(&args, &flags).map(|(found, operands)| {
            let found: Vec<String> = found.iter().map(|(l, v)| format!("{l}{v}")).collect();
            (found.join(" "), operands.join(" "))
        });
        let expected = expected
            .map(|(f, o)| (f.to_owned(), o.to_owned()))
            .map_err(str::to_owned);
        assert_eq!(said, expected, "{line}");
    }

    #[test]
    fn flags_are_read_as_getopt_reads_them() {
        check("-c10 -n 5 http://h/", Ok(("c10 n5", "http://h/")));
        check("-kc 10 u", Ok(("k c10", "u")));
        check("u -k", Ok(("k", "u")));
        check("--duration=3s --keep u", Ok(("d3s k", "u")));
        check("--duration 3s -- -k", Ok(("d3s", "-k")));
        check("-x", Err("invalid option -- 'x'"));
        check("--long", Err("invalid option -- '--long'"));
        check("-c", Err("option -c requires an argument"));
        check("--keep=1", Err("--keep takes no value"));
    }
}
