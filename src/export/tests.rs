use serde_json::json;

use super::*;
use crate::api::meta::ADOPT_ID;
use crate::api::v1beta1::{GitHubEndpoint, Pool as PoolObject, Repository};
use crate::domain::endpoint::DesiredEndpoint;
use crate::domain::pool::{desired, marker};
use crate::garm::wire::{Controller, Credential, Endpoint, Entity, EntityKind, Pool};

const POOL: &str = "9a6b8c1e-5b7d-4f5e-8d3a-2f1e0c9b8a77";

fn endpoint(name: &str) -> Endpoint {
    Endpoint {
        name: name.to_owned(),
        api_base_url: "https://ghes/api".to_owned(),
        upload_base_url: "https://ghes/up".to_owned(),
        base_url: "https://ghes".to_owned(),
        ..Endpoint::default()
    }
}

fn credential(name: &str, auth_type: &str) -> Credential {
    Credential {
        name: name.to_owned(),
        description: "yes: no".to_owned(),
        endpoint: "GHES".to_owned(),
        auth_type: auth_type.to_owned(),
        ..Credential::default()
    }
}

fn repository(id: &str, owner: &str, name: &str) -> Entity {
    Entity {
        kind: EntityKind::Repository,
        id: id.to_owned(),
        owner: owner.to_owned(),
        name: name.to_owned(),
        endpoint: "GHES".to_owned(),
        credentials_name: "PAT".to_owned(),
        ..Entity::default()
    }
}

fn pool(id: &str, repository: &str) -> Pool {
    Pool {
        id: id.to_owned(),
        repo_id: repository.to_owned(),
        provider_name: "lxd".to_owned(),
        image: "ubuntu:24.04".to_owned(),
        flavor: "small".to_owned(),
        os_type: "linux".to_owned(),
        os_arch: "amd64".to_owned(),
        tags: vec!["self-hosted".to_owned(), "1.0".to_owned()],
        enabled: true,
        max_runners: 4,
        min_idle_runners: 1,
        runner_prefix: "team".to_owned(),
        runner_bootstrap_timeout: 20,
        github_runner_group: "Default".to_owned(),
        extra_specs: Some(json!({"disk": 50, "text": "a: b\n'c'"})),
        ..Pool::default()
    }
}

fn holdings() -> Holdings {
    Holdings {
        controller: Controller {
            metadata_url: "http://garm/metadata".to_owned(),
            ..Controller::default()
        },
        endpoints: vec![endpoint("GHES")],
        credentials: vec![credential("PAT", "pat")],
        entities: vec![repository("r1", "Acme", "Tools")],
        pools: vec![pool(POOL, "r1")],
    }
}

fn text<'a>(export: &'a Export, path: &str) -> &'a str {
    let found = export.documents.iter().find(|one| one.path == path);
    let paths: Vec<&str> = export
        .documents
        .iter()
        .map(|one| one.path.as_str())
        .collect();
    found
        .unwrap_or_else(|| panic!("no {path} in {paths:?}"))
        .text
        .as_str()
}

#[test]
fn what_is_exported_is_what_garm_holds() {
    let export = Export::of(&holdings(), Some("runners")).unwrap();
    assert!(export.is_whole(), "{:?}", export.notes());
    let object: PoolObject =
        serde_saphyr::from_str(text(&export, "pools/tools-small-9a6b8c1e.yaml")).unwrap();
    let annotations = object.metadata.annotations.unwrap();
    assert_eq!(annotations[ADOPT_ID], POOL);
    assert_eq!(object.metadata.namespace.as_deref(), Some("runners"));
    let image =
        serde_saphyr::from_str::<serde_json::Value>(text(&export, "images/ubuntu-24-04.yaml"));
    assert_eq!(image.unwrap()["spec"]["tag"], "ubuntu:24.04");
    assert_eq!(object.spec.image_name, "ubuntu-24-04");
    let wanted = desired(&object.spec, "ubuntu:24.04").unwrap();
    let update = wanted.diff(&holdings().pools[0]);
    assert!(update.is_empty(), "{:?}", update.fields());

    let object: GitHubEndpoint =
        serde_saphyr::from_str(text(&export, "endpoints/ghes.yaml")).unwrap();
    let wanted = DesiredEndpoint {
        name: "ghes".to_owned(),
        description: object.spec.description.unwrap_or_default(),
        api_base_url: object.spec.api_base_url.unwrap_or_default(),
        upload_base_url: object.spec.upload_base_url.unwrap_or_default(),
        base_url: object.spec.base_url.unwrap_or_default(),
        ca_bundle: None,
    };
    assert!(wanted.diff(&holdings().endpoints[0]).is_empty());
    let object: Repository =
        serde_saphyr::from_str(text(&export, "repositories/tools.yaml")).unwrap();
    assert_eq!(
        (object.spec.owner.as_str(), object.metadata.name.as_deref()),
        ("Acme", Some("tools"))
    );
    assert_eq!(object.spec.credentials_ref.name, "pat");
}

