//! The command line: the Go operator's flags at the top level run the operator; subcommands do the rest.

mod tools;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::{
    config::{
        self, Config, Problem, Problems, Sort, Sources,
        settings::{Kind, SETTINGS, Setting},
    },
    domain::defaults::PoolDefaults,
    generate::{self, rbac::Reach},
    validate::{self, schema::Schemas},
};

/// What the command line asks for.
#[derive(Debug)]
pub enum Task {
    /// Run the operator.
    Run(Box<Config>),
    /// Done already; leave with this code.
    Exit(ExitCode),
}

/// Reads the command line, the environment and the configuration file. Does at once what needs no operator.
///
/// Exit codes: 0 done; 1 a value is missing or wrong, or a file cannot be written; 2 something is not known or cannot be read.
pub fn parse<I, E>(args: I, env: E) -> Task
where
    I: IntoIterator<Item = OsString>,
    E: IntoIterator<Item = (OsString, OsString)>,
{
    let matches = match command().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => {
            // Nobody is left to tell when the terminal is gone.
            let _ = error.print();
            return Task::Exit(exit_code(u8::try_from(error.exit_code()).unwrap_or(2)));
        }
    };
    match matches.subcommand() {
        Some(("version", _)) => {
            done(writeln!(io::stdout(), "garm-operator {VERSION}").map_err(Into::into))
        }
        Some(("generate", matches)) => done(generate(matches)),
        Some(("validate", matches)) => validate(matches),
        Some(("export", matches)) => tools::export(matches, env.into_iter().collect()),
        Some(("diff", matches)) => tools::diff(matches, env.into_iter().collect()),
        _ => configure(&matches, env.into_iter().collect()),
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Loads the configuration; prints it for `--dry-run`.
fn configure(matches: &ArgMatches, env: Vec<(OsString, OsString)>) -> Task {
    let loaded = sources(matches, env).and_then(|sources| config::load(&sources));
    let mut loaded = match loaded {
        Ok(loaded) => loaded,
        Err(problems) => return refuse(&problems),
    };
    if matches.get_one("dry-run") == Some(&true) {
        return done(
            write!(
                io::stdout(),
                "# generated Config as yaml:\n{}",
                loaded.to_yaml()
            )
            .map_err(Into::into),
        );
    }
    if let Err(problems) = loaded.config.check_files() {
        return refuse(&problems);
    }
    loaded.config.kubeconfig = matches.get_one("kubeconfig").cloned();
    if let Some(factor) = matches.get_one::<f64>("timings-scale") {
        loaded.config.timings = loaded.config.timings.scaled(*factor);
    }
    Task::Run(Box::new(loaded.config))
}

/// Collects what flags, environment and file say.
fn sources(matches: &ArgMatches, env: Vec<(OsString, OsString)>) -> Result<Sources, Problems> {
    let flags: BTreeMap<_, _> = SETTINGS
        .iter()
        .filter_map(|setting| {
            // Not every subcommand has every flag.
            let value = matches.try_get_one::<String>(setting.key).ok()??;
            Some((setting.key, value.clone()))
        })
        .collect();
    // An empty path is no path: manifests fill the flag from a variable.
    let path = matches
        .get_one::<PathBuf>("config")
        .filter(|path| !path.as_os_str().is_empty());
    let file = match path.map(std::fs::read_to_string).transpose() {
        Ok(file) => file,
        Err(error) => {
            let message = format!(
                "cannot read {}: {error}",
                path.map(|path| path.display().to_string())
                    .unwrap_or_default()
            );
            return Err(Problems(vec![Problem::new(
                "config file",
                Sort::Value,
                message,
            )]));
        }
    };
    Ok(Sources { flags, env, file })
}

/// Prints or writes generated files.
fn generate(matches: &ArgMatches) -> anyhow::Result<()> {
    let (mut files, matches) = match matches.subcommand() {
        Some(("crds", matches)) => (generate::crds::files()?, matches),
        Some(("webhooks", matches)) => (generate::webhooks::files()?, matches),
        Some(("rbac", matches)) => (generate::rbac::files(&reach(matches))?, matches),
        Some(("manifests", matches)) => {
            let folder = matches.get_one::<PathBuf>("out");
            let folder = folder.cloned().unwrap_or_default();
            (generate::manifests::files(&folder)?, matches)
        }
        Some(("docs", matches)) => {
            let folder = matches.get_one::<PathBuf>("out");
            let folder = folder.cloned().unwrap_or_default();
            (generate::docs::files(&folder)?, matches)
        }
        _ => return Ok(()),
    };
    if let Some(folder) = matches.get_one::<PathBuf>("out") {
        return generate::write(folder, &files);
    }
    // Of the webhooks there are two sorts, of which a cluster has one.
    if let Ok(Some(wanted)) = matches.try_get_one::<bool>("cert-manager") {
        files.retain(|file| file.name.contains("cert-manager") == *wanted);
    }
    Ok(generate::print(io::stdout().lock(), &files)?)
}

/// Reads what an installation reaches.
fn reach(matches: &ArgMatches) -> Reach {
    let default = Reach::default();
    let own = matches.get_one::<String>("namespace");
    let watched = matches.get_many::<String>("watch-namespace");
    Reach {
        own: own.cloned().unwrap_or(default.own),
        watched: watched.into_iter().flatten().cloned().collect(),
        self_managed: matches.get_flag("self-managed"),
    }
}

/// Judges manifests and prints what was found: findings on standard output, what cannot be read and the sum on standard error.
fn validate(matches: &ArgMatches) -> Task {
    let paths: Vec<PathBuf> = matches
        .get_many::<PathBuf>("filename")
        .map(|paths| paths.cloned().collect())
        .unwrap_or_default();
    let mut unreadable = Vec::new();
    let inputs = validate::input::read(&paths, &mut unreadable);
    let mut report = validate::validate(&inputs, &Schemas::new(), &PoolDefaults::default());
    report.unreadable.splice(0..0, unreadable);
    let is_json = matches
        .get_one::<String>("output")
        .is_some_and(|output| output == "json");
    let printed = if is_json {
        report
            .to_json()
            .map_err(Into::into)
            .and_then(|json| writeln!(io::stdout(), "{json}"))
    } else {
        write!(io::stdout(), "{}", report.to_text())
    };
    for fault in &report.unreadable {
        let _ = writeln!(io::stderr(), "{fault}");
    }
    let _ = writeln!(io::stderr(), "{}", report.summary());
    match printed {
        Ok(()) => {
            let strict = matches.get_flag("strict");
            Task::Exit(exit_code(report.exit_code(strict)))
        }
        Err(error) => done(Err(error.into())),
    }
}

fn refuse(problems: &Problems) -> Task {
    let _ = writeln!(io::stderr(), "failed to read config: {problems}");
    Task::Exit(exit_code(problems.exit_code()))
}

fn done(result: anyhow::Result<()>) -> Task {
    match result {
        Ok(()) => Task::Exit(ExitCode::SUCCESS),
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error:#}");
            Task::Exit(ExitCode::FAILURE)
        }
    }
}

