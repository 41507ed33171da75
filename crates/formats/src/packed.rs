//! Files that gzip, bzip2 or xz packed, as captures of machines are.
#![forbid(unsafe_code)]

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use std::io::{self, Write};

/// What is in the file, which is at most `most` bytes; a file that is not packed as it is.
pub(crate) fn unpacked(bytes: Vec<u8>, most: usize) -> Result<Vec<u8>, String> {
    let mut found = Bounded { bytes: Vec::new(), most };
    let packed = &mut bytes.as_slice();
    let done = match *packed {
        [0x1f, 0x8b, ..] => io::copy(&mut MultiGzDecoder::new(packed), &mut found).map(drop),
        [b'B', b'Z', b'h', ..] => io::copy(&mut MultiBzDecoder::new(packed), &mut found).map(drop),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            lzma_rs::xz_decompress(packed, &mut found).map_err(|error| io::Error::other(format!("{error:?}")))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            return Err("zstd packed it: unpack it first, or pack it with gzip, bzip2 or xz".to_string());
        }
        _ => return Ok(bytes),
    };
    match done {
        Ok(()) => Ok(found.bytes),
        Err(_) if found.bytes.len() == most => {
            Err(format!("it cannot be unpacked: it has more than {most} bytes"))
        }
        Err(error) => Err(format!("it cannot be unpacked: {error}")),
    }
}

/// Takes so many bytes and no more.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        let room = more.len().min(self.most - self.bytes.len());
        self.bytes.extend_from_slice(&more[..room]);
        // no room left ends the copy, as on a full disk
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bzip2::write::BzEncoder;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    /// A text, packed by each program.
    fn all_packed(text: &[u8]) -> [Vec<u8>; 3] {
        let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut bzip2 = BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        gzip.write_all(text).and_then(|()| bzip2.write_all(text)).unwrap();
        let mut xz = Vec::new();
        lzma_rs::xz_compress(&mut &*text, &mut xz).unwrap();
        [gzip.finish().unwrap(), bzip2.finish().unwrap(), xz]
    }

    #[test]
    fn a_file_of_exactly_the_most_bytes_is_read_and_one_of_more_is_refused() {
        for packed in all_packed(&[7; 1000]) {
            assert_eq!(unpacked(packed.clone(), 1000).unwrap(), [7; 1000]);
            assert!(unpacked(packed, 999).unwrap_err().contains("more than 999 bytes"));
        }
    }

    proptest! {
        #[test]
        fn changed_bytes_never_make_the_reader_panic(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)
        ) {
            for mut packed in all_packed(b"sys/class/infiniband/mlx5_0 sys/class/infiniband/mlx5_1") {
                for (place, byte) in &changes {
                    let place = place.index(packed.len());
                    packed[place] = *byte;
                }
                let _ = unpacked(packed, 4096);
            }
        }
    }
}
