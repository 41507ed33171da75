//! What a process was given of its node, and how a decision about it is carried out: for the plugin's tasks, and for
//! `nic-placement exec` where there is no plugin.
//!
//! * [`admin`] says what the admin wants here.
//! * [`node`] reads the node: the node file where it is as the node is, else the node itself.
//! * [`gpus`] and [`nics`] say which devices this process may open, [`memory`] how its memory is bound.
//! * [`maps`] finds the files with the node's map.
//! * [`bind`] carries out a decision and reads it back.
//! * [`room`] says whether what is set has room in the program's environment.
//! * [`doubts`] says what looks wrong in its variables, and [`files`] reads the files that its libraries read.
#![forbid(unsafe_code)]

pub mod admin;
pub mod bind;
pub mod doubts;
pub mod files;
pub mod gpus;
pub mod maps;
pub mod memory;
pub mod nics;
pub mod node;
pub mod room;
