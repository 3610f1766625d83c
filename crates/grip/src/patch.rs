//! JSON Patch (RFC 6902). A publisher uses it to change the body in an instruction.

use serde_json::{Map, Value};

/// Maximum number of operations in a patch.
pub const OPERATIONS_MAX: usize = 1000;

/// Reason why a patch cannot be applied. The document then stays unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is not a list of objects, or is too long.
    #[error("a patch is a list of at most {OPERATIONS_MAX} operations")]
    List,
    /// An operation is invalid.
    #[error("operation {index} of the patch {problem}")]
    Operation {
        /// Index of the operation, counted from 0.
        index: usize,
        /// The fault.
        problem: &'static str,
    },
}

/// Applies a patch to a copy of `document`.
///
/// # Errors
/// An operation cannot be applied, or a `test` failed.
pub fn apply(document: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = patch.as_array().filter(|list| list.len() <= OPERATIONS_MAX);
    let mut document = document.clone();
    for (index, operation) in operations.ok_or(PatchError::List)?.iter().enumerate() {
        let fields = operation.as_object().ok_or(PatchError::List)?;
        run(&mut document, fields).map_err(|problem| PatchError::Operation { index, problem })?;
    }
    Ok(document)
}

const MISSING: &str = "has a path that does not exist";

fn run(document: &mut Value, fields: &Map<String, Value>) -> Result<(), &'static str> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let pointer = |name, problem| text(name).and_then(parse).ok_or(problem);
    let path = pointer("path", "has no valid path")?;
    let from = || pointer("from", "has no valid from");
    let value = || fields.get("value").cloned().ok_or("has no value");
    match text("op") {
        Some("add") => add(document, &path, value()?),
        Some("remove") => remove(document, &path).map(drop),
        Some("replace") => {
            *find(document, &path).ok_or(MISSING)? = value()?;
            Ok(())
        }
        Some("move") => {
            let from = from()?;
            if path.len() > from.len() && path.starts_with(&from) {
                return Err("moves a value into itself");
            }
            let moved = remove(document, &from)?;
            add(document, &path, moved)
        }
        Some("copy") => {
            let copy = find(document, &from()?).ok_or(MISSING)?.clone();
            add(document, &path, copy)
        }
        Some("test") => {
            if find(document, &path).ok_or(MISSING)? == &value()? {
                Ok(())
            } else {
                Err("tests a value that is another")
            }
        }
        _ => Err("is none of add, remove, replace, move, copy and test"),
    }
}

/// Parses a JSON pointer. `None`: the pointer is invalid.
fn parse(pointer: &str) -> Option<Vec<String>> {
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    let steps = pointer.strip_prefix('/')?.split('/');
    Some(
        steps
            // In this order, `~01` becomes `~1` and not `/` (RFC 6901, section 4).
            .map(|step| step.replace("~1", "/").replace("~0", "~"))
            .collect(),
    )
}

fn index(step: &str) -> Option<usize> {
    // RFC 6901, section 4, forbids leading zeros.
    let is_number =
        step.bytes().all(|byte| byte.is_ascii_digit()) && (step == "0" || !step.starts_with('0'));
    is_number.then(|| step.parse().ok()).flatten()
}

fn find<'a>(document: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(document, |value, step| match value {
        Value::Object(fields) => fields.get_mut(step),
        Value::Array(values) => values.get_mut(index(step)?),
        _ => None,
    })
}

fn add(document: &mut Value, path: &[String], value: Value) -> Result<(), &'static str> {
    let Some((last, parents)) = path.split_last() else {
        *document = value;
        return Ok(());
    };
    match find(document, parents) {
        Some(Value::Object(fields)) => {
            fields.insert(last.clone(), value);
            Ok(())
        }
        Some(Value::Array(values)) => {
            let at = match last.as_str() {
                "-" => values.len(),
                step => index(step)
                    .filter(|&at| at <= values.len())
                    .ok_or(MISSING)?,
            };
            values.insert(at, value);
            Ok(())
        }
        _ => Err(MISSING),
    }
}

