//! Columns of text: names left-aligned, numbers right-aligned.

/// The first `n` columns hold names.
pub(crate) fn names(n: usize) -> impl Fn(usize) -> bool {
    move |column| column < n
}

/// Rows of cells in aligned columns, two spaces between them, no trailing blanks. Columns for which `left`
/// holds are left-aligned. Short rows end early.
pub(crate) fn columns(rows: &[Vec<String>], left: impl Fn(usize) -> bool) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    rows.iter()
        .map(|row| {
            let cells: Vec<String> = row
                .iter()
                .enumerate()
                .map(|(column, cell)| align(cell, width(column), left(column)))
                .collect();
            format!("{}\n", cells.join("  ").trim_end())
        })
        .collect()
}

fn align(cell: &str, width: usize, left: bool) -> String {
    let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
    if left {
        format!("{cell}{blanks}")
    } else {
        format!("{blanks}{cell}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_left_numbers_right() {
        let rows = [vec!["a", "1"], vec!["long µ", "1,000", "x"], vec![]];
        let rows = rows.map(|row| row.into_iter().map(str::to_owned).collect());
        assert_eq!(
            columns(&rows, names(1)),
            "a           1\nlong µ  1,000  x\n\n"
        );
        assert_eq!(columns(&[], names(1)), "");
    }
}
