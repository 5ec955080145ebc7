//! Durations as Go writes them: `5m`, `1h30m`, `1.5h`, `300ms`, `5m0s`.
//!
//! Users' files, manifests and scripts hold this form, so both directions follow Go's `time` package, but negative durations
//! are refused: nothing here can last less than no time.

use std::time::Duration;

/// Longest duration Go knows, in nanoseconds (about 292 years).
const MAX_NANOS: u128 = i64::MAX as u128;

/// Units with their length in nanoseconds. Both letters for micro are in use.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ParseError {
    /// A number without unit, which some programs take for seconds and others for nanoseconds.
    #[error("has no unit; write for example 5m or 300s")]
    NoUnit,
    /// A sign in front.
    #[error("must not be negative")]
    Negative,
    /// More than Go's durations hold.
    #[error("is too long; the longest duration is about 292 years")]
    TooLong,
    /// Anything else.
    #[error("is not a duration; write for example 5m, 1h30m, 1.5h or 300ms")]
    Malformed,
}

/// Parses a duration.
pub fn parse(text: &str) -> Result<Duration, ParseError> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.is_empty() {
        return Err(ParseError::Malformed);
    }
    let mut rest = text;
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (nanos, after) = term(rest)?;
        total = total.saturating_add(nanos);
        rest = after;
    }
    // Nothing is nothing with any sign.
    if negative && total > 0 {
        return Err(ParseError::Negative);
    }
    if total > MAX_NANOS {
        return Err(ParseError::TooLong);
    }
    u64::try_from(total)
        .map(Duration::from_nanos)
        .map_err(|_| ParseError::TooLong)
}

/// Parses one number with its unit; yields nanoseconds and what follows.
fn term(text: &str) -> Result<(u128, &str), ParseError> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(ParseError::Malformed);
    }
    let end = rest
        .find(|c: char| c == '.' || c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    if name.is_empty() {
        return Err(ParseError::NoUnit);
    }
    let unit = UNITS
        .iter()
        .find(|(unit, _)| *unit == name)
        .ok_or(ParseError::Malformed)?
        .1;
    // Text of digits that does not fit is a number far beyond the limit.
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().unwrap_or(u128::MAX)
    };
    Ok((
        whole
            .saturating_mul(unit)
            .saturating_add(part(fraction, unit)),
        rest,
    ))
}

/// Computes the fraction of a unit, cut to whole nanoseconds as Go does.
fn part(digits: &str, unit: u128) -> u128 {
    // 15 digits are finer than a nanosecond of an hour.
    let digits = &digits[..digits.len().min(15)];
    let scale = digits.bytes().fold(1_u128, |scale, _| scale * 10);
    let value = digits
        .bytes()
        .fold(0_u128, |value, digit| value * 10 + u128::from(digit - b'0'));
    value * unit / scale
}

/// Splits leading ASCII digits off.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    )
}

/// Prints a duration as Go does: `5m0s`, `1h30m0s`, `1.5s`, `300ms`, `0s`.
pub fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    if duration < Duration::from_secs(1) {
        let (unit, length) = match nanos {
            1_000_000.. => ("ms", 1_000_000),
            1_000.. => ("µs", 1_000),
            _ => ("ns", 1),
        };
        return format!("{}{unit}", decimal(nanos, length));
    }
    let seconds = duration.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let rest = decimal(nanos % 60_000_000_000, 1_000_000_000);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

/// Prints a number of nanoseconds in a unit, without trailing zeros.
fn decimal(nanos: u128, unit: u128) -> String {
    let width = unit.ilog10() as usize;
    let text = format!("{}.{:0width$}", nanos / unit, nanos % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("-0s", 0),
            ("5m", 300_000),
            ("5m0s", 300_000),
            ("+5s", 5_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("5.s", 5_000),
            ("300ms", 300),
            ("1h1m1s1ms", 3_661_001),
            ("1500us", 1),
            ("2000000ns", 2),
        ] {
            assert_eq!(parse(text).map(|d| d.as_millis()), Ok(millis), "{text}");
        }
        assert_eq!(parse("1µs"), parse("1μs"));
        assert_eq!(
            parse("0.3333333333333333333h"),
            Ok(Duration::from_nanos(1_199_999_999_999))
        );
    }

    #[test]
    fn refuses_what_go_refuses_and_says_why() {
        for text in [
            "", "s", ".s", "5 m", "5m ", "5x", "m5", "1d", "five", "+", "--5s", "1.2.3s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("300"), Err(ParseError::NoUnit));
        assert_eq!(parse("1m30"), Err(ParseError::NoUnit));
        assert_eq!(parse("-5s"), Err(ParseError::Negative));
        assert_eq!(parse("--0s"), Err(ParseError::Malformed));
        for text in [
            "9223372036854775807h",
            "2562048h",
            &format!("{}s", "9".repeat(99)),
        ] {
            assert_eq!(parse(text), Err(ParseError::TooLong), "{text}");
        }
    }

    #[test]
    fn prints_as_go_prints() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (300_000_000, "300ms"),
            (3_300_000_000, "3.3s"),
            (60_000_000_000, "1m0s"),
            (300_000_000_000, "5m0s"),
            (245_001_000_000, "4m5.001s"),
            (7_200_000_000_000, "2h0m0s"),
            (10_000_000_000, "10s"),
        ] {
            assert_eq!(format(Duration::from_nanos(nanos)), text);
        }
    }

    proptest! {
        #[test]
        fn what_was_printed_reads_back(nanos in 0..=i64::MAX.unsigned_abs()) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn any_text_gives_an_answer(text in "\\PC*|[-+0-9.hmsnuµ]{0,40}") {
            let _ = parse(&text);
        }
    }
}
