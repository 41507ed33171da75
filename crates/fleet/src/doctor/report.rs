//! What fails, as the reason for which a node is drained.
#![forbid(unsafe_code)]

use crate::audit::report::{Finding, Level};

/// One line fit for the reason of a drained node: what fails, in less than 100 plain characters; `None` where nothing does.
pub fn reason(findings: &[Finding]) -> Option<String> {
    let failed: Vec<&Finding> = findings.iter().filter(|finding| finding.level == Level::Fail).collect();
    let parts = failed.iter().map(|finding| match &finding.about {
        Some(about) => format!("{} {about}", finding.code),
        None => finding.code.clone(),
    });
    (!failed.is_empty()).then(|| plain(&parts.collect::<Vec<_>>()))
}

/// The parts behind our name, as many as there is room for, and how many more there are.
pub fn plain(parts: &[String]) -> String {
    /// Characters: what squeue and sinfo show of a reason at most.
    const MOST: usize = 99;
    const HEAD: &str = "nic-placement: ";
    let clean = |text: &String| -> String {
        // neither quotes nor what a shell or slurmctld could take for more than text
        let keep = |letter: char| letter.is_ascii_alphanumeric() || " .,:;/_+-".contains(letter);
        text.chars().map(|letter| if keep(letter) { letter } else { '?' }).collect()
    };
    let parts: Vec<String> = parts.iter().map(clean).collect();
    for shown in (1..=parts.len()).rev() {
        let more = match parts.len() - shown {
            0 => String::new(),
            more => format!(" +{more} more"),
        };
        let line = format!("{HEAD}{}{more}", parts[..shown].join(", "));
        if line.len() <= MOST {
            return line;
        }
    }
    let line = format!("{HEAD}{}", parts.first().map(String::as_str).unwrap_or_default());
    line.chars().take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(code: &str, about: Option<&str>) -> Finding {
        Finding {
            level: Level::Fail,
            code: code.into(),
            about: about.map(str::to_string),
            text: "at length".into(),
            why: None,
            remedy: None,
        }
    }

    #[test]
    fn a_reason_names_what_fails_and_nothing_else() {
        let good = Finding { level: Level::Warn, ..fail("slurm", None) };
        assert_eq!(reason(std::slice::from_ref(&good)), None);
        let findings = [good, fail("nic-broken", Some("mlx5_4:1")), fail("pcie-link", Some("0000:18:00.0"))];
        let line = reason(&findings).unwrap();
        assert_eq!(line, "nic-placement: nic-broken mlx5_4:1, pcie-link 0000:18:00.0");
    }

    #[test]
    fn a_reason_is_short_and_plain_whatever_devices_are_called() {
        let odd = "\u{1b}[2J\n\"'`$(rm)\u{202e}ü ".repeat(3);
        for count in [1, 2, 9, 40] {
            for name in ["mlx5_0:1", &odd, &"x".repeat(300)] {
                let findings: Vec<Finding> = (0..count).map(|_| fail("nic-broken", Some(name))).collect();
                let line = reason(&findings).unwrap();
                assert!(line.len() < 100 && line.starts_with("nic-placement: nic-broken"), "{line}");
                assert!(line.chars().all(|letter| letter.is_ascii_graphic() || letter == ' '), "{line}");
                assert!(!line.contains(['"', '\'', '`', '$', '\\']), "{line}");
            }
        }
    }
}
