//! Files that gzip, bzip2 or xz packed, as captures of machines are.
#![forbid(unsafe_code)]

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use std::io::Read;

/// KiB that xz may take for its dictionary: `xz -9` takes 64 MiB.
const MOST_OF_XZ: u32 = 128 * 1024;

/// What is in the file, which is at most `most` bytes; a file that is not packed as it is.
pub(crate) fn unpacked(bytes: Vec<u8>, most: usize) -> Result<Vec<u8>, String> {
    let packed = bytes.as_slice();
    let reader: Box<dyn Read> = match *packed {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(packed)),
        [b'B', b'Z', b'h', ..] => Box::new(MultiBzDecoder::new(packed)),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            Box::new(XzReader::new_mem_limit(packed, true, MOST_OF_XZ))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            return Err(
                "zstd packed it: unpack it first, or pack it with gzip, bzip2 or xz".to_string(),
            );
        }
        _ => return Ok(bytes),
    };
    let mut found = Vec::new();
    match reader.take(most as u64 + 1).read_to_end(&mut found) {
        Ok(_) if found.len() > most => Err(format!(
            "it cannot be unpacked: it has more than {most} bytes"
        )),
        Ok(_) => Ok(found),
        Err(error) => Err(format!("it cannot be unpacked: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bzip2::write::BzEncoder;
    use flate2::write::GzEncoder;
    use lzma_rust2::{XzOptions, XzWriter};
    use proptest::prelude::*;
    use std::io::Write;

    /// A text, packed by each program.
    fn all_packed(text: &[u8]) -> [Vec<u8>; 3] {
        let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut bzip2 = BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        let mut xz = XzWriter::new(Vec::new(), XzOptions::with_preset(0)).unwrap();
        for to in [&mut gzip as &mut dyn Write, &mut bzip2, &mut xz] {
            to.write_all(text).unwrap();
        }
        [
            gzip.finish().unwrap(),
            bzip2.finish().unwrap(),
            xz.finish().unwrap(),
        ]
    }

    #[test]
    fn a_file_of_exactly_the_most_bytes_is_read_and_one_of_more_is_refused() {
        for packed in all_packed(&[7; 1000]) {
            assert_eq!(unpacked(packed.clone(), 1000).unwrap(), [7; 1000]);
            assert!(
                unpacked(packed, 999)
                    .unwrap_err()
                    .contains("more than 999 bytes")
            );
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
