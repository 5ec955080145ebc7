//! Step 4: renders the status. Pure.

use kube::ResourceExt;

use crate::api::v1beta1::{Address, Runner, RunnerStatus};

use super::observe::Observed;

/// Renders what GARM says of the instance; without one the last known facts stay.
pub fn status(object: &Runner, observed: &Observed) -> RunnerStatus {
    let previous = object.status.clone().unwrap_or_default();
    let Some(instance) = observed.instance.as_deref() else {
        return previous;
    };
    let text = |value: &String| (!value.is_empty()).then(|| value.clone());
    let pool_name = observed.pool.as_ref().map(|pool| pool.name_any());
    let addresses = match &instance.addresses {
        Some(addresses) => addresses
            .iter()
            .map(|address| Address {
                address: address.address.clone(),
                type_: address.kind.clone(),
            })
            .collect(),
        // Lists leave them out.
        None => previous.addresses,
    };
    RunnerStatus {
        id: text(&instance.id),
        provider_id: text(&instance.provider_id),
        agent_id: instance.agent_id,
        name: text(&instance.name),
        os_type: text(&instance.os_type),
        os_name: text(&instance.os_name),
        os_version: text(&instance.os_version),
        os_arch: text(&instance.os_arch),
        addresses,
        status: text(&instance.runner_status),
        instance_status: text(&instance.status),
        // The Pool's name where a Pool claims it; while that Pool goes away the name stays.
        pool_id: pool_name
            .or(previous.pool_id)
            .or_else(|| text(&instance.pool_id)),
        // GARM clears the fault with the next update, so the last one seen stays until the runner works.
        provider_fault: text(&instance.provider_fault).or_else(|| {
            previous
                .provider_fault
                .filter(|_| instance.status == "error")
        }),
        github_runner_group: instance.github_runner_group.clone(),
        conditions: Vec::new(),
    }
}