fn exit_code(code: u8) -> ExitCode {
    ExitCode::from(code)
}

/// Describes the command line.
fn command() -> Command {
    let validate = Command::new("validate")
        .about("Judge manifests without a cluster, as admission would")
        .after_help("Exit codes: 0 clean or warnings only, 1 errors (with --strict warnings too), 2 input that cannot be read.")
        .arg(
            Arg::new("filename")
                .short('f')
                .long("filename")
                .value_name("FILE|DIR|-")
                .value_parser(value_parser!(PathBuf))
                .action(ArgAction::Append)
                .required(true)
                .help("YAML or JSON file, folder with all below it, or - for standard input; may be given several times"),
        )
        .arg(
            Arg::new("output")
                .short('o')
                .long("output")
                .value_name("FORM")
                .value_parser(["text", "json"])
                .default_value("text")
                .help("form of the findings"),
        )
        .arg(
            Arg::new("strict")
                .long("strict")
                .action(ArgAction::SetTrue)
                .help("let warnings fail as well"),
        );
    Command::new("garm-operator")
        .version(VERSION)
        .about("Kubernetes operator for GARM, the runner manager for GitHub Actions")
        .after_help("A value in the config file beats a flag, a flag beats the environment, the environment beats the default.")
        .args_conflicts_with_subcommands(true)
        // The last of several counts, as with Go's flags.
        .args_override_self(true)
        .args(SETTINGS.iter().map(flag))
        .arg(config_file())
        .arg(kubeconfig())
        .arg(yes_or_no("dry-run").require_equals(true)
                .value_parser(truth).help("print the configuration with the source of each value, and exit"))
        .arg(Arg::new("timings-scale").long("timings-scale").hide(true).value_parser(value_parser!(f64)))
        .subcommand(generate_command())
        .subcommand(validate)
        .subcommand(tools::export_command())
        .subcommand(tools::diff_command())
        .subcommand(Command::new("version").about("Print the version"))
}

