//! Route properties without effect in this configuration. They are reported at the start.

use crate::routes::Routes;
use crate::settings::Settings;

/// Optional features that routes may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    has_sessions: bool,
    has_sockjs_url: bool,
}

impl Parts {
    pub fn new(settings: &Settings) -> Self {
        Self {
            has_sessions: !settings.zmq_state.is_empty(),
            has_sockjs_url: !settings.sockjs_url.is_empty(),
        }
    }
}

/// Returns a message for each property without effect.
pub(crate) fn routes(routes: &Routes, parts: Parts) -> Vec<String> {
    let mut lines = Vec::new();
    for rule in routes.rules() {
        let mut report = |text: &str| lines.push(format!("routes, line {}: {text}", rule.line));
        if rule.session && !parts.has_sessions {
            report("session has no effect without zmq_state");
        }
        if rule.sockjs.is_some() && !parts.has_sockjs_url {
            report("sockjs has no page for iframes without sockjs_url");
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_say_what_they_ask_for_in_vain() {
        let text = "*,session,sockjs=/s a:1\nb,log_level=3 a:2";
        let (rules, problems) = Routes::read(text, |_| Ok(()));
        assert_eq!(problems, []);
        let count = |settings: &Settings| routes(&rules, Parts::new(settings)).len();
        assert_eq!(count(&Settings::default()), 2);
        let served = Settings {
            zmq_state: "ipc:///x".to_owned(),
            sockjs_url: "x".to_owned(),
            ..Settings::default()
        };
        assert_eq!(count(&served), 0);
    }
}
