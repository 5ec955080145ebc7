//! Runs tests that share one ground, in the manner of `cargo test`.
//!
//! ```no_run
//! use garm_operator_ground::harness::Suite;
//!
//! fn main() -> std::process::ExitCode {
//!     garm_operator_ground::entry();
//!     let mut suite = Suite::new();
//!     suite.test("namespaces_can_be_made", async |ground| {
//!         ground.control_plane().await?.create_namespace("a").await?;
//!         Ok(())
//!     });
//!     suite.test_on_each_garm("answers", async |ground, version| {
//!         let garm = ground.garm(version).await?;
//!         garm.api().get("/pools").await?;
//!         Ok(())
//!     });
//!     suite.run()
//! }
//! ```

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result, anyhow};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::{
    runtime::{Handle, Runtime},
    sync::OnceCell,
    time::timeout,
};

use crate::{ground::Ground, servers::GarmVersion};

/// How many tests run at once unless the command line says otherwise: they wait more than they compute.
const THREADS: usize = 6;

/// How long a test may take unless the suite says otherwise.
const LIMIT: Duration = Duration::from_secs(300);

/// The ground, or why there is none: what failed once (a build takes minutes) is not tried again by each test.
type SharedGround = OnceCell<Result<Ground, String>>;

/// Tests that share a ground; it is started by the first that runs.
pub struct Suite {
    runtime: Runtime,
    ground: Arc<SharedGround>,
    trials: Vec<Trial>,
    limit: Duration,
}

impl Suite {
    /// An empty suite.
    #[expect(
        clippy::expect_used,
        clippy::new_without_default,
        reason = "without a runtime there is nothing to run tests on"
    )]
    pub fn new() -> Self {
        let runtime = Runtime::new().expect("start a tokio runtime");
        Self {
            runtime,
            ground: Arc::default(),
            trials: Vec::new(),
            limit: LIMIT,
        }
    }

    /// Lets tests that are added from here on take this long.
    pub fn limit(&mut self, limit: Duration) -> &mut Self {
        self.limit = limit;
        self
    }

    /// Adds a test.
    pub fn test<F>(&mut self, name: &str, body: F) -> &mut Self
    where
        F: AsyncFnOnce(&Ground) -> Result<()> + Send + 'static,
    {
        let (handle, ground, limit) = (
            self.runtime.handle().clone(),
            Arc::clone(&self.ground),
            self.limit,
        );
        self.trials.push(Trial::test(name, move || {
            run_one(&handle, &ground, limit, body)
        }));
        self
    }

    /// Adds a test for each GARM version, named with the version at its end.
    pub fn test_on_each_garm<F>(&mut self, name: &str, body: F) -> &mut Self
    where
        F: AsyncFnOnce(&Ground, GarmVersion) -> Result<()> + Clone + Send + 'static,
    {
        let bodies = std::iter::repeat(body);
        for (version, body) in GarmVersion::ALL.into_iter().zip(bodies) {
            self.test(&format!("{name}::{version}"), async move |ground| {
                body(ground, version).await
            });
        }
        self
    }

    /// Runs the tests that the command line selects, and ends the ground.
    pub fn run(self) -> ExitCode {
        let mut arguments = Arguments::from_args();
        arguments.test_threads = arguments.test_threads.or(Some(THREADS));
        let conclusion = libtest_mimic::run(&arguments, self.trials);
        if let Some(Ok(ground)) = Arc::into_inner(self.ground).and_then(OnceCell::into_inner) {
            // The guard ends what this does not.
            let _ = self.runtime.block_on(ground.shutdown());
        }
        conclusion.exit_code()
    }
}

fn run_one<F>(
    handle: &Handle,
    ground: &SharedGround,
    limit: Duration,
    body: F,
) -> Result<(), Failed>
where
    F: AsyncFnOnce(&Ground) -> Result<()>,
{
    let result = handle.block_on(async {
        let started = ground
            .get_or_init(async || Ground::start().await.map_err(|error| format!("{error:#}")))
            .await;
        let ground = started.as_ref().map_err(|reason| anyhow!("{reason}"))?;
        timeout(limit, body(ground))
            .await
            .with_context(|| format!("the test did not end within {limit:?}"))?
    });
    result.map_err(|error| Failed::from(format!("{error:#}")))
}
