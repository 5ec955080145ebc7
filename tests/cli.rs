//! The program as it is called: exit codes, and what it says where.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use garm_operator::config::settings::{Kind, SETTINGS};

const REQUIRED: [&str; 3] = [
    "--garm-server=http://garm:9997",
    "--garm-username=admin",
    "--garm-password=hunter2",
];

struct Ended {
    code: i32,
    out: String,
    err: String,
}

/// Calls the program with nothing in its environment but what is given.
fn call(args: &[&str], env: &[(&str, &str)]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_garm-operator"))
        .args(args)
        .env_clear()
        .envs(env.iter().copied())
        .output()
        .unwrap();
    Ended {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn dry_run(args: &[&str], env: &[(&str, &str)]) -> Ended {
    call(&[&REQUIRED, args, &["--dry-run"]].concat(), env)
}

/// A folder for one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn help_lists_every_flag_with_variable_and_default() {
    for flag in ["--help", "-h"] {
        let ended = call(&[flag], &[]);
        assert_eq!(ended.code, 0);
        for setting in SETTINGS {
            assert!(
                ended.out.contains(&format!("--{} ", setting.flag)),
                "{}",
                setting.flag
            );
            assert!(
                ended.out.contains(&format!("[env: {}]", setting.env)),
                "{}",
                setting.env
            );
            assert!(
                setting.default.is_empty()
                    || ended
                        .out
                        .contains(&format!("[default: {}]", setting.default))
            );
        }
        for flag in [
            "--config",
            "--dry-run",
            "--kubeconfig",
            "--operator-sync-runners",
        ] {
            assert!(ended.out.contains(flag), "{flag}");
        }
        for hidden in ["timings-scale", "reconcilation"] {
            assert!(!ended.out.contains(hidden), "{hidden}");
        }
    }
}

#[test]
fn an_unknown_flag_is_named_with_the_nearest_one() {
    let ended = call(&["--operator-sync-perod=5m"], &[]);
    assert_eq!(ended.code, 2);
    assert!(
        ended.err.contains("'--operator-sync-perod'")
            && ended.err.contains("'--operator-sync-period'"),
        "{}",
        ended.err
    );
    assert_eq!(call(&["no-such-task"], &[]).code, 2);
}

#[test]
fn an_unknown_key_in_the_file_is_named_with_the_nearest_one() {
    let folder = Folder::new("key");
    let file = folder.file("c.yaml", "operator:\n  syncPerod: 5m\n");
    let ended = dry_run(&["--config", &file], &[]);
    assert_eq!(ended.code, 2);
    assert!(
        ended
            .err
            .contains("operator.syncPerod: no such setting; did you mean operator.syncPeriod?"),
        "{}",
        ended.err
    );
}

#[test]
fn all_problems_are_told_at_once_also_in_a_dry_run() {
    for args in [
        &["--operator-pool-concurrency=0"][..],
        &["--operator-pool-concurrency", "0", "--dry-run"],
    ] {
        let ended = call(args, &[("OPERATOR_LOG_VERBOSITY_LEVEL", "6")]);
        assert_eq!((ended.code, ended.out.as_str()), (1, ""));
        assert!(
            ended
                .err
                .starts_with("failed to read config: invalid config:\n"),
            "{}",
            ended.err
        );
        for key in [
            "garm.server",
            "garm.username",
            "garm.password",
            "operator.poolConcurrency",
            "operator.logVerbosityLevel",
        ] {
            assert_eq!(
                ended.err.matches(&format!("  {key}: ")).count(),
                1,
                "{key}: {}",
                ended.err
            );
        }
    }
}

#[test]
fn a_missing_file_is_named() {
    let ended = dry_run(&["--config=/no/such/file.yaml"], &[]);
    assert_eq!(ended.code, 1);
    assert!(
        ended
            .err
            .contains("config file: cannot read /no/such/file.yaml"),
        "{}",
        ended.err
    );
}

#[test]
fn files_that_the_configuration_names_are_looked_at_before_the_start() {
    let ended = call(
        &[
            "--garm-server=http://garm",
            "--garm-username=a",
            "--garm-password-file=/no/such/password",
            "--garm-ca-file=/no/such/ca",
        ],
        &[],
    );
    assert_eq!(ended.code, 1);
    assert!(
        ended
            .err
            .contains("garm.passwordFile: cannot read /no/such/password"),
        "{}",
        ended.err
    );
    assert!(
        ended.err.contains("garm.caFile: cannot read /no/such/ca"),
        "{}",
        ended.err
    );
}

#[test]
fn default_then_environment_then_flag_then_file() {
    let folder = Folder::new("order");
    let file = folder.file("c.yaml", "operator:\n  syncPeriod: 4m\n");
    let env = [("OPERATOR_SYNC_PERIOD", "2m")];
    let line = |ended: Ended| {
        assert_eq!(ended.code, 0, "{}", ended.err);
        ended
            .out
            .lines()
            .find(|line| line.contains("syncPeriod"))
            .unwrap()
            .trim()
            .to_owned()
    };
    assert_eq!(line(dry_run(&[], &[])), "syncPeriod: 5m0s # default");
    assert_eq!(
        line(dry_run(&[], &env)),
        "syncPeriod: 2m0s # env OPERATOR_SYNC_PERIOD"
    );
    // A flag given with its default value still counts.
    assert_eq!(
        line(dry_run(&["--operator-sync-period", "5m"], &env)),
        "syncPeriod: 5m0s # flag --operator-sync-period"
    );
    assert_eq!(
        line(dry_run(
            &["--operator-sync-period=3m", "--config", &file],
            &env
        )),
        "syncPeriod: 4m0s # file"
    );
}

#[test]
fn every_flag_is_taken_in_both_forms() {
    for setting in SETTINGS {
        let value = match setting.kind {
            Kind::Bool => "T",
            Kind::Number => "3",
            Kind::Duration if setting.key == "operator.stuckAfter" => "2.5m",
            Kind::Duration => "0.5m",
            Kind::File => "/some/file",
            Kind::Secret => "hunter2",
            Kind::Text => match setting.key {
                "garm.server" => "https://garm",
                "operator.logFormat" => "json",
                "operator.webhookCerts" => "self-managed",
                "operator.duplicatePools" => "warn",
                "operator.poolDefaults.osType" => "windows",
                "operator.poolDefaults.osArch" => "arm64",
                key if key.ends_with("BindAddress") => "[::1]:9000",
                _ => "some-text",
            },
        };
        let needs: &[&str] = match setting.key {
            "garm.passwordFile" => &["--garm-password="],
            // A step of a change is short beside the whole life.
            "operator.webhookCaLifetime" => {
                &["--garm-password=hunter2", "--operator-webhook-ca-step=1s"]
            }
            // So is a renewal beside the time until others take over.
            "operator.leaseRenewDeadline" => {
                &["--garm-password=hunter2", "--operator-lease-duration=1m"]
            }
            "operator.leaseRetryPeriod" => &[
                "--garm-password=hunter2",
                "--operator-lease-duration=1m30s",
                "--operator-lease-renew-deadline=1m",
            ],
            _ => &["--garm-password=hunter2"],
        };
        let mut names = vec![setting.flag];
        names.extend(setting.aliases.iter().map(|alias| alias.flag));
        for name in names {
            let flag = format!("--{name}");
            let joined = format!("--{name}={value}");
            for args in [
                [needs, &[joined.as_str()]].concat(),
                [needs, &[flag.as_str(), value]].concat(),
            ] {
                let ended = dry_run(&args, &[]);
                assert_eq!(ended.code, 0, "{args:?}: {}", ended.err);
                let source = format!("# flag --{}", setting.flag);
                assert!(ended.out.contains(&source), "{args:?}: {}", ended.out);
            }
        }
    }
}

#[test]
fn a_yes_or_no_flag_may_stand_alone() {
    let ended = dry_run(
        &[
            "--operator-leader-election",
            "--operator-runner-reconcilation",
        ],
        &[],
    );
    assert!(
        ended.out.contains("leaderElection: true # flag"),
        "{}",
        ended.out
    );
    assert!(
        ended.out.contains("runnerReconciliation: true # flag"),
        "{}",
        ended.out
    );
}

#[test]
fn the_last_of_several_flags_counts() {
    let ended = dry_run(
        &[
            "--operator-pool-concurrency=1",
            "--operator-pool-concurrency=2",
        ],
        &[],
    );
    assert!(ended.out.contains("poolConcurrency: 2 #"), "{}", ended.out);
}

#[test]
fn no_password_is_ever_shown() {
    let folder = Folder::new("secret");
    let files = [
        folder.file("good.yaml", "garm:\n  password: hunter2\n"),
        folder.file("bad.yaml", "garm:\n  password: 'hunter2\n"),
        folder.file("list.yaml", "garm:\n  password: [hunter2]\n"),
    ];
    for file in &files {
        for more in ["--dry-run", "--operator-pool-concurrency=0"] {
            let ended = call(
                &["--garm-server=x", "--config", file, more],
                &[("GARM_PASSWORD", "hunter2")],
            );
            assert!(
                !ended.out.contains("hunter2") && !ended.err.contains("hunter2"),
                "{}{}",
                ended.out,
                ended.err
            );
        }
    }
    let ended = dry_run(&[], &[]);
    assert!(
        ended
            .out
            .contains("password: \"***\" # flag --garm-password\n")
            && !ended.out.contains("hunter2")
    );
}

#[test]
fn generated_files_are_printed_or_written_as_committed() {
    for (what, options) in [
        ("crds", &[&[][..]][..]),
        ("webhooks", &[&[][..], &["--cert-manager"]]),
    ] {
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join(what);
        let mut printed = String::new();
        for options in options {
            let ended = call(&[&["generate", what], *options].concat(), &[]);
            assert_eq!(ended.code, 0);
            printed += &ended.out;
        }
        let folder = Folder::new(what);
        let out = folder.0.join("new").join(what);
        let out = out.to_str().unwrap();
        assert_eq!(call(&["generate", what, "--out", out], &[]).code, 0);
        let mut length = 0;
        for entry in std::fs::read_dir(committed).unwrap() {
            let entry = entry.unwrap();
            let text = std::fs::read_to_string(entry.path()).unwrap();
            assert!(printed.contains(&text), "{:?}", entry.file_name());
            let written = std::fs::read_to_string(Path::new(out).join(entry.file_name()));
            assert_eq!(written.unwrap(), text);
            length += text.len() + "---\n".len();
        }
        assert_eq!(printed.len(), length, "each file once");
    }
}

#[test]
fn roles_are_printed_for_what_is_watched() {
    let kinds = |args: &[&str]| {
        let ended = call(&[&["generate", "rbac"], args].concat(), &[]);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""));
        let command = [&["garm-operator", "generate", "rbac"], args].concat();
        let header = format!(
            "---\n# Generated by `{}`; do not edit.\n",
            command.join(" ")
        );
        assert!(ended.out.starts_with(&header), "{}", ended.out);
        let count = |kind: &str| ended.out.matches(&format!("\nkind: {kind}\n")).count();
        ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"].map(count)
    };
    assert_eq!(kinds(&[]), [3, 1, 1, 1]);
    assert_eq!(kinds(&["--watch-namespace", "a,b"]), [2, 0, 3, 3]);
    let all = [
        "--namespace",
        "ours",
        "--watch-namespace",
        "a",
        "--self-managed",
    ];
    assert_eq!(kinds(&all), [3, 1, 3, 3]);
}