fn remove(document: &mut Value, path: &[String]) -> Result<Value, &'static str> {
    let Some((last, parents)) = path.split_last() else {
        return Ok(std::mem::take(document));
    };
    match find(document, parents) {
        Some(Value::Object(fields)) => fields.remove(last).ok_or(MISSING),
        Some(Value::Array(values)) => {
            let at = index(last).filter(|&at| at < values.len()).ok_or(MISSING)?;
            Ok(values.remove(at))
        }
        _ => Err(MISSING),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn applies_the_examples_of_the_rfc() {
        for (document, patch, expected) in [
            (
                json!({"a": 1}),
                json!([{"op": "add", "path": "/b", "value": 2}]),
                json!({"a": 1, "b": 2}),
            ),
            (
                json!([1, 2]),
                json!([{"op": "add", "path": "/1", "value": 9}]),
                json!([1, 9, 2]),
            ),
            (
                json!([1]),
                json!([{"op": "add", "path": "/-", "value": [2]}]),
                json!([1, [2]]),
            ),
            (
                json!({"a": 1}),
                json!([{"op": "add", "path": "", "value": []}]),
                json!([]),
            ),
            (
                json!({"a": [1, 2]}),
                json!([{"op": "remove", "path": "/a/0"}]),
                json!({"a": [2]}),
            ),
            (
                json!({"a": 1}),
                json!([{"op": "replace", "path": "/a", "value": null}]),
                json!({"a": null}),
            ),
            (
                json!({"a": {"b": 1}}),
                json!([{"op": "move", "from": "/a/b", "path": "/c"}]),
                json!({"a": {}, "c": 1}),
            ),
            (
                json!([1, 2, 3]),
                json!([{"op": "move", "from": "/0", "path": "/2"}]),
                json!([2, 3, 1]),
            ),
            (
                json!({"a": 1}),
                json!([{"op": "copy", "from": "/a", "path": "/b"}]),
                json!({"a": 1, "b": 1}),
            ),
            (
                json!({"a/b": 1, "m~n": 2}),
                json!([{"op": "test", "path": "/a~1b", "value": 1}, {"op": "remove", "path": "/m~0n"}]),
                json!({"a/b": 1}),
            ),
            (
                json!({"~1": 1}),
                json!([{"op": "test", "path": "/~01", "value": 1}]),
                json!({"~1": 1}),
            ),
            (
                json!({"": 1}),
                json!([{"op": "replace", "path": "/", "value": 2}]),
                json!({"": 2}),
            ),
        ] {
            assert_eq!(apply(&document, &patch), Ok(expected), "{patch}");
        }
    }

    #[test]
    fn failed_patch_changes_nothing_and_has_its_index() {
        let document = json!({"a": [1], "b": 2});
        for (operation, problem) in [
            (json!({"op": "test", "path": "/b", "value": 3}), "tests"),
            (json!({"op": "remove", "path": "/c"}), "does not exist"),
            (json!({"op": "remove", "path": "/a/1"}), "does not exist"),
            (json!({"op": "remove", "path": "/a/00"}), "does not exist"),
            (
                json!({"op": "replace", "path": "/a/-", "value": 1}),
                "does not exist",
            ),
            (
                json!({"op": "add", "path": "/a/2", "value": 1}),
                "does not exist",
            ),
            (
                json!({"op": "add", "path": "/b/x", "value": 1}),
                "does not exist",
            ),
            (json!({"op": "add", "path": "/x"}), "no value"),
            (json!({"op": "add", "path": "x", "value": 1}), "path"),
            (json!({"op": "move", "path": "/x"}), "from"),
            (
                json!({"op": "move", "from": "/a", "path": "/a/0"}),
                "into itself",
            ),
            (json!({"op": "increment", "path": "/b"}), "none of"),
        ] {
            let patch = json!([{"op": "remove", "path": "/b"}, {"op": "add", "path": "/b", "value": 2}, operation]);
            let error = apply(&document, &patch).expect_err("a failure").to_string();
            assert!(
                error.contains("operation 2") && error.contains(problem),
                "{error}"
            );
        }
        assert_eq!(apply(&document, &json!({})), Err(PatchError::List));
        assert_eq!(apply(&document, &json!([1])), Err(PatchError::List));
    }
}
