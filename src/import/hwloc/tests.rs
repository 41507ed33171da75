//! Reading hwloc's XML, against small machines written for the purpose.
#![forbid(unsafe_code)]
