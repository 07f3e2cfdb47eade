//! Times as people and servers write them, in ns since 1970.

pub(super) const SECOND: i128 = 1_000_000_000;

/// Seconds since 1970 of a date and time of the day, or `None` where there is no such time.
pub(super) fn seconds(date: [u32; 3], time: [u32; 3], offset_s: i64) -> Option<i64> {
    let ([year, month, day], [hour, minute, second]) = (date, time);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // A leap second is the first of the next minute.
    if !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // The year begins in March, so that the leap day is its last; day 0 is the first of March of the year 0.
    let shifted = i64::from(year) - i64::from(month < 3);
    let (era, of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let month = i64::from((month + 9) % 12);
    let of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let of_day = i64::from(hour) * 3_600 + i64::from(minute) * 60 + i64::from(second);
    Some(days * 86_400 + of_day - offset_s)
}

/// A number of exactly `digits` digits at the begin of a text, which goes on behind it.
pub(super) fn number(text: &mut &[u8], digits: usize) -> Option<u32> {
    let (head, rest) = text.split_at_checked(digits)?;
    let all = head.iter().all(u8::is_ascii_digit);
    *text = rest;
    let value = |head: &[u8]| head.iter().fold(0, |n, d| n * 10 + u32::from(d - b'0'));
    all.then(|| value(head))
}

/// One of these bytes at the begin of a text.
pub(super) fn one_of(text: &mut &[u8], bytes: &[u8]) -> Option<u8> {
    let (first, rest) = text.split_first()?;
    *text = rest;
    bytes.contains(first).then_some(*first)
}

/// `.123`, in ns; 0 where there is none. What is finer than a ns is cut off.
fn fraction(text: &mut &[u8]) -> Option<i128> {
    let Some(mut rest) = text.strip_prefix(b".") else {
        return Some(0);
    };
    let len = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, behind) = rest.split_at(len);
    rest = behind;
    *text = rest;
    let padded = digits.iter().chain(std::iter::repeat(&b'0')).take(9);
    let ns = padded.fold(0, |n, d| n * 10 + i128::from(d - b'0'));
    (len > 0).then_some(ns)
}

/// Seconds as a decimal number, in ns.
pub(super) fn decimal(text: &[u8]) -> Option<i128> {
    let len = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (whole, mut rest) = text.split_at(len);
    let whole: i128 = match whole.is_empty() {
        true if rest.starts_with(b".") => 0,
        true => return None,
        false => std::str::from_utf8(whole).ok()?.parse::<u64>().ok()?.into(),
    };
    let ns = fraction(&mut rest)?;
    rest.is_empty().then_some(whole * SECOND + ns)
}

/// A time of RFC 3339, in ns.
pub(super) fn rfc3339(mut text: &[u8]) -> Option<i128> {
    let text = &mut text;
    let year = number(text, 4)?;
    one_of(text, b"-")?;
    let month = number(text, 2)?;
    one_of(text, b"-")?;
    let day = number(text, 2)?;
    one_of(text, b"Tt ")?;
    let time = time_of_day(text)?;
    let ns = fraction(text)?;
    let offset_s = match one_of(text, b"Zz+-")? {
        sign @ (b'+' | b'-') => {
            let hours = number(text, 2)?;
            one_of(text, b":")?;
            offset_s(sign, hours, number(text, 2)?)?
        }
        _ => 0,
    };
    let seconds = seconds([year, month, day], time, offset_s)?;
    text.is_empty().then_some(i128::from(seconds) * SECOND + ns)
}

/// `12:34:56`.
pub(super) fn time_of_day(text: &mut &[u8]) -> Option<[u32; 3]> {
    let hour = number(text, 2)?;
    one_of(text, b":")?;
    let minute = number(text, 2)?;
    one_of(text, b":")?;
    Some([hour, minute, number(text, 2)?])
}

/// How much a local time is ahead.
pub(super) fn offset_s(sign: u8, hours: u32, minutes: u32) -> Option<i64> {
    let s = i64::from(hours) * 3_600 + i64::from(minutes) * 60;
    let s = if sign == b'-' { -s } else { s };
    (hours < 24 && minutes < 60).then_some(s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_the_calendar_has_them() {
        let at = |text: &str| rfc3339(text.as_bytes()).map(|ns| ns / SECOND);
        // By GNU date: date -u -d TIME +%s.
        assert_eq!(at("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(at("2000-02-29T23:59:59Z"), Some(951_868_799));
        assert_eq!(at("2024-12-31T23:30:00-01:00"), Some(1_735_691_400));
        assert_eq!(at("1999-12-31T00:00:00+05:30"), Some(946_578_600));
        assert_eq!(rfc3339(b"1970-01-01T00:00:01.5Z"), Some(1_500_000_000));
        assert_eq!(rfc3339(b"1970-01-01t00:00:00.0000000019z"), Some(1));
        for wrong in [
            "",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00Z!",
        ] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn seconds_are_read_exactly() {
        assert_eq!(
            decimal(b"1700000000.123456789"),
            Some(1_700_000_000_123_456_789)
        );
        assert_eq!(decimal(b"0.1"), Some(100_000_000));
        assert_eq!(
            (decimal(b".5"), decimal(b"7")),
            (Some(500_000_000), Some(7_000_000_000))
        );
        for wrong in ["", ".", "1.", "-1", "1e3", "1,5", "99999999999999999999"] {
            assert_eq!(decimal(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
