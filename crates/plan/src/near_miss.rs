//! "Did you mean": the known name that a typed one resembles, and the words for it.
//!
//! A leaf of the crate: errors, templates and profiles all use it.

/// Lowest Jaro-Winkler similarity that is worth a "did you mean": below it the suggestions become
/// random (`url` for `cpus`), above it dropped and swapped letters are lost.
const SIMILAR: f64 = 0.8;

/// The known name that `name` most resembles, when it resembles one at all.
///
/// ```
/// assert_eq!(plan::near_miss("conections", ["connections", "cpus"]), Some("connections".to_owned()));
/// assert_eq!(plan::near_miss("zebra", ["connections", "cpus"]), None);
/// ```
pub fn near_miss<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    known
        .into_iter()
        .map(|k| {
            (
                strsim::jaro_winkler(&name.to_lowercase(), &k.to_lowercase()),
                k,
            )
        })
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k.to_owned())
}

/// The end of a message; nothing when nothing resembles the name.
pub(crate) fn suggestion(near: Option<&str>) -> String {
    near.map_or_else(String::new, |n| format!("; did you mean `{n}`?"))
}
