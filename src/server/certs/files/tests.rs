use std::{fs, os::unix::fs::symlink};

use super::*;
use crate::{runtime::pulse::Pulses, server::testing::Authority, telemetry::metrics::Format};

/// A folder as kubelet mounts a Secret: the files are links through `..data`, which is a link to a folder of the day.
struct Mount {
    folder: tempfile::TempDir,
    day: usize,
}

impl Mount {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            day: 0,
        }
    }

    fn swap(&mut self, chain: &str, key: &str) {
        let root = self.folder.path();
        self.day += 1;
        let day = format!("..day-{}", self.day);
        fs::create_dir(root.join(&day)).unwrap();
        fs::write(root.join(&day).join(CERTIFICATE), chain).unwrap();
        fs::write(root.join(&day).join(KEY), key).unwrap();
        symlink(&day, root.join("..new")).unwrap();
        fs::rename(root.join("..new"), root.join("..data")).unwrap();
        if self.day == 1 {
            for name in [CERTIFICATE, KEY] {
                symlink(format!("..data/{name}"), root.join(name)).unwrap();
            }
        }
    }
}

fn watched(mount: &Mount) -> (Files, Arc<ServerCertificate>, Arc<Metrics>) {
    let certificate = Arc::new(ServerCertificate::default());
    let metrics = Arc::new(Metrics::new());
    let files = Files::new(
        mount.folder.path(),
        Arc::clone(&certificate),
        Arc::clone(&metrics),
    );
    (files, certificate, metrics)
}

/// The texts that are shown, or nothing.
fn shown(files: &Files) -> Option<&str> {
    let (chain, _) = files.shown.as_ref()?;
    std::str::from_utf8(chain).ok()
}

#[tokio::test]
async fn says_what_is_missing_until_the_files_are_there() {
    let mut mount = Mount::new();
    let (mut files, certificate, metrics) = watched(&mount);
    files.look().await;
    let reason = certificate.check().unwrap_err();
    assert!(
        reason.contains("cannot read") && reason.contains("tls.crt"),
        "{reason}"
    );
    let (chain, key) = Authority::new().pems();
    mount.swap(&chain, &key);
    files.look().await;
    assert_eq!(certificate.check(), Ok(()));
    let text = metrics.encode(Format::Text).unwrap();
    for line in [
        "certwatcher_read_certificate_total 2",
        "certwatcher_read_certificate_errors_total 1",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
    let expiry = "garm_operator_webhook_certificate_expiration_timestamp_seconds ";
    let expiry = text.lines().find_map(|line| line.strip_prefix(expiry));
    assert!(expiry.unwrap().parse::<f64>().unwrap() > 1e9);
}

#[tokio::test]
async fn follows_the_link_and_keeps_the_last_good_pair() {
    let (first, second) = (Authority::new().pems(), Authority::new().pems());
    let mut mount = Mount::new();
    mount.swap(&first.0, &first.1);
    let (mut files, certificate, _) = watched(&mount);
    files.look().await;
    assert_eq!(shown(&files), Some(first.0.as_str()));
    let mut changes = certificate.changes();
    changes.mark_unchanged();
    for (chain, key) in [
        (&*second.0, "broken"),
        ("broken", &*second.1),
        (&*first.0, &*second.1),
        ("", ""),
    ] {
        mount.swap(chain, key);
        files.look().await;
        assert_eq!(shown(&files), Some(first.0.as_str()));
        assert!(files.trouble.is_some());
        assert!(!changes.has_changed().unwrap());
    }
    // Back to the files that are shown: nobody's connection ends for that.
    mount.swap(&first.0, &first.1);
    files.look().await;
    assert!(files.trouble.is_none() && !changes.has_changed().unwrap());
    mount.swap(&second.0, &second.1);
    files.look().await;
    assert_eq!(shown(&files), Some(second.0.as_str()));
    assert!(changes.has_changed().unwrap());
}

#[tokio::test]
async fn looks_again_until_it_is_stopped() {
    let mut mount = Mount::new();
    let (files, certificate, _) = watched(&mount);
    let stop = CancellationToken::new();
    let task = tokio::spawn(files.run(
        Duration::from_millis(10),
        stop.clone(),
        Pulses::default().begin("certificate", Duration::ZERO),
    ));
    let (chain, key) = Authority::new().pems();
    mount.swap(&chain, &key);
    certificate.changes().changed().await.unwrap();
    stop.cancel();
    task.await.unwrap();
}
