//! Entry point: cryptography, command line, then the operator.

use std::process::ExitCode;

use garm_operator::{
    cli::{self, Task},
    run,
};

fn main() -> ExitCode {
    // One provider for all TLS in the process. It fails only when one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match cli::parse(std::env::args_os(), std::env::vars_os()) {
        Task::Exit(code) => code,
        Task::Run(config) => operate(run::run(*config)),
    }
}

/// Runs the operator on its threads and tells how it ended.
fn operate(operator: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    let ended = tokio::runtime::Runtime::new()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(operator));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("garm-operator: {}", story(&error));
            ExitCode::FAILURE
        }
    }
}

/// Tells an error with its causes; libraries that repeat a cause in their own text do not get it told twice.
fn story(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |told, cause| {
        let cause = cause.to_string();
        match told.as_str() {
            "" => cause,
            before if before.contains(&cause) => told,
            before => format!("{before}: {cause}"),
        }
    })
}
