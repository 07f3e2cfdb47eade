//! What a person pasted: prompts, comments, several runs in a row.
//!
//! It stands beside `import` and shares its readers. It looks for what it knows, wherever that stands, and keeps the
//! order. The surprise: nothing is left out for being incomplete, because a diagnosis says what it does not see.

use crate::read::loads;
use crate::text::{plain, words};
use crate::{host, pidstat, strace};
use record::pasted::Pasted;

/// Reads texts, each with its file's name, in order.
pub fn read_pasted(texts: &[(String, String)]) -> Pasted {
    let mut all = Pasted::default();
    for (name, text) in texts {
        let text = plain(text);
        let lines: Vec<&str> = text.lines().collect();
        let words = words(&text);
        let straces = host::straces(&words).into_iter();
        all.straces.extend(straces.map(|(summary, _)| summary));
        all.sizes.extend(strace::sizes(name, &lines));
        let vmstats = host::vmstats(&words).into_iter();
        all.vmstats.extend(vmstats.map(|(table, _)| table));
        all.pidstats.extend(pidstat::pidstats(&lines));
        all.loads.extend(loads(&text));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_known_is_nothing() {
        let pasted = read_pasted(&[("notes.txt".into(), "hello\n\n1 2 3\n% time\n".into())]);
        assert!(pasted.is_empty(), "{pasted:?}");
    }
}
