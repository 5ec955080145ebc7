//! Free ports on loopback.

use std::{
    net::TcpListener,
    ops::Range,
    sync::{LazyLock, Mutex, PoisonError},
};

use anyhow::{Result, bail};

/// How often a start is tried with other ports when somebody else took one in between.
pub(crate) const ATTEMPTS: usize = 5;

/// What servers write when a port has been taken since we looked.
const TAKEN: &str = "address already in use";

/// Where we look: below the ports that systems give to outgoing connections, of which tests make thousands.
const RANGE: Range<u16> = 14_000..32_000;

/// Where to look next. It starts anywhere, so that processes that run at once do not meet, and goes on, so that no port is given
/// twice in one process.
static NEXT: LazyLock<Mutex<u16>> = LazyLock::new(|| {
    let [first, second, ..] = *uuid::Uuid::new_v4().as_bytes();
    let length = RANGE.end - RANGE.start;
    Mutex::new(RANGE.start + u16::from_be_bytes([first, second]) % length)
});

/// Finds `N` different ports that are free right now.
///
/// Until the server binds them somebody else may; see [`taken`].
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    for port in &mut ports {
        *port = free_port()?;
    }
    Ok(ports)
}

fn free_port() -> Result<u16> {
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in RANGE {
        let port = *next;
        *next = if port + 1 < RANGE.end {
            port + 1
        } else {
            RANGE.start
        };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!(
        "no port from {} to {} is free on 127.0.0.1",
        RANGE.start,
        RANGE.end - 1
    )
}

/// Whether a failed start is one to try again with other ports.
pub(crate) fn taken(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains(TAKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_no_port_twice_and_none_that_is_used() {
        let [first, second] = free_ports().unwrap();
        assert_ne!(first, second);
        let after = if second + 1 < RANGE.end {
            second + 1
        } else {
            RANGE.start
        };
        let _used = TcpListener::bind(("127.0.0.1", after));
        let [third] = free_ports().unwrap();
        assert_ne!(third, after);
    }
}
