use senesce_core::Failure;
use senesce_zoned::sim::model::Model;
use serde_json::Value;

/// Approximate bytes per comment line.
const LINE: usize = 120;

pub fn model_file(result: &Value, name: &str) -> Result<Option<String>, Failure> {
    let Some(text) = result["model"].as_str() else { return Ok(None) };
    let mut text = Model { name: name.into(), ..Model::parse(text)? }.to_toml()?;
    let blocks = result["unsettled"].as_array().map(Vec::as_slice).unwrap_or_default();
    let unsettled: Vec<&str> = blocks.iter().filter_map(Value::as_str).collect();
    if let Some(words) = unsettled_words(&unsettled) {
        text.push_str(&format!("\n{}", comment(&words)));
    }
    Ok(Some(text))
}

/// Returns a warning and advice for searches that did not converge.
pub(super) fn unsettled_words(blocks: &[&str]) -> Option<String> {
    (!blocks.is_empty()).then(|| {
        format!(
            "the search for these constants did not converge, and their errors may be larger than their deviations: \
             {}. Fit again with another --out, and with --start and the model file of this run, which is a closer \
             start. If that does not converge either, measure more (--scale)",
            blocks.join("; ")
        )
    })
}

fn comment(words: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in words.split(' ') {
        if lines.last().is_none_or(|line| line.len() + word.len() >= LINE) {
            lines.push("#".into());
        }
        lines.iter_mut().next_back().into_iter().for_each(|line| line.push_str(&format!(" {word}")));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unsettled_search_is_noted_in_the_file() {
        let model = Model::load("zn540").unwrap().to_toml().unwrap();
        let file =
            |unsettled: &[&str]| model_file(&json!({"model": model, "unsettled": unsettled}), "mine").unwrap().unwrap();
        let (quiet, stated) = (file(&[]), file(&["random reads", "resets"]));
        assert!(quiet.starts_with("name = \"mine\"") && !quiet.contains('#'));
        let comment = stated.strip_prefix(&quiet).unwrap();
        let words = comment.replace("\n# ", " ");
        assert!(words.contains("random reads; resets.") && words.contains("--start"), "{comment}");
        assert!(comment.trim().lines().all(|line| line.starts_with("# ") && line.len() <= LINE), "{comment}");
        assert_eq!(Model::parse(&stated).unwrap(), Model::parse(&quiet).unwrap());
        assert_eq!(model_file(&json!({}), "mine").unwrap(), None);
    }
}
