//! Names of the Kubernetes Events we send: reasons, and the component that reports for each kind.

/// A GARM object is about to be created.
pub const CREATING: &str = "Creating";
/// A GARM object was changed.
pub const UPDATING: &str = "Updating";
/// Deletion began.
pub const DELETING: &str = "Deleting";
/// Idle runners are removed.
pub const SCALING: &str = "Scaling";
/// Something failed that a user or admin has to know of.
pub const ERROR: &str = "Error";
/// Something worth telling was done.
pub const INFO: &str = "Info";

/// Reporting components, one per kind.
pub mod reporter {
    /// Reports for Enterprises.
    pub const ENTERPRISE: &str = "enterprise-controller";
    /// Reports for Organizations.
    pub const ORGANIZATION: &str = "organization-controller";
    /// Reports for Repositories.
    pub const REPOSITORY: &str = "repository-controller";
    /// Reports for Pools.
    pub const POOL: &str = "pool-controller";
    /// Reports for Runners.
    pub const RUNNER: &str = "runner-controller";
    /// Reports for GarmServerConfigs.
    pub const GARM_SERVER_CONFIG: &str = "garm-server-config-controller";
    /// Reports for GitHubEndpoints.
    pub const GITHUB_ENDPOINT: &str = "github-endpoint-controller";
    /// Reports for GitHubCredentials.
    pub const GITHUB_CREDENTIAL: &str = "github-credentials-controller";
}
