//! Width and speed of a link in InfiniBand's words, such as `4x NDR`, from the words of each program.
#![forbid(unsafe_code)]

/// The speeds of a lane as `iblinkinfo` prints them: rdma-core's libibmad/dump.c and libibnetdisc/ibnetdisc.c.
const LANES: [(&str, &str); 8] = [
    ("2.5", "SDR"),
    ("5.0", "DDR"),
    ("10.0", "QDR"),
    ("14.0625", "FDR"),
    ("25.78125", "EDR"),
    ("53.125", "HDR"),
    ("106.25", "NDR"),
    ("212.5", "XDR"),
];

/// `ibnetdiscover`: `4xNDR`.
pub fn joined(word: &str) -> Option<String> {
    let (width, speed) = word.split_once('x')?;
    words(width, speed)
}

/// `ibnetdiscover -p`: `4` and `NDR`; `???` is a speed that the program does not know.
pub fn words(width: &str, speed: &str) -> Option<String> {
    let is_width = (1..=2).contains(&width.len()) && width.bytes().all(|byte| byte.is_ascii_digit());
    let is_speed = (1..=8).contains(&speed.len()) && speed.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_width && is_speed).then(|| format!("{width}x {speed}"))
}

/// `iblinkinfo`: `4X 106.25 Gbps Active/LinkUp`, or `4X 10.0 Gbps (FDR10) …`.
pub fn lanes(state: &str) -> Option<String> {
    let mut told = state.split_whitespace();
    let (width, lane, _unit) = (told.next()?.strip_suffix('X')?, told.next()?, told.next()?);
    let speed = match told.next() {
        Some("(FDR10)") => "FDR10",
        _ => LANES.iter().find(|(known, _)| *known == lane)?.1,
    };
    words(width, speed)
}
