//! Bytes as people read them.

/// `0 B`, `999 B`, `1.23 kB`, `45.6 MB`, `789 GB`: three digits, powers of ten as rates of links have.
pub fn bytes(count: u64) -> String {
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64;
    // what would be rounded to four digits is written in the next unit
    let unit = ["kB", "MB", "GB", "TB", "PB", "EB"]
        .into_iter()
        .find(|unit| {
            value /= 1000.0;
            value < 999.5 || *unit == "EB"
        });
    let places = usize::from(value < 99.95) + usize::from(value < 9.995);
    format!("{value:.places$} {}", unit.unwrap_or("EB"))
}

/// Tenths of a per cent; `0.0 %` is said of none alone.
pub fn per_cent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_string();
    }
    let tenths = (u128::from(part) * 1000 + u128::from(whole) / 2) / u128::from(whole);
    match (part, tenths) {
        (1.., 0) => "<0.1 %".to_string(),
        (part, 1000) if part < whole => ">99.9 %".to_string(),
        (_, tenths) => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits() {
        for (count, shown) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (1234, "1.23 kB"),
            (45_600_000, "45.6 MB"),
            (99_949_999, "99.9 MB"),
            (99_950_000, "100 MB"),
            (999_499, "999 kB"),
            (999_500, "1.00 MB"),
            (789_000_000_000, "789 GB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(count), shown, "{count}");
        }
    }

    #[test]
    fn no_share_is_rounded_to_nothing_or_to_all() {
        let shown = [
            (0, 10),
            (1, 10),
            (1, 100_000),
            (99_999, 100_000),
            (7, 7),
            (2, 3),
        ];
        let shown = shown.map(|(part, whole)| per_cent(part, whole));
        assert_eq!(
            shown,
            ["0.0 %", "10.0 %", "<0.1 %", ">99.9 %", "100.0 %", "66.7 %"]
        );
        assert_eq!(per_cent(0, 0), "-");
    }
}
