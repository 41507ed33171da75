//! Built-in machines as people name them: `dgx-h100`, `DGX H100`, `h100`, `p5.48xlarge`.

use nic_placement_node::platform::{self, MODELS};

/// The machine of this name, or the only one with these words in its name, else in its title.
///
/// Several such machines are listed, and none is chosen.
pub fn machine_named(said: &str) -> Result<&'static str, String> {
    let wanted = words(said);
    let is_same = |name: &&str| words(name).concat() == wanted.concat();
    if let Some(same) = platform::names().find(is_same) {
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
    match found[..] {
        [only] => Ok(only),
        [] => Err("no such machine: `nic-placement machines` lists all".to_string()),
        _ => Err(format!("may be {}: name one in full", found.join(", "))),
    }
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
    use crate::tests::cells;

    #[test]
    fn a_machine_is_found_by_any_spelling_of_its_name_and_none_is_chosen_among_several() {
        for row in "dgx-h100 | dgx-h100; DGX-H100 | dgx-h100; DGX H100 | dgx-h100; dgxh100 | dgx-h100; \
                    gh200 | gh200; p5 | aws-p5; p5.48xlarge | aws-p5; BM.GPU.H100.8 | oci-bm-gpu-h100-8; \
                    MI300X | mi300x-8; El Capitan | tuolumne"
            .split("; ")
        {
            let [said, name] = cells(row);
            assert_eq!(machine_named(said), Ok(name), "{said}");
        }
        let none = "no such machine: `nic-placement machines`";
        for row in [
            "h100 | may be azure-nd96isr-h100-v5, dgx-h100, hgx-h100-bf3, oci-bm-gpu-h100-8: name",
            "A3 | may be gke-a3-mega, gke-a3-ultra: name",
            &format!("dgx-h300 | {none}"),
            &format!("8 | {none}"),
            &format!(" | {none}"),
        ] {
            let [said, part] = cells(row);
            let why = machine_named(said).unwrap_err();
            assert!(why.contains(part), "{said}: {why}");
        }
    }
}
