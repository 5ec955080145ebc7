//! The state of objects as metrics: what kube-state-metrics shows with `manifests/monitoring/kube-state-metrics.yaml`, under the same names. Those of
//! the Go operator's configuration are kept.
//!
//! Nothing is kept: each scrape writes what the stores hold at that moment, so that the series of an object go with it.

mod kinds;

use std::{borrow::Cow, fmt, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet},
    metrics::MetricType,
};

use crate::api::meta;

/// A label and its value.
type Label<'a> = (&'static str, Cow<'a, str>);

/// A kind whose objects are shown.
pub trait Shown: Resource<DynamicType = ()> {
    /// Value of the label `crd_type`.
    const TYPE: &'static str;
    /// What stands for the kind in names of metrics.
    const STEM: &'static str;
    /// Whether it is shown that an object is paused.
    const SHOWS_PAUSE: bool = false;

    /// Fills in the labels of its `info` metric.
    fn info<'a>(&'a self, labels: &mut Labels<'a>);

    /// Gives the conditions that are shown.
    fn conditions(&self) -> &[Condition] {
        &[]
    }

    /// Lists its further gauges.
    fn gauges() -> Vec<Gauge<Self>>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// Lists its further gauges of several values.
    fn splits() -> Vec<Split<Self>>
    where
        Self: Sized,
    {
        Vec::new()
    }
}

/// A number of an object; none where the object has no such field.
pub struct Gauge<K> {
    name: &'static str,
    help: &'static str,
    value: fn(&K) -> Option<i64>,
}

/// Numbers of an object that are told apart by a label.
pub struct Split<K> {
    name: &'static str,
    help: &'static str,
    label: &'static str,
    values: fn(&K) -> Vec<(&'static str, i64)>,
}

/// Labels of an `info` metric. Those without a value are left out.
#[derive(Debug, Default)]
pub struct Labels<'a>(Vec<Label<'a>>);

impl<'a> Labels<'a> {
    fn text(&mut self, name: &'static str, value: &'a str) -> &mut Self {
        if !value.is_empty() {
            self.0.push((name, Cow::Borrowed(value)));
        }
        self
    }

    fn optional(&mut self, name: &'static str, value: Option<&'a String>) -> &mut Self {
        self.text(name, value.map_or("", String::as_str))
    }

    /// Writes a list as Go prints one.
    fn list(&mut self, name: &'static str, values: &[String]) -> &mut Self {
        let text = format!("[{}]", values.join(" "));
        self.0.push((name, Cow::Owned(text)));
        self
    }

    fn number(&mut self, name: &'static str, value: Option<i64>) -> &mut Self {
        self.0
            .extend(value.map(|value| (name, Cow::Owned(value.to_string()))));
        self
    }
}

/// Writes the metrics of all objects of one kind.
///
/// # Errors
/// Fails when `encoder` does.
pub fn write<K: Shown>(encoder: &mut DescriptorEncoder<'_>, objects: &[Arc<K>]) -> fmt::Result {
    let mut writer = Writer { encoder, objects };
    let stem = K::STEM;
    writer.gauge(
        &format!("garm_operator_{stem}_created"),
        "Unix creation timestamp.",
        |object| {
            let created = object.meta().creation_timestamp.as_ref();
            created.map(|time| time.0.as_second())
        },
    )?;
    writer.info(
        &format!("garm_operator_{stem}"),
        "Information about the object.",
        |object| {
            let mut labels = Labels::default();
            object.info(&mut labels);
            labels.0
        },
    )?;
    for gauge in K::gauges() {
        writer.gauge(gauge.name, gauge.help, gauge.value)?;
    }
    if K::SHOWS_PAUSE {
        writer.info(
            &format!("garm_operator_{stem}_annotation_paused"),
            "Whether the reconciliation of the object is paused.",
            |object| {
                let value = meta::annotation(object.meta(), meta::PAUSED);
                let label = |value| ("paused_value", Cow::Borrowed(value));
                value.map(label).into_iter().collect()
            },
        )?;
    }
    writer.conditions(&format!("garm_operator_{stem}_status_conditions"))?;
    writer.gauge(
        &format!("garm_operator_{stem}_deletion_timestamp"),
        "Unix timestamp of the request to delete the object; absent while it lives.",
        |object| {
            let deleted = object.meta().deletion_timestamp.as_ref();
            deleted.map(|time| time.0.as_second())
        },
    )?;
    K::splits().iter().try_for_each(|split| writer.split(split))
}

/// Writes families, and none that has no sample.
struct Writer<'e, 'b, K> {
    encoder: &'e mut DescriptorEncoder<'b>,
    objects: &'e [Arc<K>],
}

impl<K: Shown> Writer<'_, '_, K> {
    fn gauge(&mut self, name: &str, help: &str, value: impl Fn(&K) -> Option<i64>) -> fmt::Result {
        let samples = self.objects.iter().filter_map(|object| {
            let value = value(object)?;
            Some((base(&**object), value))
        });
        gauges(self.encoder, name, help, samples)
    }

    fn split(&mut self, split: &Split<K>) -> fmt::Result {
        let samples = self.objects.iter().flat_map(|object| {
            let values = (split.values)(object).into_iter();
            values.map(|(of, value)| ((base(&**object), [(split.label, of)]), value))
        });
        gauges(self.encoder, split.name, split.help, samples)
    }

    fn conditions(&mut self, name: &str) -> fmt::Result {
        let samples = self.objects.iter().flat_map(|object| {
            object.conditions().iter().map(|condition| {
                let type_ = [("type", condition.type_.as_str())];
                // As kube-state-metrics reads them: Unknown is 0.
                let value = i64::from(condition.status == "True");
                ((base(&**object), type_), value)
            })
        });
        let help = "Displays whether status of each possible condition is True or False.";
        gauges(self.encoder, name, help, samples)
    }

    /// Writes an info metric; an object without labels has no sample.
    fn info<'o>(
        &'o mut self,
        name: &str,
        help: &str,
        labels: impl Fn(&'o K) -> Vec<Label<'o>>,
    ) -> fmt::Result {
        let mut samples = self
            .objects
            .iter()
            .map(|object| (object, labels(object)))
            .filter(|(_, labels)| !labels.is_empty())
            .peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut family = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Info)?;
        samples.try_for_each(|(object, labels)| family.encode_info(&(base(&**object), labels)))
    }
}

fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl Iterator<Item = (L, i64)>,
) -> fmt::Result {
    let mut samples = samples.peekable();
    if samples.peek().is_none() {
        return Ok(());
    }
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    samples.try_for_each(|(labels, value)| family.encode_family(&labels)?.encode_gauge(&value))
}

/// Gives the labels that every series of an object has.
fn base<K: Shown>(object: &K) -> [Label<'_>; 6] {
    let text = |text: &'_ Option<String>| text.clone().unwrap_or_default();
    [
        ("crd_type", Cow::Borrowed(K::TYPE)),
        ("customresource_group", Cow::Borrowed(meta::GROUP)),
        ("customresource_kind", K::kind(&())),
        ("customresource_version", Cow::Borrowed(meta::VERSION)),
        ("name", Cow::Owned(text(&object.meta().name))),
        ("namespace", Cow::Owned(text(&object.meta().namespace))),
    ]
}

#[cfg(test)]
mod tests;
