//! The end of the process: first signal asks, second insists.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Gives a token that SIGTERM or SIGINT cancels. A second signal ends the process at once with code 1.
///
/// Fails where the system refuses to install a signal handler.
pub fn token() -> io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        let name = next(&mut terminate, &mut interrupt).await;
        tracing::info!(signal = name, "stopping");
        cancelled.cancel();
        let name = next(&mut terminate, &mut interrupt).await;
        tracing::warn!(signal = name, "second signal; stopping at once");
        std::process::exit(1);
    });
    Ok(token)
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

#[cfg(test)]
mod tests {
    use std::{process::Command, time::Duration};

    use super::*;

    #[tokio::test]
    async fn a_signal_cancels_the_token() {
        let token = token().unwrap();
        assert!(!token.is_cancelled());
        let sent = Command::new("kill")
            .arg("-TERM")
            .arg(std::process::id().to_string())
            .status();
        assert!(sent.unwrap().success());
        tokio::time::timeout(Duration::from_secs(10), token.cancelled())
            .await
            .unwrap();
    }
}
