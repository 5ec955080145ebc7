//! Runs the operator until it is told to stop.

use anyhow::Context as _;
use axum::{Router, routing::get};
use tokio::net::TcpListener;

use crate::config::Config;

/// Serves the health endpoint and says so; the controllers are not wired in yet.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let address = &config.operator.health_probe_bind_address;
    let mut listener = None;
    for (host, port) in address.candidates() {
        listener = Some(TcpListener::bind((host, port)).await);
        if matches!(listener, Some(Ok(_))) {
            break;
        }
    }
    let Some(listener) = listener else {
        println!("the health endpoint is switched off, and nothing else is there yet");
        return Ok(());
    };
    let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
    println!("serving only the health endpoint, on {address}");
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(|| async { "ok" }));
    axum::serve(listener, router)
        .with_graceful_shutdown(async {
            // Without a handler the signal ends the process by itself.
            let _ = tokio::signal::ctrl_c().await;
        })
        .await
        .context("the health endpoint failed")
}
