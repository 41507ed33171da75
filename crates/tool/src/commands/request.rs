//! What a map is asked for: the words of the plugin's option, and the admin's arguments that change a map.
#![forbid(unsafe_code)]

use super::Failure;
use super::misunderstood::misunderstood;
use nic_placement_core::config::options::WORDS;
use nic_placement_core::config::{Admin, Words};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::libraries::Present;
use nic_placement_core::placement::Bind;
use nic_placement_core::plan::Wish;
use nic_placement_launch::step::{self, BadWish};

/// Options of all commands that make a map.
#[derive(clap::Args)]
#[command(next_help_heading = "What is asked for")]
pub(super) struct PlanOptions {
    /// words of srun's option, as rail,nics-per-task=2,bind=core (default: closest)
    #[arg(long, value_name = "WORDS", long_help = words_help("closest", &["off", "observe", "help", "verbose", "dry-run"]))]
    words: Option<String>,
    #[command(flatten)]
    nics: Nics,
}

/// Which NICs may be used, as plugstack.conf's arguments say.
#[derive(clap::Args)]
#[command(next_help_heading = "What is asked for")]
pub(super) struct Nics {
    /// use only these NICs: names, PCI addresses or interfaces, with * and ?
    ///
    /// As the argument include= of plugstack.conf, which also takes subnets.
    #[arg(long, value_name = "LIST", action = clap::ArgAction::Append)]
    include: Vec<String>,
    /// never use these NICs
    #[arg(long, value_name = "LIST", action = clap::ArgAction::Append)]
    exclude: Vec<String>,
    /// the rails in their order, for the policy rail (default: the good NICs in PCI order)
    #[arg(long, value_name = "LIST", action = clap::ArgAction::Append)]
    rails: Vec<String>,
}

/// With all words but some; `default` is what holds without any.
pub(super) fn words_help(default: &str, but: &[&str]) -> String {
    let words = WORDS.iter().filter(|spec| !but.contains(&spec.name));
    let words: String = words.map(|spec| format!("\n  {:<22}  {}", spec.spelling(), spec.help)).collect();
    format!("words of srun's option, separated by commas (default: {default}){words}")
}

impl PlanOptions {
    /// The wish, and what is odd about it.  `more` are other arguments of plugstack.conf, as `set=NAME=TEMPLATE`.
    pub(super) fn wish(&self, more: &[(&str, &[String])]) -> Result<(Wish, Vec<Diagnostic>), Failure> {
        // a plan binds no process, so it may say what it would bind on any machine
        let admin = Admin { trust_topology: true, ..Admin::default() };
        let words = self.words.as_deref();
        let mut wish = step::wish(words, admin).map_err(|bad| match bad {
            BadWish::Word(bad) => misunderstood(bad),
            BadWish::Nothing => misunderstood(format!("`--words {}` {bad}", words.unwrap_or_default())),
        })?;
        let mut doubts = self.nics.add_to(&mut wish.admin)?;
        doubts.extend(add(&mut wish.admin, more)?);
        Ok((wish, doubts))
    }
}

impl PlanOptions {
    /// Refuses a binding for a command that makes `bind=core` of it, whatever is asked.
    pub(super) fn binds_cores_alone(&self, command: &str) -> Result<(), Failure> {
        let Some(text) = &self.words else { return Ok(()) };
        match Words::parse(text).map_err(misunderstood)?.bind {
            None | Some(Bind::Core) => Ok(()),
            Some(_) => {
                let each = "each process gets cores of its own";
                Err(misunderstood(format!("`--words {text}`: `{command}` knows `bind=core` alone: {each}")))
            }
        }
    }
}

impl Nics {
    /// Adds them to what the admin says; the answer is what is odd about it.
    pub(super) fn add_to(&self, admin: &mut Admin) -> Result<Vec<Diagnostic>, Failure> {
        add(admin, &[("include", &self.include), ("exclude", &self.exclude), ("rails", &self.rails)])
    }
}

fn add(admin: &mut Admin, arguments: &[(&str, &[String])]) -> Result<Vec<Diagnostic>, Failure> {
    let mut doubts = Vec::new();
    for (name, value) in
        arguments.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value)))
    {
        doubts.extend(admin.add(&format!("{name}={value}")).map_err(misunderstood)?);
    }
    Ok(doubts)
}

/// `--variable NAME=VALUE`, again for more.
pub(super) fn variables(given: &[String]) -> Result<Present, Failure> {
    let mut present = Present::new();
    for text in given {
        let Some((name, value)) = text.split_once('=') else {
            return Err(misunderstood(format!("`--variable {text}`: expected NAME=VALUE")));
        };
        present.insert(name.to_string(), value.to_string());
    }
    Ok(present)
}
