//! Subcommands that look at a GARM once: `export` and `diff`.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::Context as _;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::{Task, config_file, exit_code, flag, kubeconfig, out, refuse, sources};
use crate::{
    config::{self, Config, settings::SETTINGS},
    diff,
    export::{self, Export},
    look,
};

/// Settings of the connection to GARM that tools have.
const CONNECTION: [&str; 5] = [
    "garm.server",
    "garm.username",
    "garm.password",
    "garm.passwordFile",
    "garm.caFile",
];

/// Describes `export`.
pub(super) fn export_command() -> Command {
    Command::new("export")
        .about("Describe what a GARM holds as objects that take it over when they are applied")
        .after_help("Nothing is written to GARM. Exit codes: 0 everything is described, 1 something is left out or would be refused, 2 GARM cannot be read or a file cannot be written.")
        .args(connection())
        .arg(out("folder to write to, one file for each object; without it everything is printed"))
        .arg(
            Arg::new("namespace")
                .long("namespace")
                .short('n')
                .value_name("NAME")
                .help("namespace of the objects; without it they have none"),
        )
}

/// Describes `diff`.
pub(super) fn diff_command() -> Command {
    Command::new("diff")
        .about("Compare objects with what GARM holds: what would the operator change?")
        .after_help("Nothing is written, and no Secret is read but those with CA certificates: what GARM never shows is not compared. Exit codes: 0 no difference, 1 differences, 2 something cannot be read.")
        .args(connection())
        .args(setting_flags(&["operator.watchNamespace"]))
        .arg(kubeconfig())
        .arg(
            Arg::new("filename")
                .short('f')
                .long("filename")
                .value_name("FILE|DIR|-")
                .value_parser(value_parser!(PathBuf))
                .action(ArgAction::Append)
                .help("compare manifests instead of the objects of the cluster: a file, a folder with all below it, or - for standard input; may be given several times"),
        )
}

fn connection() -> Vec<Arg> {
    let mut all = setting_flags(&CONNECTION);
    all.push(config_file());
    all
}

fn setting_flags(keys: &[&str]) -> Vec<Arg> {
    let settings = SETTINGS.iter();
    settings
        .filter(|setting| keys.contains(&setting.key))
        .map(flag)
        .collect()
}

/// Writes or prints what a GARM holds.
pub(super) fn export(matches: &ArgMatches, env: Vec<(OsString, OsString)>) -> Task {
    with_garm(matches, env, async |config| {
        let namespace = matches.get_one::<String>("namespace");
        let export = read(&config, namespace.map(String::as_str)).await?;
        let mut stderr = io::stderr();
        match matches.get_one::<PathBuf>("out") {
            Some(folder) => {
                for kept in export::write(folder, &export)? {
                    // Nobody is left to tell when the terminal is gone.
                    let _ = writeln!(stderr, "{kept} is there already and stays as it is");
                }
            }
            None => write!(io::stdout(), "{}", export.to_stream())?,
        }
        for note in export.notes() {
            let _ = writeln!(stderr, "{note}");
        }
        Ok(u8::from(!export.is_whole()))
    })
}

async fn read(config: &Config, namespace: Option<&str>) -> anyhow::Result<Export> {
    let look = look::at_garm(config).await?;
    let holdings = export::read(&look.garm)
        .await
        .context("GARM cannot be read")?;
    Export::of(&holdings, namespace)
}

/// Prints what the operator would change in GARM.
pub(super) fn diff(matches: &ArgMatches, env: Vec<(OsString, OsString)>) -> Task {
    with_garm(matches, env, async |mut config| {
        config.kubeconfig = matches.get_one("kubeconfig").cloned();
        let files: Vec<PathBuf> = matches
            .get_many("filename")
            .map(|paths| paths.cloned().collect())
            .unwrap_or_default();
        let differences = diff::diff(&config, &files).await?;
        write!(io::stdout(), "{}", differences.to_text())?;
        for note in &differences.notes {
            // Nobody is left to tell when the terminal is gone.
            let _ = writeln!(io::stderr(), "{note}");
        }
        Ok(differences.exit_code())
    })
}

/// Loads the configuration and runs a tool with it; whatever fails ends with 2.
fn with_garm(
    matches: &ArgMatches,
    env: Vec<(OsString, OsString)>,
    tool: impl AsyncFnOnce(Config) -> anyhow::Result<u8>,
) -> Task {
    let loaded = sources(matches, env)
        .and_then(|sources| config::load(&sources))
        .and_then(|loaded| loaded.config.check_files().map(|()| loaded.config));
    let config = match loaded {
        Ok(config) => config,
        Err(problems) => {
            refuse(&problems);
            return Task::Exit(exit_code(2));
        }
    };
    let ended = tokio::runtime::Runtime::new()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(tool(config)));
    match ended {
        Ok(code) => Task::Exit(exit_code(code)),
        Err(error) => {
            let _ = writeln!(io::stderr(), "garm-operator: {error:#}");
            Task::Exit(exit_code(2))
        }
    }
}
