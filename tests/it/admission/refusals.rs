//! What kubectl prints when an object is refused: word by word, since people and pipelines read it.

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;

use super::ensure_refused;
use crate::documents::entity;
use crate::hooks;
use crate::world::{World, pool};

const APPLY: &[&str] = &["apply", "-f", "-"];

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test("a_wrong_pool_is_refused_with_all_its_faults", pools);
    suite.test("a_change_that_garm_cannot_make_is_refused", changes);
    suite.test("a_wrong_object_of_the_other_kinds_is_refused", others);
    suite.test("an_image_in_use_is_not_deleted", images);
}

/// A Pool that is good but for these lines.
fn wrong(lines: &str) -> Vec<String> {
    let fields = format!("flavor: small\n  minIdleRunners: 0\n  maxRunners: 3\n  {lines}");
    vec![pool("bad", &fields)]
}

async fn pools(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::ALL[0]).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    for (lines, expected) in [
        (
            "extraSpecs: '{'",
            "The Pool \"bad\" is invalid: spec.extraSpecs: Invalid value: is not JSON: EOF while parsing an object at line 1 column 1",
        ),
        (
            "extraSpecs: '[]'",
            "The Pool \"bad\" is invalid: spec.extraSpecs: Invalid value: must be a JSON object, such as {\"disk\": 50}",
        ),
        (
            "extraSpecs: '3'",
            "The Pool \"bad\" is invalid: spec.extraSpecs: Invalid value: must be a JSON object, such as {\"disk\": 50}",
        ),
        (
            "extraSpecs: '\"x\"'",
            "The Pool \"bad\" is invalid: spec.extraSpecs: Invalid value: must be a JSON object, such as {\"disk\": 50}",
        ),
        (
            "runnerPrefix: my team",
            "The Pool \"bad\" is invalid: spec.runnerPrefix: Invalid value: \"my team\": must consist of letters, digits, '-', '_' and '.', and start with a letter or digit: runner names begin with it",
        ),
        (
            "priority: -1",
            "The Pool \"bad\" is invalid: spec.priority: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        ),
    ] {
        ensure_refused(&world, APPLY, &wrong(lines), expected).await?;
        ensure_refused(
            &world,
            &["apply", "--server-side", "-f", "-"],
            &wrong(lines),
            expected,
        )
        .await?;
        ensure_refused(
            &world,
            &["create", "--dry-run=server", "-f", "-"],
            &wrong(lines),
            expected,
        )
        .await?;
    }
    // All at once. What the schema forbids comes first, from the API server itself.
    let many = pool(
        "bad",
        "flavor: ''\n  minIdleRunners: 0\n  maxRunners: 8589934592\n  extraSpecs: 'null'",
    )
    .replace("runnerBootstrapTimeout: 20", "runnerBootstrapTimeout: 0")
    .replace("osType: linux", "osType: solaris")
    .replace("kind: Repository", "kind: Team")
    .replace("tags: [bad, linux]", "tags: [' ']");
    ensure_refused(
        &world,
        APPLY,
        &[many],
        "The Pool \"bad\" is invalid: \n\
         * spec.githubScopeRef.kind: Unsupported value: \"Team\": supported values: \"Enterprise\", \"Organization\", \"Repository\"\n\
         * spec.flavor: Required value\n\
         * spec.maxRunners: Invalid value: 8589934592: must be between 1 and 2147483647, inclusive\n\
         * spec.osType: Unsupported value: \"solaris\": supported values: \"linux\", \"windows\"\n\
         * spec.tags[0]: Required value\n\
         * spec.extraSpecs: Invalid value: must be a JSON object, such as {\"disk\": 50}\n\
         * spec.runnerBootstrapTimeout: Invalid value: 0: must be between 1 and 2147483647 minutes; 20 or more suit most images",
    )
    .await?;
    ensure!(
        world.list("pools").await?.is_empty(),
        "something was stored"
    );
    for (number, good) in [
        "extraSpecs: ''",
        "extraSpecs: '{}'",
        "extraSpecs: '{\"a\": 1}'",
        "enabled: true",
    ]
    .into_iter()
    .enumerate()
    {
        let document = &wrong(good)[0]
            .replace("  enabled: true\n", "")
            .replace("flavor: small", &format!("flavor: f{number}"));
        let name = format!("name: good-{number}}}");
        let document = document.replacen("name: bad}", &name, 1);
        world.apply(&[document]).await?;
    }
    world.finish(operator).await
}

