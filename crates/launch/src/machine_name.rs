//! Built-in machines as people name them: `dgx-h100`, `DGX H100`, `h100`, `p5.48xlarge`.

use nic_placement_core::config::options::is_near;
use nic_placement_node::platform::{self, MODELS};

/// The machine of this name, or the only one with these words in its name, else in its title.
///
/// Several such machines are listed, and none is chosen.
pub fn machine_named(said: &str) -> Result<&'static str, String> {
    let wanted = words(said);
    let joined = wanted.concat();
    if let Some(same) = platform::names().find(|name| words(name).concat() == joined) {
        return Ok(same);
    }
    let has_all = |text: &str| {
        let has = words(text);
        said.contains(char::is_alphabetic) && wanted.iter().all(|word| has.contains(word))
    };
    let mut found: Vec<&str> = platform::names().filter(|name| has_all(name)).collect();
    if found.is_empty() {
        let titled = MODELS.iter().filter(|model| has_all(model.title));
        found = titled.map(|model| model.name).collect();
    }
    if let [only] = found[..] {
        return Ok(only);
    }
    if !found.is_empty() {
        return Err(format!("may be {}: name one in full", found.join(", ")));
    }
    let near = |edits: usize| {
        let is_near =
            |name: &&str| is_near(words(name).concat().as_bytes(), joined.as_bytes(), edits);
        let names: Vec<&str> = platform::names().filter(is_near).collect();
        (!names.is_empty()).then(|| format!(", did you mean `{}`?", names.join("` or `")))
    };
    let meant = (1..=2).find_map(near).unwrap_or(":".to_string());
    Err(format!(
        "no such machine{meant} `nic-placement machines` lists all"
    ))
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::machine_named;

    #[test]
    fn a_machine_is_found_by_any_spelling_of_its_name_or_words_that_only_it_has() {
        for (said, name) in [
            ("dgx-h100", "dgx-h100"),
            ("DGX-H100", "dgx-h100"),
            ("DGX H100", "dgx-h100"),
            ("dgxh100", "dgx-h100"),
            ("gh200", "gh200"),
            ("p5", "aws-p5"),
            ("p5.48xlarge", "aws-p5"),
            ("BM.GPU.H100.8", "oci-bm-gpu-h100-8"),
            ("MI300X", "mi300x-8"),
            ("El Capitan", "tuolumne"),
        ] {
            assert_eq!(machine_named(said), Ok(name), "{said}");
        }
    }

    #[test]
    fn none_is_chosen_among_several_machines() {
        let none = "no such machine: `nic-placement machines`";
        for (said, start) in [
            (
                "h100",
                "may be azure-nd96isr-h100-v5, dgx-h100, hgx-h100-bf3, oci-bm-gpu-h100-8: name",
            ),
            ("A3", "may be gke-a3-mega, gke-a3-ultra: name"),
            (
                "dgx-h300",
                "no such machine, did you mean `dgx-b300` or `dgx-h100` or `dgx-h200`?",
            ),
            ("gh300", "no such machine, did you mean `gh200`?"),
            ("8", none),
            ("", none),
        ] {
            let why = machine_named(said).unwrap_err();
            assert!(why.starts_with(start), "{said}: {why}");
        }
    }
}
