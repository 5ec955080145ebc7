//! The watches, which every replica keeps: webhooks decide by them, and a standby that takes over need not load anything.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::work::Current;
use crate::config::Config;
use crate::controllers::{Hubs, wiring};
use crate::runtime::hub::{Form, Hub, Options};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::state;

/// Starts one watch per kind.
pub(super) fn start(
    kube: &kube::Client,
    config: &Config,
    registry: &Arc<Metrics>,
    token: &CancellationToken,
) -> Hubs {
    let namespaces = &config.operator.watch_namespaces;
    let options = |page_size, capacity, form| Options {
        page_size,
        capacity,
        form,
        watch_timeout: config.timings.watch,
        metrics: Some(Arc::clone(registry)),
    };
    // Each place in a channel takes its memory from the start on; a follower is never behind by more than a page and what comes meanwhile.
    let few = options(500, 512, Form::Decoded);
    Hubs {
        endpoints: Hub::start_with(kube, namespaces, &few, wiring::index_endpoint, token),
        credentials: Hub::start_with(kube, namespaces, &few, wiring::index_credential, token),
        repositories: Hub::start_with(kube, namespaces, &few, wiring::index_scope, token),
        organizations: Hub::start_with(kube, namespaces, &few, wiring::index_scope, token),
        enterprises: Hub::start_with(kube, namespaces, &few, wiring::index_scope, token),
        images: Hub::start_with(kube, namespaces, &few, wiring::index_image, token),
        pools: Hub::start_with(
            kube,
            namespaces,
            &options(500, 2_048, Form::Decoded),
            wiring::index_pool,
            token,
        ),
        runners: Hub::start_with(
            kube,
            namespaces,
            &options(50, 4_096, Form::Text),
            wiring::index_runner,
            token,
        ),
        server_configs: Hub::start_with(kube, namespaces, &few, |_| Vec::new(), token),
        secrets: Hub::start_with(
            kube,
            namespaces,
            &options(10, 1_024, Form::Text),
            |_| Vec::new(),
            token,
        ),
    }
}

/// Shows the state of the objects as metrics, on the replica that works: who adds up over all replicas counts each object once.
pub(super) fn show_state(registry: &Metrics, hubs: Hubs, current: Current) {
    registry.on_scrape(move |encoder| {
        if current.get().is_none() {
            return Ok(());
        }
        state::write(encoder, &hubs.enterprises.all())?;
        state::write(encoder, &hubs.organizations.all())?;
        state::write(encoder, &hubs.repositories.all())?;
        state::write(encoder, &hubs.pools.all())?;
        state::write(encoder, &hubs.images.all())?;
        state::write(encoder, &hubs.server_configs.all())?;
        state::write(encoder, &hubs.endpoints.all())?;
        state::write(encoder, &hubs.credentials.all())
    });
}
