//! Logs: one line per event on standard error, as text or JSON, with a level that can change at run time.

use std::io::IsTerminal;

use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter, Layer, Registry, fmt as layer, fmt::MakeWriter, layer::SubscriberExt, reload,
    util::SubscriberInitExt,
};

use crate::config::LogFormat;

/// Changes the level of the running process.
#[derive(Clone, Debug)]
pub struct Handle(reload::Handle<EnvFilter, Registry>);

impl Handle {
    /// Makes a handle whose subscriber is gone.
    #[cfg(test)]
    pub(crate) fn detached() -> Self {
        subscriber(LogFormat::Text, 0, false, std::io::sink).1
    }

    /// Sets the verbosity, 0 to 5. Does nothing once the subscriber is gone, which is the end of the process.
    pub fn set_verbosity(&self, verbosity: u8) {
        if let Err(error) = self.0.reload(filter(verbosity)) {
            tracing::warn!(%error, "the log level did not change");
        }
    }
}

/// Begins to log on standard error and sends panics there too; once per process.
///
/// Fails when something else has set a subscriber before.
pub fn init(
    format: LogFormat,
    verbosity: u8,
) -> Result<Handle, tracing_subscriber::util::TryInitError> {
    let (subscriber, handle) = subscriber(
        format,
        verbosity,
        std::io::stderr().is_terminal(),
        std::io::stderr,
    );
    subscriber.try_init()?;
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let message = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        tracing::error!(panic.message = message, panic.place = place, "panicked");
    }));
    Ok(handle)
}

fn subscriber<W>(
    format: LogFormat,
    verbosity: u8,
    terminal: bool,
    writer: W,
) -> (impl Subscriber + Send + Sync, Handle)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(filter(verbosity));
    let lines = match format {
        LogFormat::Json => layer::layer()
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .with_writer(writer)
            .boxed(),
        LogFormat::Text => layer::layer()
            .with_ansi(terminal)
            .with_writer(writer)
            .boxed(),
    };
    (
        tracing_subscriber::registry().with(filter).with(lines),
        Handle(handle),
    )
}

/// Chooses what is logged.
///
/// kube's client is silent: it reports errors before anybody has decided whether they matter, and it prints answers
/// it cannot decode, which hold whole objects. Other libraries never go below debug, as their traces show traffic.
fn filter(verbosity: u8) -> EnvFilter {
    EnvFilter::new(directives(verbosity))
}

fn directives(verbosity: u8) -> &'static str {
    match verbosity {
        0 => "warn,garm_operator=info,kube_client=off,kube_runtime=off",
        1 | 2 => "warn,garm_operator=debug,kube_client=off,kube_runtime=off",
        3 => "info,garm_operator=debug,kube_client=off,kube_runtime=warn",
        4 => "info,garm_operator=trace,kube_client=off,kube_runtime=info",
        _ => "debug,garm_operator=trace,kube_client=off,kube_client::client::builder=debug",
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::{Arc, Mutex},
    };

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut lines = self.0.lock().map_err(|_| std::io::ErrorKind::Other)?;
            lines.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(
        format: LogFormat,
        verbosity: u8,
        terminal: bool,
        log: impl FnOnce(&Handle),
    ) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let (subscriber, handle) = subscriber(format, verbosity, terminal, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || log(&handle));
        String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn json_lines_carry_fields_and_span() {
        let line = logged(LogFormat::Json, 0, true, |_| {
            let _span = tracing::info_span!("reconcile", controller = "pool").entered();
            tracing::info!(pool.name = "a", "pool created");
        });
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["message"], "pool created");
        assert_eq!(line["pool.name"], "a");
        assert_eq!(line["span"]["controller"], "pool");
    }

    #[test]
    fn colours_text_on_a_terminal_only() {
        let plain = logged(LogFormat::Text, 0, false, |_| tracing::info!("hello"));
        let coloured = logged(LogFormat::Text, 0, true, |_| tracing::info!("hello"));
        assert!(
            plain.contains("hello") && !plain.contains('\u{1b}'),
            "{plain}"
        );
        assert!(coloured.contains('\u{1b}'));
    }

    #[test]
    fn verbosity_changes_at_run_time_and_kube_stays_silent() {
        let text = logged(LogFormat::Text, 0, false, |handle| {
            tracing::debug!("first");
            handle.set_verbosity(1);
            tracing::debug!("second");
            tracing::trace!("third");
            tracing::warn!(target: "kube_client::client", "fourth");
            handle.set_verbosity(5);
            tracing::trace!("fifth");
            tracing::warn!(target: "kube_client::client", "sixth");
        });
        let words = ["first", "second", "third", "fourth", "fifth", "sixth"];
        let shown: Vec<&str> = words
            .into_iter()
            .filter(|&word| text.contains(word))
            .collect();
        assert_eq!(shown, ["second", "fifth"]);
    }
}
