//! Width and speed of a link in InfiniBand's words, such as `4x NDR`, from the words of each program.
#![forbid(unsafe_code)]

/// `ibnetdiscover`: `4xNDR`.
pub fn joined(word: &str) -> Option<String> {
    let (width, speed) = word.split_once('x')?;
    words(width, speed)
}

/// `ibnetdiscover -p`: `4x` and `NDR`; `???` is a speed that the program does not know.
pub fn words(width: &str, speed: &str) -> Option<String> {
    let is_width = !width.is_empty() && width.bytes().all(|byte| byte.is_ascii_digit());
    let is_speed = !speed.is_empty() && speed.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_width && is_speed).then(|| format!("{width}x {speed}"))
}
