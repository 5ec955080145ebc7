//! Reads what `/metrics` shows.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Operator;

/// A scrape in the text format.
#[derive(Debug, Default)]
pub struct Scrape {
    /// Types by name of the family.
    pub types: BTreeMap<String, String>,
    /// All samples.
    pub samples: Vec<Sample>,
}

/// A sample.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The name of its family.
    pub family: String,
    /// Its own name, which a histogram's differ by.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

impl Scrape {
    /// Scrapes an operator.
    pub async fn of(operator: &Operator) -> Result<Self> {
        Self::read(&operator.metrics().await?)
    }

    /// Reads the text format. Each family is told once, and before its samples.
    pub fn read(text: &str) -> Result<Self> {
        let mut scrape = Self::default();
        let mut family = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').context("a type")?;
                name.clone_into(&mut family);
                let before = scrape.types.insert(name.to_owned(), kind.to_owned());
                ensure!(before.is_none(), "{name} is there twice");
            } else if !line.starts_with('#') {
                let sample = sample(&family, line)?;
                ensure!(sample.name.starts_with(&family), "{line} in {family}");
                scrape.samples.push(sample);
            }
        }
        Ok(scrape)
    }

    /// The names of all families.
    pub fn families(&self) -> BTreeSet<&str> {
        self.types.keys().map(String::as_str).collect()
    }

    /// All samples of a name whose labels are these, perhaps among others.
    pub fn all<'a>(
        &'a self,
        name: &str,
        labels: &[(&str, &str)],
    ) -> impl Iterator<Item = &'a Sample> + use<'a> {
        let fits = |sample: &&Sample| sample.name == name && sample.has(labels);
        let found: Vec<&Sample> = self.samples.iter().filter(fits).collect();
        found.into_iter()
    }

    /// The value of the one sample of a name with these labels, perhaps among others.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut found = self.all(name, labels);
        let first = found.next()?;
        found.next().is_none().then_some(first.value)
    }

    /// The values that a label of a name has.
    pub fn values_of(&self, name: &str, label: &str) -> BTreeSet<&str> {
        let labels = self.all(name, &[]).map(|sample| sample.labels.get(label));
        labels.flatten().map(String::as_str).collect()
    }
}

impl Sample {
    /// Whether it has these labels.
    pub fn has(&self, labels: &[(&str, &str)]) -> bool {
        let mut labels = labels.iter();
        labels.all(|(name, value)| self.labels.get(*name).is_some_and(|is| is == value))
    }
}

fn sample(family: &str, line: &str) -> Result<Sample> {
    let (series, value) = line.rsplit_once(' ').context("a value")?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}').context("a brace")?),
        None => (series, ""),
    };
    let labels = labels
        .split("\",")
        .filter(|label| !label.is_empty())
        .map(|label| {
            let (name, value) = label.split_once("=\"").context("a label")?;
            Ok((name.to_owned(), value.trim_end_matches('"').to_owned()))
        });
    Ok(Sample {
        family: family.to_owned(),
        name: name.to_owned(),
        labels: labels.collect::<Result<_>>()?,
        value: value.replace("+Inf", "inf").parse().context("a number")?,
    })
}