/// Describes the subcommand that writes files.
fn generate_command() -> Command {
    let crds = Command::new("crds")
        .about("Print the CustomResourceDefinitions, or write them into a folder")
        .arg(out("folder to write to, one file for each kind"));
    let webhooks = Command::new("webhooks")
        .about("Print the webhook configurations and their Service, or write them into a folder")
        .arg(out("folder to write to, one file with and one without cert-manager"))
        .arg(
            Arg::new("cert-manager")
                .long("cert-manager")
                .action(ArgAction::SetTrue)
                .help("let cert-manager fill in the CA certificates; without it the operator does, or you"),
        );
    let rbac = Command::new("rbac")
        .about("Print the roles of the operator, and those of people who view or edit its objects")
        .arg(out("folder to write to"))
        .arg(
            Arg::new("namespace")
                .long("namespace")
                .value_name("NAMESPACE")
                .help("the operator's own namespace [default: garm-operator-system]"),
        )
        .arg(
            Arg::new("watch-namespace")
                .long("watch-namespace")
                .value_name("NAMESPACE,…")
                .value_delimiter(',')
                .action(ArgAction::Append)
                .help(
                    "namespaces it works on, each with a Role; without any a ClusterRole, for all",
                ),
        )
        .arg(
            Arg::new("self-managed")
                .long("self-managed")
                .action(ArgAction::SetTrue)
                .help("add what webhook certificates of its own take"),
        );
    let manifests = Command::new("manifests")
        .about("Write the generated parts of the folder manifests")
        .arg(out("that folder").required(true));
    let docs = Command::new("docs")
        .about("Write the generated parts of the pages in the folder docs")
        .arg(out("that folder").required(true));
    Command::new("generate")
        .about("Write files that follow from the code")
        .subcommand_required(true)
        .subcommands([crds, webhooks, rbac, manifests, docs])
}

/// Makes the option that names the configuration file.
fn config_file() -> Arg {
    Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("YAML file with settings")
}

/// Makes the option that names the kubeconfig file.
fn kubeconfig() -> Arg {
    Arg::new("kubeconfig")
        .long("kubeconfig")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("kubeconfig file; else KUBECONFIG, the pod's own account, the home directory [env: KUBECONFIG]")
}

/// Makes the option of where to write to.
fn out(help: &'static str) -> Arg {
    Arg::new("out")
        .long("out")
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .help(help)
}

/// Makes the flag of a setting. It has no default here: one not given must not beat the environment.
fn flag(setting: &'static Setting) -> Arg {
    let arg = match setting.kind {
        Kind::Bool => yes_or_no(setting.flag),
        _ => Arg::new(setting.flag)
            .long(setting.flag)
            .action(ArgAction::Set)
            .allow_hyphen_values(true),
    };
    let value_name = match setting.kind {
        Kind::Text | Kind::Secret => "TEXT",
        Kind::File => "FILE",
        Kind::Bool => "BOOL",
        Kind::Number => "NUMBER",
        Kind::Duration => "DURATION",
    };
    let default = if setting.default.is_empty() {
        String::new()
    } else {
        format!("[default: {}] ", setting.default)
    };
    setting.aliases.iter().fold(
        arg.id(setting.key)
            .value_name(value_name)
            .help(format!("{} {default}[env: {}]", setting.help, setting.env)),
        |arg, alias| {
            if alias.shown {
                arg.visible_alias(alias.flag)
            } else {
                arg.alias(alias.flag)
            }
        },
    )
}

/// Makes a flag that means yes when it stands alone.
fn yes_or_no(name: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::Set)
        .num_args(0..=1)
        .default_missing_value("true")
}

/// Reads the value of a flag that is no setting.
fn truth(text: &str) -> Result<bool, &'static str> {
    config::parse_bool(text).ok_or("neither true nor false")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
