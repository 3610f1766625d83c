//! The key by which connections are reused for requests, and the name that a certificate has to contain.

use std::rc::Rc;

use crate::client::request::without_port;
use crate::client::source::Source;
use crate::routes::Target;

/// Key of interchangeable connections: the target and the name that its certificate was checked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    generation: u32,
    rule: usize,
    target: usize,
    name: Option<Rc<str>>,
}

impl Place {
    /// Returns an arbitrary place.
    #[cfg(test)]
    pub(crate) fn any() -> Self {
        Self {
            generation: 0,
            rule: 0,
            target: 0,
            name: None,
        }
    }

    /// Returns the place of the connection for this request.
    pub(crate) fn of(source: &Source) -> Self {
        let target = source.target();
        Self {
            generation: source.table.generation,
            rule: source.rule,
            target: source.target,
            name: target
                .filter(|target| target.is_tls && !target.trust_connect_host)
                .map(|target| Rc::from(certified_name(source, target))),
        }
    }
}

/// Returns the host name that the route or the target sets for a target.
pub(crate) fn own_name<'a>(source: &'a Source, target: &'a Target) -> Option<&'a str> {
    let rule = source.rule();
    let of_rule = || rule.and_then(|it| it.as_host.as_deref());
    target.host.as_deref().or_else(of_rule)
}

/// Returns the name that a target's certificate has to contain: the host that the target receives.
pub(crate) fn certified_name(source: &Source, target: &Target) -> String {
    let name = match own_name(source, target) {
        Some(host) => without_port(host).to_owned(),
        None => source.request.host_name(),
    };
    // IPv6 addresses have brackets only in URIs.
    name.trim_matches(['[', ']']).to_owned()
}