async fn changes(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::ALL[1]).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    let moved = "kind: GitHubCredential\nmetadata: {name: moved}\nspec:\n  description: d\n  authType: pat\n  endpointRef: {kind: GitHubEndpoint, name: github.com}\n  secretRef: {name: github-token, key: token}\n";
    world.apply(&world.manifests()).await?;
    world.apply(&[moved.to_owned()]).await?;
    world.wait_ready("pool", "small").await?;
    let again = |kind: &str, from: &str, to: &str| -> Vec<String> {
        let documents = world.manifests();
        let changed = documents
            .iter()
            .find(|d| d.starts_with(kind) && d.contains(from));
        changed.map(|d| d.replace(from, to)).into_iter().collect()
    };
    let pools = again("kind: Pool", "providerName: fake", "providerName: other");
    let pools = [pools[0].replace(
        "kind: Repository, name: tools",
        "kind: Organization, name: acme",
    )];
    for (documents, expected) in [
        (
            pools.to_vec(),
            "The Pool \"small\" is invalid: \n\
             * spec.providerName: Invalid value: \"other\": cannot be changed from \"fake\"; delete the object and make it anew\n\
             * spec.githubScopeRef: Invalid value: \"acme\": cannot be changed from \"tools\"; delete the object and make it anew\n\
             * spec.githubScopeRef: Invalid value: \"Organization\": cannot be changed from \"Repository\"; delete the object and make it anew",
        ),
        (
            again("kind: Repository", "owner: acme", "owner: umbrella"),
            "The Repository \"tools\" is invalid: spec.owner: Invalid value: \"umbrella\": cannot be changed from \"acme\"; delete the object and make it anew",
        ),
        (
            again("kind: Repository", "name: pat}", "name: moved}"),
            "The Repository \"tools\" is invalid: spec.credentialsRef: Invalid value: \"moved\": these credentials are on endpoint \"github.com\" and this object is on \"ghes\"; use credentials of the same endpoint, or delete the object and make it anew",
        ),
        (
            again(
                "kind: GitHubCredential",
                "authType: pat",
                "authType: app\n  appId: 1\n  installationId: 2",
            ),
            "The GitHubCredential \"pat\" is invalid: spec.authType: Invalid value: \"app\": cannot be changed from \"pat\"; delete the object and make it anew",
        ),
    ] {
        ensure_refused(&world, APPLY, &documents, expected).await?;
    }
    // Adding what was missing is no change.
    let group = "apiGroup: garm-operator.mercedes-benz.com, kind: Repository";
    world
        .apply(&again("kind: Pool", group, "kind: Repository"))
        .await?;
    world.apply(&world.manifests()).await?;
    // `/scale` passes no webhook.
    ensure_refused(
        &world,
        &["scale", "pool", "small", "--replicas=9"],
        &[],
        "The Pool \"small\" is invalid: spec: Invalid value: minIdleRunners must be less than or equal to maxRunners",
    )
    .await?;
    world
        .kubectl(&["scale", "pool", "small", "--replicas=2"], "")
        .await?;
    world.finish(operator).await
}

async fn others(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::ALL[0]).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    let url = "must be an absolute http or https URL, such as https://github.example.com";
    for (document, expected) in [
        (
            entity("Organization", "acme", "''").replace("spec:", "spec:\n  poolBalancerType: random"),
            "The Organization \"acme\" is invalid: \n\
             * spec.poolBalancerType: Unsupported value: \"random\": supported values: \"pack\", \"roundrobin\"\n\
             * spec.credentialsRef.name: Required value"
                .to_owned(),
        ),
        (
            "kind: GitHubCredential\nmetadata: {name: app}\nspec: {description: d, authType: app, endpointRef: {kind: GitHubEndpoint, name: ghes}}".to_owned(),
            "The GitHubCredential \"app\" is invalid: \n\
             * spec.appId: Required value: a GitHub App has this number\n\
             * spec.installationId: Required value: a GitHub App has this number"
                .to_owned(),
        ),
        (
            "kind: GitHubEndpoint\nmetadata: {name: ghes}\nspec: {apiBaseUrl: ghes.example.com, baseUrl: 'ftp://ghes', uploadBaseUrl: 'https://ghes'}".to_owned(),
            format!(
                "The GitHubEndpoint \"ghes\" is invalid: \n\
                 * spec.apiBaseUrl: Invalid value: \"ghes.example.com\": {url}\n\
                 * spec.baseUrl: Invalid value: \"ftp://ghes\": {url}"
            ),
        ),
        (
            "kind: GarmServerConfig\nmetadata: {name: garm}\nspec: {webhookUrl: garm/webhooks}".to_owned(),
            format!("The GarmServerConfig \"garm\" is invalid: spec.webhookUrl: Invalid value: \"garm/webhooks\": {url}"),
        ),
    ] {
        ensure_refused(&world, APPLY, &[document], &expected).await?;
    }
    world.finish(operator).await
}

async fn images(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::ALL[1]).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    let mut documents = world.manifests();
    documents.retain(|d| !d.starts_with("kind: Pool") || d.contains("name: small}"));
    world.apply(&documents).await?;
    world.wait_ready("pool", "small").await?;
    let refusal = "Error from server (Forbidden): admission webhook \"validate.image.garm-operator.mercedes-benz.com\" denied the request: Image {namespace}/runner (tag \"runner:1\") is used by Pool small; delete them first, or let them use another Image";
    let delete = ["delete", "image", "runner"];
    ensure_refused(&world, &delete, &[], refusal).await?;
    // A terminating Pool keeps nothing, also while it waits for its runners.
    world
        .kubectl(&["delete", "pool", "small", "--wait=false"], "")
        .await?;
    world.kubectl(&delete, "").await?;
    world.wait_gone("pool", "small").await?;
    world.finish(operator).await
}
