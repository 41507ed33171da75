//! plugstack.conf's arguments, one on each line, and the configuration file.
#![forbid(unsafe_code)]

use super::{held, plans};
use nic_placement_core::config::{Admin, Conf};
use nic_placement_core::libraries::names;
use nic_placement_core::libraries::wanted::is_variable_name;
use nic_placement_core::plan::Wish;
use nic_placement_core::topology::Topology;
use nic_placement_launch::plugstack::check_conf;
use nic_placement_node::platform;

const PATH: &str = "/etc/nic-placement.conf";
const NODES: [&str; 3] = ["gpu001", "gpu002.example.org", "login"];

thread_local! {
    static NODE: Topology = platform::model("gh200").expect("a model");
}

pub fn plugstack(data: &[u8]) {
    let text = held::text(data);
    let arguments = || text.split('\n').filter(|argument| !argument.is_empty());
    let (admin, findings) = Admin::parse(arguments());
    held::findings(&findings);
    is_bounded(&admin);
    // one after another, as the tool takes them
    let mut added = Admin::default();
    for argument in arguments() {
        let before = (added.selection.clone(), added.rails.clone(), added.disabled);
        if added.add(argument).is_err() {
            let after = (added.selection.clone(), added.rails.clone(), added.disabled);
            assert_eq!(before, after, "refused: {argument:?}");
        }
    }
    NODE.with(|node| plans::each_task(node, Wish::new(admin, None, None)));
}

fn is_bounded(admin: &Admin) {
    assert!(admin.templates.len() <= 32);
    for (nth, template) in admin.templates.iter().enumerate() {
        let name = template.name();
        assert!(is_variable_name(name) && !names::is_refused(name));
        assert!(!(template.is_per_task() && names::is_uniform(name)));
        let before = &admin.templates[..nth];
        assert!(before.iter().all(|other| other.name() != name), "`{name}`");
    }
    assert!(admin.node_file.path.starts_with('/') && admin.node_file.max_age <= 24 * 3600);
    assert!(admin.conf.as_ref().is_none_or(|path| path.starts_with('/')));
}

pub fn conf(data: &[u8]) {
    let (conf, findings) = match Conf::parse(data, PATH) {
        Ok(read) => read,
        Err(bad) => return held::message(&bad.to_string()),
    };
    held::findings(&findings);
    held::findings(&check_conf(&conf, PATH, NODES[0]));
    for node in NODES {
        let of = |partition: Option<&str>| {
            let mut admin = Admin::default();
            assert!(admin.add_conf(&conf, PATH, node, partition).len() <= 4096);
            is_bounded(&admin);
            admin
        };
        let all = of(None);
        for partition in ["train", "debug"] {
            let admin = of(Some(partition));
            // a partition's line, which a user may choose, opens no file, brings no other machine, and undoes no switch
            assert_eq!(admin.conf, None, "it stands in plugstack.conf alone");
            let found = (&admin.source, &admin.node_file);
            assert_eq!(found, (&all.source, &all.node_file));
            let found = (admin.trust_topology, admin.disabled);
            assert_eq!(found, (all.trust_topology, all.disabled));
            let files = |admin: &Admin| {
                let named = admin.templates.iter();
                let named = named.filter(|of| of.is_file() || of.map_files().next().is_some());
                named.map(|of| format!("{of:?}")).collect::<Vec<_>>()
            };
            let of_all = files(&all);
            assert!(files(&admin).iter().all(|file| of_all.contains(file)));
        }
    }
}
