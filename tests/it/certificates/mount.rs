//! A folder with a certificate, as kubelet mounts a Secret.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use garm_operator_ground::{Certificates, OperatorCommand};

/// The files are links through `..data`, which is a link to a folder that changes as a whole.
pub struct Mount {
    folder: PathBuf,
    day: usize,
}

impl Mount {
    /// Makes an empty folder.
    pub fn new(parent: &Path, name: &str) -> Result<Self> {
        let folder = parent.join(format!("mount-{name}"));
        fs::create_dir_all(&folder).context("make the folder")?;
        Ok(Self { folder, day: 0 })
    }

    /// Lets an operator serve webhooks with what is here.
    pub fn serve(&self, command: OperatorCommand) -> OperatorCommand {
        command
            .webhooks()
            .argument("--operator-webhook-cert-dir")
            .argument(&self.folder)
    }

    /// Swaps the certificate.
    pub fn show(&mut self, certificates: &Certificates) -> Result<()> {
        self.swap(&certificates.certificate_pem, &certificates.key_pem)
    }

    /// Swaps both files for these texts.
    pub fn swap(&mut self, certificate: &str, key: &str) -> Result<()> {
        self.day += 1;
        let day = format!("..day-{}", self.day);
        let path = self.folder.join(&day);
        fs::create_dir(&path)?;
        fs::write(path.join("tls.crt"), certificate)?;
        fs::write(path.join("tls.key"), key)?;
        let next = self.folder.join("..data_tmp");
        symlink(&day, &next)?;
        fs::rename(&next, self.folder.join("..data")).context("swap the link")?;
        if self.day == 1 {
            for name in ["tls.crt", "tls.key"] {
                symlink(format!("..data/{name}"), self.folder.join(name))?;
            }
        } else {
            fs::remove_dir_all(self.folder.join(format!("..day-{}", self.day - 1)))?;
        }
        Ok(())
    }
}
