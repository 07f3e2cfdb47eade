//! Files that a document quotes: what stands between `<!-- file:PATH -->` and `<!-- /file:PATH -->` is the file itself.
//!
//! So an example in the README is the file that the tests run. The surprise: with `BLESS=1` this one writes.

/// `document` with every quotation renewed from `read(path)`.
///
/// # Errors
/// What is wrong with a quotation: no end mark, or a file that cannot be read.
pub fn requoted(
    document: &str,
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), document);
    while let Some((before, path, behind)) = next_mark(rest) {
        let end = format!("<!-- /file:{path} -->");
        let at = behind
            .find(&end)
            .ok_or_else(|| format!("`{end}` is missing"))?;
        let language = path.rsplit('.').next().unwrap_or_default();
        let text = read(path)?;
        out += &format!("{before}<!-- file:{path} -->\n```{language}\n{text}```\n{end}");
        rest = &behind[at + end.len()..];
    }
    Ok(out + rest)
}

/// What stands before the next quotation, its path, and what follows the mark.
fn next_mark(text: &str) -> Option<(&str, &str, &str)> {
    let (before, from_path) = text.split_once("<!-- file:")?;
    let (path, behind) = from_path.split_once(" -->")?;
    Some((before, path, behind))
}

mod tests {
    use super::*;

    fn read(path: &str) -> Result<String, String> {
        (path == "a.toml")
            .then(|| "x = 1\n".to_owned())
            .ok_or_else(|| format!("no {path}"))
    }

    #[test]
    fn canary_stale_quotation() {
        let stale = "a\n<!-- file:a.toml -->\n```toml\nx = 0\n```\n<!-- /file:a.toml -->\nb\n";
        let fresh = stale.replace('0', "1");
        assert_eq!(requoted(stale, read), Ok(fresh.clone()));
        assert_eq!(requoted(&fresh, read), Ok(fresh));
    }

    #[test]
    fn canary_broken_quotation() {
        assert_eq!(
            requoted("<!-- file:b.toml --><!-- /file:b.toml -->", read),
            Err("no b.toml".into())
        );
        assert!(requoted("<!-- file:a.toml -->", read).is_err());
    }
}
