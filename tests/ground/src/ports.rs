//! Free ports on loopback.

use std::net::TcpListener;

use anyhow::{Context, Result};

/// How often a start is tried with other ports when somebody else took one in between.
pub(crate) const ATTEMPTS: usize = 5;

/// What servers write when a port has been taken since we looked.
const TAKEN: &str = "address already in use";

/// Finds `N` different ports that are free right now.
///
/// Until the server binds them somebody else may; see [`taken`].
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // All are held until all are known, else the same one may come twice.
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").context("find a free port")?;
        *port = listener.local_addr().context("find a free port")?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// Whether a failed start is one to try again with other ports.
pub(crate) fn taken(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains(TAKEN)
}
