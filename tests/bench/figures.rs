//! Figures of several runs: medians, spread, and what they are to be.

use std::fmt::{self, Display, Write as _};

use serde_json::{Value, json};

/// What a figure is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// No more than this.
    AtMost(f64),
    /// No more than the reference and this.
    AtMostAbove(f64),
    /// At least this share of the reference's speed.
    Speed(f64),
}

impl Display for Goal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(to, "<= {limit}"),
            Self::AtMostAbove(limit) => write!(to, "<= reference + {limit}"),
            Self::Speed(share) => write!(to, "ratio >= {share}"),
        }
    }
}

/// What one run measured.
#[derive(Clone, Debug)]
pub struct Figure {
    name: String,
    unit: &'static str,
    value: f64,
    reference: Option<f64>,
    goal: Option<Goal>,
}

impl Figure {
    /// A figure without reference and goal.
    pub fn new(name: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self {
            name: name.into(),
            unit,
            value,
            reference: None,
            goal: None,
        }
    }

    /// What the same took the reference.
    #[must_use]
    pub fn beside(mut self, reference: f64) -> Self {
        self.reference = Some(reference);
        self
    }

    /// What it is to be.
    #[must_use]
    pub fn goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self
    }
}

/// What several runs of one scenario measured.
#[derive(Debug)]
pub struct Sheet {
    scenario: &'static str,
    rows: Vec<Vec<Figure>>,
}

/// The runs of one figure, made into one.
struct Summary {
    value: f64,
    lowest: f64,
    highest: f64,
    reference: Option<f64>,
    /// The reference's time by ours: 1 is as fast as the reference, 0.5 takes twice its time.
    ratio: Option<f64>,
    is_met: Option<bool>,
}

impl Sheet {
    /// A sheet without runs.
    pub fn new(scenario: &'static str) -> Self {
        Self {
            scenario,
            rows: Vec::new(),
        }
    }

    /// Adds the figures of one run; a figure is known by its name.
    pub fn add(&mut self, figures: Vec<Figure>) {
        for figure in figures {
            let row = self.rows.iter_mut().find(|row| row[0].name == figure.name);
            match row {
                Some(row) => row.push(figure),
                None => self.rows.push(vec![figure]),
            }
        }
    }

    /// One JSON object for each figure.
    pub fn lines(&self) -> Vec<Value> {
        let line = |row: &Vec<Figure>| {
            let summary = summarize(row);
            json!({
                "scenario": self.scenario,
                "figure": row[0].name,
                "value": rounded(summary.value),
                "unit": row[0].unit,
                "reference": summary.reference.map(rounded),
                "ratio": summary.ratio.map(rounded),
                "goal": row[0].goal.map(|goal| goal.to_string()),
                "goal_met": summary.is_met,
                "lowest": rounded(summary.lowest),
                "highest": rounded(summary.highest),
                "runs": row.len(),
            })
        };
        self.rows.iter().map(line).collect()
    }

    /// A table for people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "  {:<44}{:>10}  {:<7}{:>19}{:>11}{:>7}  {:<20}{}\n",
            "figure", "median", "unit", "lowest–highest", "reference", "ratio", "goal", "met"
        );
        for row in &self.rows {
            let summary = summarize(row);
            let spread = format!("{}–{}", short(summary.lowest), short(summary.highest));
            let _ = writeln!(
                text,
                "  {:<44}{:>10}  {:<7}{:>19}{:>11}{:>7}  {:<20}{}",
                row[0].name,
                short(summary.value),
                row[0].unit,
                spread,
                summary.reference.map(short).unwrap_or_default(),
                summary.ratio.map(short).unwrap_or_default(),
                row[0].goal.map(|goal| goal.to_string()).unwrap_or_default(),
                match summary.is_met {
                    Some(true) => "yes",
                    Some(false) => "NO",
                    None => "",
                }
            );
        }
        text
    }
}

fn summarize(row: &[Figure]) -> Summary {
    let values: Vec<f64> = row.iter().map(|figure| figure.value).collect();
    let references: Vec<f64> = row.iter().filter_map(|figure| figure.reference).collect();
    let ratios: Vec<f64> = row
        .iter()
        .filter_map(|figure| Some(figure.reference? / figure.value))
        .filter(|ratio| ratio.is_finite())
        .collect();
    let has_reference = !references.is_empty();
    let value = percentile(&values, 50.0);
    let reference = has_reference.then(|| percentile(&references, 50.0));
    let ratio = (!ratios.is_empty()).then(|| percentile(&ratios, 50.0));
    let is_met = row[0].goal.map(|goal| match goal {
        Goal::AtMost(limit) => value <= limit,
        Goal::AtMostAbove(limit) => reference.is_some_and(|reference| value <= reference + limit),
        Goal::Speed(share) => ratio.is_some_and(|ratio| ratio >= share),
    });
    Summary {
        value,
        lowest: percentile(&values, 0.0),
        highest: percentile(&values, 100.0),
        reference,
        ratio,
        is_met,
    }
}

/// The value below which this many percent of all values are, by nearest rank; 0 without values.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranks are small"
)]
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

/// A count as a figure's value.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
pub fn count(count: usize) -> f64 {
    count as f64
}

/// Four digits that matter are enough for machines.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10_f64.powf(3.0 - value.abs().log10().floor());
    if scale < 1.0 {
        value.round()
    } else {
        (value * scale).round() / scale
    }
}

/// Three digits that matter are enough for people.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
