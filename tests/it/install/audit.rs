//! What an account asked the API server for, held against what it may.

use serde_json::Value;

use super::overlay::Granted;

/// A request, as rules name it.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Asked {
    verb: String,
    group: String,
    /// With the subresource, as in `pools/status`.
    resource: String,
    namespace: String,
    name: String,
    code: i64,
    message: String,
}

/// Reads an audit log; what is no resource, such as discovery, everybody may ask for.
pub fn asked(log: &[Value]) -> Vec<Asked> {
    let mut all: Vec<Asked> = log.iter().filter_map(read).collect();
    all.sort();
    all.dedup();
    all
}

fn read(event: &Value) -> Option<Asked> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &event["objectRef"];
    let resource = object["resource"].as_str()?;
    let status = &event["responseStatus"];
    Some(Asked {
        verb: text(&event["verb"]),
        group: text(&object["apiGroup"]),
        resource: match object["subresource"].as_str() {
            Some(below) => format!("{resource}/{below}"),
            None => resource.to_owned(),
        },
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        code: status["code"].as_i64().unwrap_or_default(),
        message: text(&status["message"]),
    })
}

/// Lists what was forbidden; creating something in a namespace that is going away is no matter of rights.
pub fn refused(asked: &[Asked]) -> Vec<&Asked> {
    let is_ending = |one: &Asked| one.verb == "create" && one.message.contains("terminated");
    let forbidden = asked.iter().filter(|one| one.code == 403);
    forbidden.filter(|one| !is_ending(one)).collect()
}

/// Lists the verbs that were granted and never used, by role, resource and, where a rule names objects, name.
pub fn idle(granted: &[Granted], asked: &[Asked]) -> Vec<String> {
    let mut all = Vec::new();
    for Granted {
        namespace,
        role,
        rule,
    } in granted
    {
        let groups = rule.api_groups.iter().flatten();
        let names = match &rule.resource_names {
            Some(names) => names.iter().map(|name| Some(name.as_str())).collect(),
            None => vec![None],
        };
        for group in groups {
            for resource in rule.resources.iter().flatten() {
                for (verb, name) in rule
                    .verbs
                    .iter()
                    .flat_map(|verb| names.iter().map(move |name| (verb, *name)))
                {
                    let is_used = asked.iter().any(|one| {
                        one.verb == *verb
                            && one.group == *group
                            && one.resource == *resource
                            && name.is_none_or(|name| one.name == name)
                            && namespace
                                .as_ref()
                                .is_none_or(|place| one.namespace == *place)
                            && one.code != 403
                    });
                    if !is_used {
                        let place = namespace.as_deref().unwrap_or("everywhere");
                        let name = name.unwrap_or("any");
                        all.push(format!("{role} ({place}): {verb} {resource} {name}"));
                    }
                }
            }
        }
    }
    all
}