#[test]
fn version_is_printed() {
    let ended = call(&["version"], &[]);
    assert_eq!(
        (ended.code, ended.out),
        (0, format!("garm-operator {}\n", env!("CARGO_PKG_VERSION")))
    );
}

#[test]
fn validate_tells_findings_by_line_and_ends_with_a_code_for_each_case() {
    let folder = Folder::new("validate");
    let good = folder.file(
        "good.yaml",
        "apiVersion: garm-operator.mercedes-benz.com/v1beta1\nkind: Image\nmetadata: {name: ubuntu}\nspec: {tag: \"24.04\"}\n",
    );
    let doubtful = folder.file(
        "doubtful.json",
        "{\"apiVersion\": \"garm-operator.mercedes-benz.com/v1alpha1\", \"kind\": \"Image\", \"metadata\": {\"name\": \"a\"}, \"spec\": {\"tag\": \"b\"}}",
    );
    let wrong = folder.file(
        "wrong.yaml",
        "apiVersion: garm-operator.mercedes-benz.com/v1beta1\nkind: Image\nmetadata: {name: ubuntu}\nspec:\n  tga: x\n",
    );
    let broken = folder.file("broken.yml", "kind: [\n");
    let ended = call(&["validate", "-f", &good], &[]);
    assert_eq!((ended.code, ended.out.as_str()), (0, ""), "{}", ended.err);
    assert_eq!(call(&["validate", "-f", &doubtful], &[]).code, 0);
    assert_eq!(
        call(&["validate", "--strict", "-f", &doubtful], &[]).code,
        1
    );
    let ended = call(&["validate", "-f", &good, "-f", &wrong], &[]);
    assert_eq!(ended.code, 1);
    assert!(
        ended
            .out
            .contains(&format!("{wrong}:5: Image/ubuntu: spec.tga: ")),
        "{}",
        ended.out
    );
    let ended = call(&["validate", "-f", &wrong, "-f", &broken], &[]);
    assert_eq!(ended.code, 2);
    assert!(ended.out.contains("spec.tga"), "{}", ended.out);
    assert!(ended.err.contains("broken.yml"), "{}", ended.err);
    for unusable in [&["validate"][..], &["validate", "-f", "/absent"]] {
        assert_eq!(call(unusable, &[]).code, 2);
    }
    let ended = call(
        &["validate", "-o", "json", "-f", folder.0.to_str().unwrap()],
        &[],
    );
    let json: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((ended.code, &json["objects"]), (2, &3.into()));
    assert_eq!(json["errors"], 1);
    assert_eq!(json["warnings"], 2);
    let unreadable = json["unreadable"][0].clone();
    let file = unreadable["file"].as_str().unwrap();
    assert!(file.ends_with("broken.yml"), "{unreadable}");
    assert!(unreadable["message"].is_string(), "{unreadable}");
}

