//! GARM's configuration file.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::GarmOptions;
use crate::provider::FakeProvider;

/// What nobody else may know; GARM refuses anything that is not long and random.
#[derive(Debug)]
pub(super) struct Secrets {
    pub username: String,
    pub password: String,
    token_secret: String,
    /// Exactly 32 characters.
    passphrase: String,
}

impl Secrets {
    pub fn random() -> Self {
        let word = || uuid::Uuid::new_v4().simple().to_string();
        Self {
            username: "admin".to_owned(),
            password: format!("{}{}", word(), word()),
            token_secret: format!("{}{}", word(), word()),
            passphrase: word(),
        }
    }
}

/// Writes `config.toml` into GARM's directory.
pub(super) fn write(
    directory: &Path,
    port: u16,
    secrets: &Secrets,
    provider: &FakeProvider,
    options: &GarmOptions,
) -> Result<()> {
    // Paths below a temporary directory and hexadecimal words: nothing that would need quoting.
    let text = format!(
        r#"[default]
enable_webhook_management = {webhook_management}
[logging]
log_level = "{log_level}"
[jwt_auth]
secret = "{token_secret}"
time_to_live = "24h"
[apiserver]
bind = "127.0.0.1"
port = {port}
[database]
backend = "sqlite3"
passphrase = "{passphrase}"
[database.sqlite3]
db_file = "{database}"
[[provider]]
name = "fake"
provider_type = "external"
[provider.external]
provider_executable = "{executable}"
config_file = "{config_file}"
"#,
        webhook_management = options.webhook_management,
        log_level = options.log_level,
        token_secret = secrets.token_secret,
        passphrase = secrets.passphrase,
        database = directory.join("garm.db").display(),
        executable = provider.executable().display(),
        config_file = provider.config_file().display(),
    );
    let path = directory.join("config.toml");
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}

/// Changes what GARM signs its tokens with.
pub(super) fn renew_token_secret(directory: &Path) -> Result<()> {
    let path = directory.join("config.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let fresh = Secrets::random().token_secret;
    let renew = |line: &str| {
        if line.starts_with("secret = ") {
            format!("secret = \"{fresh}\"\n")
        } else {
            format!("{line}\n")
        }
    };
    let text: String = text.lines().map(renew).collect();
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}
