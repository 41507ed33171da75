//! A node that a test plays: a topology written as the `/sys` that would show it, and what lies beside that.

use super::played::{config_space, digits};
use crate::audit::report::Finding;
use crate::doctor::facts::{Caller, HostFacts, Installation};
use crate::doctor::{Examined, examine};
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::step::Step;
use nic_placement_core::topology::{Nic, PciAddress, PciFunction, Provenance, Topology};
use nic_placement_node::discover::manifest::Entry;
use nic_placement_node::discover::{Manifest, Root, Scope};
use nic_placement_node::read_root;
use nic_placement_testing::synthesise::synthesise;

/// A register of the configuration space, where it is there.
type Bits = Option<u16>;

/// What a test says of facts that no file tells.
type Patch = fn(&mut HostFacts);

pub(super) struct World {
    manifest: Option<Manifest>,
    topology: Topology,
    patch: Option<Patch>,
    pub(super) installation: Installation,
    pub(super) caller: Caller,
}

pub(super) fn model(name: &str) -> Topology {
    nic_placement_node::platform::model(name).unwrap()
}

pub(super) fn with_nic(topology: &mut Topology, name: &str, change: impl FnOnce(&mut Nic)) {
    let mut nics = topology.nics.iter_mut();
    change(nics.find(|nic| nic.name.as_str() == name).unwrap());
}

pub(super) fn with_function(
    topology: &mut Topology,
    at: PciAddress,
    change: impl FnOnce(&mut PciFunction),
) {
    let mut function = topology.pci.get(at).unwrap().clone();
    change(&mut function);
    topology.pci.insert(function);
}

impl World {
    pub(super) fn described(topology: Topology) -> World {
        World {
            manifest: None,
            topology,
            patch: None,
            installation: Installation::default(),
            caller: Caller::default(),
        }
    }

    /// One whose files can be read.
    pub(super) fn of(topology: Topology) -> World {
        let mut manifest = synthesise(&topology);
        // the kernel has a link for bridges too
        for function in topology.pci.iter() {
            let name = function.address.to_string();
            let inside = format!("/{name}/");
            let place = manifest.iter().find_map(|(path, _)| {
                let path = path.strip_prefix("sys/devices/")?;
                Some(path[..path.find(&inside)? + 1].to_string() + &name)
            });
            if let Some(place) = place {
                let link = Entry::Link(format!("../../../devices/{place}"));
                manifest.insert(&format!("sys/bus/pci/devices/{name}"), link);
            }
        }
        World {
            manifest: Some(manifest),
            ..World::described(topology)
        }
    }

    pub(super) fn of_model(name: &str) -> World {
        World::of(model(name))
    }

    pub(super) fn file(mut self, path: &str, text: &str) -> World {
        self.insert(path, Entry::File(text.to_string()));
        self
    }

    pub(super) fn link(mut self, path: &str, target: &str) -> World {
        self.insert(path, Entry::Link(target.to_string()));
        self
    }

    pub(super) fn folder(mut self, path: &str) -> World {
        self.insert(path, Entry::Directory);
        self
    }

    fn insert(&mut self, path: &str, entry: Entry) {
        self.manifest.as_mut().unwrap().insert(path, entry);
    }

    /// The directory of a PCI function.
    pub(super) fn function(&self, address: PciAddress) -> String {
        let root = Root::manifest(self.manifest.clone().unwrap());
        let link = format!("sys/bus/pci/devices/{address}");
        root.follow(&link).unwrap()
    }

    pub(super) fn config(self, at: PciAddress, control: u16, acs: Bits, ats: Bits) -> World {
        let path = format!("{}/config", self.function(at));
        self.file(&path, &digits(&config_space(control, acs, ats)))
    }

    /// The configuration space of every bridge, with this in the register of ACS.
    pub(super) fn bridges(mut self, acs: u16) -> World {
        for function in self.topology.pci.clone().iter() {
            if let Some(bridge) = function.parent.bridge() {
                self = self.config(bridge, 0x5910, Some(acs), None);
            }
        }
        self
    }

    pub(super) fn nics(mut self, control: u16, ats: Option<u16>) -> World {
        for nic in self.topology.nics.clone() {
            self = self.config(nic.address.unwrap(), control, None, ats);
        }
        self
    }

    /// The node as a virtual machine of KVM's.
    pub(super) fn guest(self) -> World {
        let clocks = "sys/devices/system/clocksource/clocksource0/available_clocksource";
        self.file(clocks, "kvm-clock tsc")
    }

    pub(super) fn patched(mut self, patch: Patch) -> World {
        self.patch = Some(patch);
        self
    }

    pub(super) fn installed(mut self, change: impl FnOnce(&mut Installation)) -> World {
        change(&mut self.installation);
        self
    }

    pub(super) fn called(mut self, change: impl FnOnce(&mut Caller)) -> World {
        change(&mut self.caller);
        self
    }

    fn examined(&self, is_on: impl Fn(&str) -> bool) -> Vec<Finding> {
        let root = self.manifest.clone().map(Root::manifest);
        let (topology, diagnostics) = match &root {
            Some(root) => read_root(root, Scope::Full, Provenance::Captured("played".into())),
            None => (self.topology.clone(), Vec::new()),
        };
        let plan = Plan::new(topology, Wish::default(), Step::default(), &|_| None);
        let gather = |root| crate::gather::facts(root, &plan.node);
        let mut facts = root.as_ref().map(gather);
        if let (Some(facts), Some(patch)) = (&mut facts, self.patch) {
            patch(facts);
        }
        let subject = Examined {
            plan: &plan,
            diagnostics: &diagnostics,
            facts: facts.as_ref(),
            installation: &self.installation,
            caller: &self.caller,
        };
        examine(&subject, is_on)
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        self.examined(|_| true)
    }

    pub(super) fn without(&self, code: &str) -> Vec<Finding> {
        self.examined(|of| of != code)
    }

    pub(super) fn of_check(&self, code: &str) -> Vec<Finding> {
        self.examined(|of| of == code)
    }
}