#[test]
fn validate_judges_a_file_once_however_often_it_is_given() {
    let folder = Folder::new("validate-once");
    let wrong = folder.file(
        "wrong.yaml",
        "apiVersion: garm-operator.mercedes-benz.com/v1beta1\nkind: Image\nmetadata: {name: ubuntu}\nspec:\n  tga: x\n",
    );
    let foreign = folder.file("values.yaml", "apiVersion: v1\nkind: Secret\n");
    let other_way = folder.0.join("link.yaml");
    std::os::unix::fs::symlink(&wrong, &other_way).unwrap();
    let whole = folder.0.to_str().unwrap();
    let args = ["validate", "-f", whole, "-f", &wrong, "-f", whole, "-f"];
    let ended = call(&[&args[..], &[other_way.to_str().unwrap()]].concat(), &[]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert_eq!(ended.out.matches("spec.tga").count(), 1, "{}", ended.out);
    assert!(!ended.out.contains("the same object"), "{}", ended.out);
    assert_eq!(ended.err.trim_end(), "1 object: 1 error, 0 warnings");
    // What is named has to hold something, wherever it was met before.
    let ended = call(&["validate", "-f", whole, "-f", &foreign], &[]);
    assert!(
        ended.out.contains("values.yaml:1: warning"),
        "{}",
        ended.out
    );
}

#[test]
fn an_unknown_way_with_duplicates_or_a_default_that_no_pool_may_have_refuses_to_start() {
    for (args, env, told) in [
        (
            &["--operator-duplicate-pools=ignore"][..],
            None,
            "operator.duplicatePools: ",
        ),
        (
            &[],
            Some(("OPERATOR_DUPLICATE_POOLS", "Deny")),
            "operator.duplicatePools: ",
        ),
        (
            &["--operator-pool-defaults-os-type=solaris"],
            None,
            "operator.poolDefaults.osType: ",
        ),
    ] {
        let ended = dry_run(args, &Vec::from_iter(env));
        assert_eq!(ended.code, 1, "{}", ended.err);
        assert!(ended.err.contains(told), "{}", ended.err);
    }
}
