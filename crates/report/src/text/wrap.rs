//! Prose within the width of a terminal.

/// Widest line, characters.
pub(crate) const WIDTH: usize = 100;

/// `text` after `first`, broken at blanks within [`WIDTH`]; further lines are indented by `indent`. A word that is
/// too long stands on a line of its own, whole, because a cut path cannot be used.
pub(crate) fn wrapped(first: &str, text: &str, indent: usize) -> String {
    let mut out = first.to_owned();
    let mut column = first.chars().count();
    let mut fresh = true;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if !fresh && column + 1 + length > WIDTH {
            out = format!("{}\n{}", out.trim_end(), " ".repeat(indent));
            column = indent;
            fresh = true;
        }
        if !fresh {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
        fresh = false;
    }
    out.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_and_no_word_is_lost() {
        let text = "four words and more ".repeat(20);
        let lines = wrapped("remedy: ", &text, 8);
        assert!(lines.lines().all(|l| l.chars().count() <= WIDTH), "{lines}");
        assert!(lines.lines().skip(1).all(|l| l.starts_with("        f")
            || l.starts_with("        w")
            || l.starts_with("        a")
            || l.starts_with("        m")));
        let words = |s: &str| s.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&lines)[1..], words(&text));
        assert_eq!(wrapped("a: ", "", 2), "a:\n");
    }
}
