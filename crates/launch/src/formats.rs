//! The words for the formats of a node's map.
#![forbid(unsafe_code)]

use nic_placement_core::maps::Format;

/// `(word, format, description)`, in the order of help texts.
pub const FORMATS: [(&str, Format, &str); 4] = [
    (
        "json",
        Format::Json,
        "the project's own, by index, UUID and PCI address",
    ),
    (
        "sglang",
        Format::Sglang,
        "SGLang's --disaggregation-ib-device",
    ),
    (
        "mooncake",
        Format::Mooncake,
        "a file for Mooncake's MC_CUSTOM_TOPO_JSON",
    ),
    ("vllm", Format::Vllm, "the two variables of vLLM"),
];

pub fn named(word: &str) -> Option<Format> {
    let known = FORMATS.iter().find(|(name, ..)| *name == word)?;
    Some(known.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_a_format_and_no_word_names_one_of_ranks() {
        for (word, format, _) in FORMATS {
            assert_eq!(named(word), Some(format), "{word}");
        }
        for word in ["openmpi", "mpich", "intel-mpi", "nccl"] {
            assert_eq!(named(word), None, "{word}");
        }
    }
}
