use proptest::prelude::*;
use secrecy::ExposeSecret as _;

use super::{
    settings::{Kind, SETTINGS},
    *,
};

/// Flags by path, on top of those that are required.
fn flags(more: &[(&'static str, &str)]) -> Sources {
    let required = [
        ("garm.server", "http://garm:9997"),
        ("garm.username", "admin"),
        ("garm.password", "hunter2"),
    ];
    let flags = required
        .iter()
        .chain(more)
        .map(|(key, value)| (*key, (*value).to_owned()))
        .collect();
    Sources {
        flags,
        ..Sources::default()
    }
}

fn problems(sources: &Sources) -> Vec<String> {
    match load(sources) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn the_defaults_are_those_of_the_go_operator() {
    let config = load(&flags(&[])).unwrap().config;
    let on = |port| Listen::On {
        host: String::new(),
        port,
    };
    let expected = OperatorConfig {
        metrics_bind_address: on(8080),
        health_probe_bind_address: on(8081),
        state_metrics: false,
        stuck_after: Duration::from_secs(480),
        leader_election: false,
        lease: LeaseTimes::default(),
        sync_period: Duration::from_secs(300),
        watch_namespaces: Vec::new(),
        sync_runners_interval: Duration::from_secs(5),
        min_idle_runners_age: Duration::from_secs(7200),
        failed_runner_ttl: None,
        runner_concurrency: 50,
        repository_concurrency: 10,
        organization_concurrency: 5,
        enterprise_concurrency: 1,
        pool_concurrency: 10,
        runner_reconciliation: false,
        webhook: WebhookConfig {
            bind_address: on(9443),
            certs: WebhookCerts::Files,
            cert_dir: "/tmp/k8s-webhook-server/serving-certs".into(),
            name_prefix: "garm-operator".to_owned(),
            ca_lifetime: Duration::from_secs(365 * 86_400),
            cert_lifetime: Duration::from_secs(7 * 86_400),
            ca_step: Duration::from_secs(600),
        },
        duplicate_pools: DuplicatePools::Deny,
        pool_defaults: PoolDefaults::default(),
        log_verbosity_level: 0,
        log_format: LogFormat::Text,
    };
    assert_eq!(config.operator, expected);
    assert!(config.garm.init);
    assert_eq!(config.garm.email, "garm-operator@localhost");
    assert_eq!(config.garm.password.expose_secret(), "hunter2");
    assert_eq!(config.timings, Timings::default());
}

#[test]
fn times_of_the_operator_are_in_the_timings() {
    let sources = flags(&[
        ("operator.syncPeriod", "30s"),
        ("operator.syncRunnersInterval", "1m"),
        ("operator.minIdleRunnersAge", "0"),
    ]);
    let config = load(&sources).unwrap().config;
    let timings = config.timings;
    assert_eq!(timings.resync, Duration::from_secs(30));
    assert_eq!(timings.garm.runners_interval, Duration::from_secs(60));
    assert_eq!(config.operator.min_idle_runners_age, Duration::ZERO);
}

#[test]
fn a_leader_gives_up_before_others_take_over_and_tries_more_than_once() {
    let lease = |[duration, renew, retry]: [&str; 3]| {
        flags(&[
            ("operator.leaseDuration", duration),
            ("operator.leaseRenewDeadline", renew),
            ("operator.leaseRetryPeriod", retry),
        ])
    };
    let fine = load(&lease(["3s", "2s", "1s"])).unwrap().config;
    assert_eq!(fine.timings.lease.duration, Duration::from_secs(3));
    assert_eq!(fine.timings.lease, fine.operator.lease);
    assert_eq!(
        fine.timings.scaled(0.5).lease.retry,
        Duration::from_millis(500)
    );
    for (texts, problem) in [
        (
            ["10s", "10s", "1s"],
            "operator.leaseRenewDeadline: has to be shorter than operator.leaseDuration, which is 10s",
        ),
        (
            ["15s", "10s", "5001ms"],
            "operator.leaseRetryPeriod: has to be at most half of operator.leaseRenewDeadline, which is 10s",
        ),
        (
            ["999ms", "500ms", "100ms"],
            "operator.leaseDuration: \"999ms\" (flag --operator-lease-duration) is out of range; it must be from 1s to 1h0m0s",
        ),
    ] {
        assert_eq!(problems(&lease(texts))[0], problem);
    }
}

#[test]
fn a_quiet_watch_is_renewed_twice_before_it_counts_as_stuck() {
    for (text, watch) in [("8m", 180), ("24h", 180), ("2m", 45)] {
        let loaded = load(&flags(&[("operator.stuckAfter", text)])).unwrap();
        let timings = loaded.config.timings;
        assert_eq!(timings.watch, Duration::from_secs(watch), "{text}");
        assert!(timings.watch * 2 < timings.stuck, "{text}");
    }
    assert!(!problems(&flags(&[("operator.stuckAfter", "1m")])).is_empty());
}

#[test]
fn names_everything_that_is_required_at_once() {
    let found = problems(&Sources::default());
    assert_eq!(
        found,
        [
            "garm.server: required; set --garm-server, GARM_SERVER or garm.server in the config file",
            "garm.username: required; set --garm-username, GARM_USERNAME or garm.username in the config file",
            "garm.password: required; set --garm-password, GARM_PASSWORD or garm.password in the config file",
        ]
    );
}

#[test]
fn names_every_wrong_value_with_its_source() {
    let mut sources = flags(&[
        ("operator.poolConcurrency", "0"),
        ("operator.logVerbosityLevel", "6"),
        ("operator.leaderElection", "yes"),
    ]);
    sources
        .env
        .push(("OPERATOR_SYNC_PERIOD".into(), "0s".into()));
    sources.file = Some("operator:\n  syncRunnersInterval: 6m\n  minIdleRunnersAge: 300\n  metricsBindAddress: :0\n".to_owned());
    assert_eq!(
        problems(&sources),
        [
            "operator.metricsBindAddress: \":0\" (file) has port 0; write a port from 1 to 65535, or 0 alone to switch it off",
            "operator.leaderElection: \"yes\" (flag --operator-leader-election) is neither true nor false",
            "operator.syncPeriod: \"0s\" (env OPERATOR_SYNC_PERIOD) must be longer than 0",
            "operator.syncRunnersInterval: \"6m\" (file) is out of range; it must be from 5s to 5m0s",
            "operator.minIdleRunnersAge: \"300\" (file) has no unit; write for example 5m or 300s",
            "operator.poolConcurrency: \"0\" (flag --operator-pool-concurrency) is too small; it must be at least 1",
            "operator.logVerbosityLevel: \"6\" (flag --operator-log-verbosity-level) is out of range; it must be from 0 to 5",
        ]
    );
}

#[test]
fn the_runner_interval_is_5s_to_5m_inclusive() {
    for (text, good) in [
        ("5s", true),
        ("5m", true),
        ("4.999s", false),
        ("5m1ns", false),
        ("1s", false),
    ] {
        assert_eq!(
            problems(&flags(&[("operator.syncRunnersInterval", text)])).is_empty(),
            good,
            "{text}"
        );
    }
}

#[test]
fn exit_code_tells_wrong_values_from_what_is_not_known() {
    let code = |sources: &Sources| load(sources).unwrap_err().exit_code();
    assert_eq!(code(&Sources::default()), 1);
    let file = |text: &str| Sources {
        file: Some(text.to_owned()),
        ..flags(&[])
    };
    assert_eq!(code(&file("operator:\n  poolConcurrency: 0\n")), 1);
    assert_eq!(code(&file("operator:\n  unknown: 0\n")), 2);
    assert_eq!(code(&file("operator:\n  syncPeriod: 300000000000\n")), 2);
}

#[test]
fn takes_urls_of_garm_and_says_what_is_wrong_with_others() {
    for good in [
        "http://garm:9997",
        "https://garm.example/base/",
        "http://[::1]:9997/",
    ] {
        assert_eq!(
            problems(&flags(&[("garm.server", good)])),
            Vec::<String>::new(),
            "{good}"
        );
    }
    for bad in [
        "garm",
        "garm:9997",
        "ftp://garm",
        "http://",
        "http://user:hunter2@garm",
        "http://garm?x=hunter2",
        "http://garm#x",
        "http://ga rm",
    ] {
        let found = problems(&flags(&[("garm.server", bad)]));
        assert_eq!(found.len(), 1, "{bad}");
        assert!(!found[0].contains("hunter2"), "{found:?}");
    }
}

#[test]
fn a_fresh_garm_needs_an_address() {
    assert_eq!(problems(&flags(&[("garm.email", "")])).len(), 1);
    assert!(problems(&flags(&[("garm.email", ""), ("garm.init", "false")])).is_empty());
}

#[test]
fn the_password_is_either_given_or_in_a_file() {
    let mut sources = flags(&[("garm.passwordFile", "/nowhere")]);
    assert_eq!(
        problems(&sources),
        ["garm.password: set, and garm.passwordFile too; keep one"]
    );
    sources.flags.insert("garm.password", String::new());
    let config = load(&sources).unwrap().config;
    assert_eq!(
        config.garm.password_file.as_deref(),
        Some(std::path::Path::new("/nowhere"))
    );
    let problems = config.check_files().unwrap_err().to_string();
    assert!(
        problems.contains("garm.passwordFile: cannot read /nowhere"),
        "{problems}"
    );
}

#[test]
fn watches_one_namespace_several_or_all() {
    let names = |text| {
        load(&flags(&[("operator.watchNamespace", text)]))
            .map(|loaded| loaded.config.operator.watch_namespaces)
    };
    assert_eq!(names("").unwrap(), Vec::<String>::new());
    assert_eq!(names("a").unwrap(), ["a"]);
    assert_eq!(names("a, b-1,a").unwrap(), ["a", "b-1"]);
    for bad in [",", "a,", "A", "a_b", "-a", "a.b"] {
        assert!(names(bad).is_err(), "{bad}");
    }
}

#[test]
fn reads_yes_and_no_as_go_does() {
    for (text, value) in [
        ("1", true),
        ("t", true),
        ("T", true),
        ("TRUE", true),
        ("True", true),
        ("0", false),
        ("F", false),
        ("False", false),
    ] {
        let config = load(&flags(&[("operator.leaderElection", text)]))
            .unwrap()
            .config;
        assert_eq!(config.operator.leader_election, value, "{text}");
    }
}

#[test]
fn a_step_of_a_ca_change_fits_into_the_life_of_a_ca() {
    let step = |life, step| {
        problems(&flags(&[
            ("operator.webhookCaLifetime", life),
            ("operator.webhookCaStep", step),
        ]))
    };
    assert!(step("40m", "10m").is_empty());
    let refused = step("39m", "10m");
    assert!(
        refused.len() == 1 && refused[0].contains("more than a quarter"),
        "{refused:?}"
    );
}

#[test]
fn an_empty_variable_is_no_or_zero_as_in_go() {
    let mut sources = flags(&[]);
    sources.env.push(("GARM_INIT".into(), String::new().into()));
    sources
        .env
        .push(("OPERATOR_LOG_VERBOSITY_LEVEL".into(), String::new().into()));
    let config = load(&sources).unwrap().config;
    assert!(!config.garm.init);
    assert_eq!(config.operator.log_verbosity_level, 0);
    assert_eq!(problems(&flags(&[("garm.init", "")])).len(), 1);
}

#[test]
fn the_printed_configuration_gives_itself_again() {
    let mut sources = flags(&[
        ("operator.syncPeriod", "300s"),
        ("operator.leaderElection", "T"),
        ("operator.watchNamespace", "a,b"),
    ]);
    sources.env.push(("GARM_EMAIL".into(), "a: b # c".into()));
    let loaded = load(&sources).unwrap();
    let yaml = loaded.to_yaml();
    assert!(!yaml.contains("hunter2"));
    for line in [
        "  server: http://garm:9997 # flag --garm-server",
        "  password: \"***\" # flag --garm-password",
        "  email: \"a: b # c\" # env GARM_EMAIL",
        "  syncPeriod: 5m0s # flag --operator-sync-period",
        "  leaderElection: true # flag --operator-leader-election",
        "  metricsBindAddress: \":8080\" # default",
    ] {
        assert!(yaml.lines().any(|known| known == line), "{line}\n{yaml}");
    }
    let again = load(&Sources {
        file: Some(yaml),
        ..Sources::default()
    })
    .unwrap();
    assert_eq!(again.config.operator, loaded.config.operator);
    assert_eq!(again.config.garm.email, loaded.config.garm.email);
    assert_eq!(again.config.garm.server, loaded.config.garm.server);
}

#[test]
fn debug_output_shows_no_password() {
    let loaded = load(&flags(&[])).unwrap();
    assert!(!format!("{loaded:?}").contains("hunter2"));
}

proptest! {
    #[test]
    fn any_text_in_any_setting_gives_an_answer(index in 0..SETTINGS.len(), text in "\\PC{0,40}") {
        let setting = &SETTINGS[index];
        let sources = flags(&[(setting.key, text.as_str())]);
        if let Ok(loaded) = load(&sources) {
            loaded.to_yaml();
        } else if setting.kind == Kind::Secret {
            prop_assert!(text.is_empty());
        }
    }
}
