//! The page of variables against the libraries' files.

use super::read;
use nic_placement_core::libraries::names::is_name;
use nic_placement_core::libraries::wanted::is_variable_name;
use nic_placement_core::libraries::{self, marker};
use nic_placement_core::step::program::READ;
use nic_placement_launch::judge::{lists::LISTS, rebinding::rows};
use std::collections::BTreeSet;

/// The names of variables between backquotes.
fn named(page: &str) -> BTreeSet<&str> {
    let quoted = page.split('`').skip(1).step_by(2);
    let names = quoted.map(|quoted| quoted.split('=').next().unwrap_or_default());
    names
        .filter(|name| is_name(name) && (name.contains('_') || *name == "HOME"))
        .collect()
}

#[test]
fn the_page_of_variables_names_those_of_the_libraries_and_no_other() {
    let page = read("docs/variables.md");
    // that section's table is of what the plugin cannot know
    let (before, rest) = page
        .split_once("### What nothing tells of")
        .expect("the section");
    let page = before.to_string() + rest.split_once("\n## ").expect("a section behind it").1;
    let lists = LISTS.into_iter().map(|list| list.variable);
    let rebinding = rows().flat_map(|row| row.names());
    let judged = lists.chain(rebinding.filter(|name| is_variable_name(name)));
    let names = libraries::NAMES.into_iter().filter(|name| !name.is_empty());
    let known = names
        .chain(["CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"])
        .chain(["NCCL_CROSS_NIC", "NCCL_P2P_PXN_LEVEL"])
        .chain(judged);
    let known: BTreeSet<&str> = known.chain(READ).collect();
    let beside = "docs/variables.md and crates/core/src/libraries/";
    assert_eq!(named(&page), known, "{beside}");
}

#[test]
fn each_variable_that_may_be_set_has_its_rule_on_the_page_and_its_row_in_the_guide() {
    let (page, guide) = (read("docs/variables.md"), read("docs/user-guide.md"));
    let table: String = guide.lines().filter(|line| line.starts_with('|')).collect();
    for name in libraries::variables().chain([marker::NAME]) {
        let is_told =
            page.contains(&format!("**`{name}`**")) && table.contains(&format!("`{name}`"));
        assert!(is_told, "no rule or row of `{name}`");
    }
}