#[test]
fn secrets_are_empty_and_stay_as_they_were_filled_in() {
    let export = Export::of(&holdings(), None).unwrap();
    for (path, key) in [
        ("secrets/pat-token.yaml", "token"),
        ("secrets/repository-tools-webhook.yaml", "webhookSecret"),
    ] {
        let secret: serde_json::Value = serde_saphyr::from_str(text(&export, path)).unwrap();
        assert_eq!(secret["stringData"], json!({key: ""}));
        assert!(!text(&export, files::KUSTOMIZATION).contains(path));
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(write(folder.path(), &export).unwrap().is_empty());
    let filled = folder.path().join("secrets/pat-token.yaml");
    let listed = folder.path().join("pools/tools-small-9a6b8c1e.yaml");
    std::fs::write(&filled, "mine").unwrap();
    std::fs::write(&listed, "longer than anything".repeat(1000)).unwrap();
    let kept = write(folder.path(), &export).unwrap();
    assert!(kept.contains(&"secrets/pat-token.yaml".to_owned()));
    assert_eq!(std::fs::read_to_string(&filled).unwrap(), "mine");
    assert_eq!(
        std::fs::read_to_string(&listed).unwrap(),
        text(&export, "pools/tools-small-9a6b8c1e.yaml")
    );
}

#[test]
fn a_ca_bundle_comes_with_its_endpoint() {
    let mut holdings = holdings();
    let pem = include_str!("../../tests/data/ca-one.pem");
    holdings.endpoints[0].ca_cert_bundle = pem.as_bytes().to_vec();
    let export = Export::of(&holdings, None).unwrap();
    let secret: serde_json::Value =
        serde_saphyr::from_str(text(&export, "endpoints/ghes-ca.yaml")).unwrap();
    assert_eq!(secret["stringData"]["caCertBundle"], pem);
    let endpoint: GitHubEndpoint =
        serde_saphyr::from_str(text(&export, "endpoints/ghes.yaml")).unwrap();
    assert_eq!(
        endpoint.spec.ca_cert_bundle_secret_ref.unwrap().name,
        "ghes-ca"
    );
    assert!(text(&export, files::KUSTOMIZATION).contains("  - endpoints/ghes-ca.yaml\n"));
}

#[test]
fn what_cannot_be_described_is_told() {
    let mut holdings = holdings();
    holdings.endpoints.push(endpoint("my_ghes"));
    let mut elsewhere = credential("elsewhere", "pat");
    elsewhere.endpoint = "my_ghes".to_owned();
    holdings.credentials.push(elsewhere);
    holdings.entities.push(repository("r2", "Other", "tools"));
    let mut being_made = pool("p2", "r1");
    being_made.runner_prefix = marker("01234567-89ab-cdef-0123-456789abcdef");
    let mut odd = pool("p3", "r1");
    odd.extra_specs = Some(json!([1]));
    holdings.pools.extend([being_made, odd, pool("p4", "r2")]);
    let export = Export::of(&holdings, None).unwrap();
    let expected = [
        "the endpoint \"my_ghes\"",
        "the credentials \"elsewhere\"",
        "the repository Other/tools",
        "the pool p2",
        "the pool p3",
        "the pool p4",
    ];
    assert_eq!(
        export.left_out.len(),
        expected.len(),
        "{:?}",
        export.left_out
    );
    for (found, expected) in export.left_out.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}");
    }
    assert!(!export.is_whole());
    assert!(!export.to_stream().contains("p2"));
}

#[test]
fn what_admission_will_refuse_is_told() {
    let mut holdings = holdings();
    holdings.credentials[0].auth_type = "app".to_owned();
    holdings
        .pools
        .push(pool("8a6b8c1e-5b7d-4f5e-8d3a-2f1e0c9b8a77", "r1"));
    let export = Export::of(&holdings, None).unwrap();
    assert!(!export.is_whole());
    let notes = export.notes().join("\n");
    assert!(notes.contains("spec.appId: Required value"), "{notes}");
    assert!(
        notes.contains("pools/") && notes.contains("has the same"),
        "{notes}"
    );
    assert!(
        notes.contains("extraSpecs are written as GARM holds them"),
        "{notes}"
    );
    assert!(!notes.contains("disk"), "{notes}");
}

#[test]
fn equal_holdings_give_equal_files() {
    let all = |holdings: &Holdings| Export::of(holdings, Some("ns")).unwrap().documents;
    assert_eq!(all(&holdings()), all(&holdings()));
    let stream = Export::of(&holdings(), None).unwrap().to_stream();
    let (documents, unreadable) = crate::validate::document::read("-", &stream);
    assert_eq!((documents.len(), unreadable.len()), (8, 0));
}
