//! The usual `process_*` metrics, read from `/proc` at each scrape.
//!
//! On a system without `/proc` the family is absent; nothing else changes.

use std::fs;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{TypedMetric, counter::ConstCounter, gauge::ConstGauge},
};

/// Kernel clock ticks per second in `/proc/*/stat`; Linux reports 100 to user space on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Encodes memory, CPU time, open files and start time of this process.
#[derive(Debug)]
pub(super) struct ProcessCollector;

/// One reading of `/proc/self`.
#[derive(Debug, PartialEq)]
struct Reading {
    cpu_seconds: f64,
    start_seconds: f64,
    virtual_bytes: u64,
    resident_bytes: u64,
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let (Ok(stat), Ok(status), Ok(system)) = (
            fs::read_to_string("/proc/self/stat"),
            fs::read_to_string("/proc/self/status"),
            fs::read_to_string("/proc/stat"),
        ) else {
            return Ok(());
        };
        let Some(reading) = parse(&stat, &status, &system) else {
            return Ok(());
        };
        counter(
            &mut encoder,
            "process_cpu_seconds",
            "Total user and system CPU time spent in seconds",
            reading.cpu_seconds,
        )?;
        gauge(
            &mut encoder,
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds",
            reading.start_seconds,
        )?;
        gauge(
            &mut encoder,
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes",
            reading.virtual_bytes,
        )?;
        gauge(
            &mut encoder,
            "process_resident_memory_bytes",
            "Resident memory size in bytes",
            reading.resident_bytes,
        )?;
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            gauge(
                &mut encoder,
                "process_open_fds",
                "Number of open file descriptors",
                u64::try_from(files.count()).unwrap_or(u64::MAX),
            )?;
        }
        limits(&mut encoder)?;
        network(&mut encoder)
    }
}

/// Encodes what the process may have at most.
fn limits(encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    for (name, help, limit) in [
        (
            "process_max_fds",
            "Maximum number of open file descriptors",
            "Max open files",
        ),
        (
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes",
            "Max address space",
        ),
    ] {
        if let Some(value) = soft_limit(&limits, limit) {
            gauge(encoder, name, help, value)?;
        }
    }
    Ok(())
}

/// Encodes what went through the network of the process, which is the pod's.
fn network(encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
    let statistics = fs::read_to_string("/proc/self/net/netstat").unwrap_or_default();
    for (name, help, column) in [
        (
            "process_network_receive_bytes",
            "Number of bytes received by the process over the network",
            "InOctets",
        ),
        (
            "process_network_transmit_bytes",
            "Number of bytes sent by the process over the network",
            "OutOctets",
        ),
    ] {
        if let Some(value) = octets(&statistics, column) {
            counter(encoder, name, help, value)?;
        }
    }
    Ok(())
}

fn counter<N>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    value: N,
) -> Result<(), std::fmt::Error>
where
    ConstCounter<N>: EncodeMetric,
{
    let metric = ConstCounter::new(value);
    metric.encode(encoder.encode_descriptor(name, help, None, ConstCounter::<N>::TYPE)?)
}

fn gauge<N>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    value: N,
) -> Result<(), std::fmt::Error>
where
    ConstGauge<N>: EncodeMetric,
{
    let metric = ConstGauge::new(value);
    metric.encode(encoder.encode_descriptor(name, help, None, ConstGauge::<N>::TYPE)?)
}

/// Reads the figures out of `/proc/self/stat`, `/proc/self/status` and `/proc/stat`.
fn parse(stat: &str, status: &str, system: &str) -> Option<Reading> {
    // The second field is the program name in parentheses and may itself hold blanks and parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // Counted from the third field of proc(5): utime is the 14th, stime the 15th, starttime the 22nd.
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    let boot: f64 = system
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()?;
    let kibibytes = |key: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()?
            .checked_mul(1024)
    };
    Some(Reading {
        cpu_seconds: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND,
        start_seconds: boot + ticks(19)? / TICKS_PER_SECOND,
        virtual_bytes: kibibytes("VmSize:")?,
        resident_bytes: kibibytes("VmRSS:")?,
    })
}

/// Reads a soft limit out of `/proc/self/limits`; no limit is the highest number there is.
fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// Reads a column of the IP statistics out of `/proc/self/net/netstat`, where a line of names stands above one of values.
fn octets(statistics: &str, column: &str) -> Option<u64> {
    let mut lines = statistics
        .lines()
        .filter_map(|line| line.strip_prefix("IpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.find(|(name, _)| *name == column)?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_figures_behind_a_program_name_with_blanks() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 1000 1 2";
        let status = "Name:\ta\nVmSize:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        let reading = parse(stat, status, "cpu 1 2\nbtime 1000\n").unwrap();
        assert_eq!(
            reading,
            Reading {
                cpu_seconds: 3.0,
                start_seconds: 1010.0,
                virtual_bytes: 2 << 20,
                resident_bytes: 1 << 20,
            }
        );
    }

    #[test]
    fn reads_limits_and_traffic() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\nMax open files            1024                 524288               files\nMax address space         unlimited            unlimited            bytes\n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(1024));
        assert_eq!(soft_limit(limits, "Max address space"), Some(u64::MAX));
        assert_eq!(soft_limit("", "Max open files"), None);
        let statistics =
            "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 70 80\n";
        assert_eq!(octets(statistics, "InOctets"), Some(70));
        assert_eq!(octets(statistics, "OutOctets"), Some(80));
        assert_eq!(octets("TcpExt: A\nTcpExt: 1\n", "InOctets"), None);
    }

    #[test]
    fn gives_nothing_for_a_text_it_does_not_know() {
        assert_eq!(parse("", "", ""), None);
    }
}
