//! Columns of text: the first ones left-aligned (names), the rest right-aligned (numbers).

/// Rows of cells in aligned columns, two spaces between them, no trailing blanks. The first `names` columns
/// are left-aligned. Short rows end early.
pub(crate) fn columns(rows: &[Vec<String>], names: usize) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    rows.iter()
        .map(|row| {
            let cells: Vec<String> = row
                .iter()
                .enumerate()
                .map(|(column, cell)| align(cell, width(column), column < names))
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
        assert_eq!(columns(&rows, 1), "a           1\nlong µ  1,000  x\n\n");
        assert_eq!(columns(&[], 1), "");
    }
}
