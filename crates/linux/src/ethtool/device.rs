//! A device's figures by name: `ring.rx`, `coalesce.adaptive_rx`, `channels.combined`, `feature.tx-scatter-gather`.
//!
//! The surprise: to set one figure, its whole structure is read and written back, because the kernel knows no
//! smaller unit; so two programs that set figures of one structure at a time lose one of them.

use super::ioctl::Channel;
use std::io;

/// A structure of linux/ethtool.h that is words alone: the commands that get and set it, and its length.
#[derive(Debug)]
struct Block {
    get: u32,
    set: u32,
    words: usize,
}

const RING: Block = Block {
    get: 0x10,
    set: 0x11,
    words: 9,
};
const COALESCE: Block = Block {
    get: 0x0e,
    set: 0x0f,
    words: 23,
};
const CHANNELS: Block = Block {
    get: 0x3c,
    set: 0x3d,
    words: 9,
};

/// Commands and the string set of the offloads.
const GET_STRINGS: u32 = 0x1b;
const GET_SET_INFO: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const SET_FEATURES: u32 = 0x3b;
const FEATURE_STRINGS: u32 = 4;
/// Bytes of one name (`ETH_GSTRING_LEN`).
const NAME_LENGTH: usize = 32;
/// More offloads than any kernel has; a longer answer is not one.
const MOST_FEATURES: usize = 1_024;
const FEATURE_PREFIX: &str = "feature.";

/// What a word of a structure says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    OnOff,
}

/// A figure that can be asked for by name.
#[derive(Debug)]
pub struct Setting {
    /// Name, for example `ring.rx`.
    pub name: &'static str,
    block: &'static Block,
    word: usize,
    kind: Kind,
    /// It can be set, not only read.
    pub settable: bool,
}

const fn number(name: &'static str, block: &'static Block, word: usize) -> Setting {
    Setting {
        name,
        block,
        word,
        kind: Kind::Number,
        settable: true,
    }
}

const fn bound(name: &'static str, block: &'static Block, word: usize) -> Setting {
    Setting {
        settable: false,
        ..number(name, block, word)
    }
}

const fn switch(name: &'static str, block: &'static Block, word: usize) -> Setting {
    Setting {
        kind: Kind::OnOff,
        ..number(name, block, word)
    }
}

const SETTINGS: [Setting; 16] = [
    number("ring.rx", &RING, 5),
    bound("ring.rx_max", &RING, 1),
    number("ring.tx", &RING, 8),
    bound("ring.tx_max", &RING, 4),
    number("coalesce.rx_usecs", &COALESCE, 1),
    number("coalesce.rx_frames", &COALESCE, 2),
    number("coalesce.tx_usecs", &COALESCE, 5),
    number("coalesce.tx_frames", &COALESCE, 6),
    switch("coalesce.adaptive_rx", &COALESCE, 10),
    switch("coalesce.adaptive_tx", &COALESCE, 11),
    number("channels.combined", &CHANNELS, 8),
    bound("channels.combined_max", &CHANNELS, 4),
    number("channels.rx", &CHANNELS, 5),
    bound("channels.rx_max", &CHANNELS, 1),
    number("channels.tx", &CHANNELS, 6),
    bound("channels.tx_max", &CHANNELS, 2),
];

/// The figures that have a fixed name. Offloads are `feature.NAME` besides, with the kernel's names.
pub fn settings() -> &'static [Setting] {
    &SETTINGS
}

/// A figure as read: its name, and its value or the reason why there is none.
pub type Figure = (String, Result<String, String>);

/// Why a figure cannot be read or set.
#[derive(Debug, thiserror::Error)]
pub enum NicError {
    /// No figure has this name.
    #[error("`{name}` is no figure of a network device")]
    Unknown {
        /// As asked.
        name: String,
    },
    /// The value is not one for this figure.
    #[error("`{value}` is not a value of `{name}`: {expected}")]
    Value {
        /// The figure.
        name: String,
        /// As asked.
        value: String,
        /// What it must be.
        expected: &'static str,
    },
    /// The driver has no such thing.
    #[error("the driver of {device} does not offer `{name}`")]
    Unsupported {
        device: String,
        /// The figure.
        name: String,
    },
    /// It can be read but not changed.
    #[error("`{name}` of {device} is fixed")]
    Fixed {
        device: String,
        /// The figure.
        name: String,
    },
    /// The system refuses.
    #[error("{doing} `{name}` of {device}: {cause}")]
    System {
        /// `reading` or `setting`.
        doing: &'static str,
        /// The figure.
        name: String,
        device: String,
        /// The system's words.
        cause: io::Error,
    },
}

/// A network device of the network namespace that this process is in.
#[derive(Debug)]
pub struct Device {
    name: String,
    channel: Channel,
}

/// The state of one offload, by its place in the kernel's list.
struct Feature {
    at: usize,
    available: bool,
    fixed: bool,
    active: bool,
}

impl Device {
    /// The device with that name; whether it exists shows when it is asked.
    ///
    /// # Errors
    /// [`NicError::System`] when no socket can be had.
    pub fn open(name: &str) -> Result<Self, NicError> {
        let channel = Channel::open().map_err(|cause| NicError::System {
            doing: "opening a socket to ask for",
            name: "figures".to_owned(),
            device: name.to_owned(),
            cause,
        })?;
        Ok(Self {
            name: name.to_owned(),
            channel,
        })
    }

    /// All figures with a fixed name.
    pub fn figures(&self) -> Vec<Figure> {
        let read = |s: &Setting| {
            (
                s.name.to_owned(),
                self.get(s.name).map_err(|e| e.to_string()),
            )
        };
        SETTINGS.iter().map(read).collect()
    }

    /// The value of a figure, in the form in which [`Device::set`] takes it.
    ///
    /// # Errors
    /// [`NicError`].
    pub fn get(&self, name: &str) -> Result<String, NicError> {
        if let Some(feature) = name.strip_prefix(FEATURE_PREFIX) {
            let (_, feature) = self.feature(name, feature)?;
            return Ok(on_off(feature.active).to_owned());
        }
        let setting = find(name)?;
        let words = self.block(setting, "reading")?;
        let value = words[setting.word];
        Ok(match setting.kind {
            Kind::Number => value.to_string(),
            Kind::OnOff => on_off(value != 0).to_owned(),
        })
    }

    /// Sets a figure. Drivers may round; what came of it is read back with [`Device::get`].
    ///
    /// # Errors
    /// [`NicError`].
    pub fn set(&self, name: &str, value: &str) -> Result<(), NicError> {
        if let Some(feature) = name.strip_prefix(FEATURE_PREFIX) {
            return self.set_feature(name, feature, parse(name, value, Kind::OnOff)? != 0);
        }
        let setting = find(name)?;
        if !setting.settable {
            return Err(self.fixed(name));
        }
        let wanted = parse(name, value, setting.kind)?;
        let mut words = self.block(setting, "setting")?;
        words[0] = setting.block.set;
        words[setting.word] = wanted;
        self.ask("setting", name, &mut words).map(|_| ())
    }

    fn fixed(&self, name: &str) -> NicError {
        NicError::Fixed {
            device: self.name.clone(),
            name: name.to_owned(),
        }
    }

    fn unsupported(&self, name: &str) -> NicError {
        NicError::Unsupported {
            device: self.name.clone(),
            name: name.to_owned(),
        }
    }

    fn ask(&self, doing: &'static str, name: &str, words: &mut [u32]) -> Result<i32, NicError> {
        self.channel.ask(&self.name, words).map_err(|cause| {
            if cause.raw_os_error() == Some(libc::EOPNOTSUPP) {
                return self.unsupported(name);
            }
            NicError::System {
                doing,
                name: name.to_owned(),
                device: self.name.clone(),
                cause,
            }
        })
    }

    /// The structure that holds a figure, as it is.
    fn block(&self, setting: &Setting, doing: &'static str) -> Result<Vec<u32>, NicError> {
        let mut words = vec![0; setting.block.words];
        words[0] = setting.block.get;
        self.ask(doing, setting.name, &mut words)?;
        Ok(words)
    }

    /// The kernel's names of all offloads, in its order.
    fn feature_names(&self, name: &str) -> Result<Vec<String>, NicError> {
        // cmd, reserved, the mask of the sets asked for as 64 bits, and room for one length.
        let mask = (1_u64 << FEATURE_STRINGS).to_ne_bytes();
        let half = |from: usize| {
            u32::from_ne_bytes([mask[from], mask[from + 1], mask[from + 2], mask[from + 3]])
        };
        let mut info = [GET_SET_INFO, 0, half(0), half(4), 0];
        self.ask("reading", name, &mut info)?;
        let count = info[4] as usize;
        if info[2] == 0 && info[3] == 0 || count == 0 || count > MOST_FEATURES {
            return Err(self.unsupported(name));
        }
        let mut words = vec![0; 3 + count * NAME_LENGTH / 4];
        words[..3].copy_from_slice(&[GET_STRINGS, FEATURE_STRINGS, info[4]]);
        self.ask("reading", name, &mut words)?;
        let bytes: Vec<u8> = words[3..].iter().flat_map(|w| w.to_ne_bytes()).collect();
        let text = |name: &[u8]| {
            let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
            String::from_utf8_lossy(&name[..end]).into_owned()
        };
        Ok(bytes.chunks(NAME_LENGTH).map(text).collect())
    }

    /// The number of offloads, and the state of the one with the kernel's name `feature`.
    fn feature(&self, name: &str, feature: &str) -> Result<(usize, Feature), NicError> {
        let names = self.feature_names(name)?;
        let at = names.iter().position(|n| n == feature);
        let at = at.ok_or_else(|| self.unsupported(name))?;
        let blocks = names.len().div_ceil(32);
        // cmd, size, and for each block: available, requested, active, never changed.
        let mut words = vec![0; 2 + 4 * blocks];
        words[0] = GET_FEATURES;
        words[1] = blocks as u32;
        self.ask("reading", name, &mut words)?;
        let bit = |of: usize| words[2 + 4 * (at / 32) + of] >> (at % 32) & 1 == 1;
        let feature = Feature {
            at,
            available: bit(0),
            fixed: bit(3),
            active: bit(2),
        };
        Ok((names.len(), feature))
    }

    fn set_feature(&self, name: &str, feature: &str, on: bool) -> Result<(), NicError> {
        let (count, feature) = self.feature(name, feature)?;
        if feature.fixed || !feature.available {
            return Err(self.fixed(name));
        }
        let blocks = count.div_ceil(32);
        // cmd, size, and for each block: which to change, to what.
        let mut words = vec![0; 2 + 2 * blocks];
        words[0] = SET_FEATURES;
        words[1] = blocks as u32;
        words[2 + 2 * (feature.at / 32)] = 1 << (feature.at % 32);
        words[3 + 2 * (feature.at / 32)] = u32::from(on) << (feature.at % 32);
        self.ask("setting", name, &mut words).map(|_| ())
    }
}

fn find(name: &str) -> Result<&'static Setting, NicError> {
    SETTINGS
        .iter()
        .find(|s| s.name == name)
        .ok_or_else(|| NicError::Unknown {
            name: name.to_owned(),
        })
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn parse(name: &str, value: &str, kind: Kind) -> Result<u32, NicError> {
    let (parsed, expected) = match (kind, value.trim()) {
        (Kind::OnOff, "on" | "1") => (Some(1), ""),
        (Kind::OnOff, "off" | "0") => (Some(0), ""),
        (Kind::OnOff, _) => (None, "on or off"),
        (Kind::Number, text) => (text.parse().ok(), "a whole number"),
    };
    parsed.ok_or_else(|| NicError::Value {
        name: name.to_owned(),
        value: value.to_owned(),
        expected,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn names_are_different_and_inside_their_structure() {
        for (i, setting) in SETTINGS.iter().enumerate() {
            assert!(setting.word < setting.block.words, "{}", setting.name);
            assert!(SETTINGS[..i].iter().all(|s| s.name != setting.name));
        }
    }

    #[test]
    fn values_are_checked_before_the_device_is_asked() {
        let parsed = |value, kind| parse("x", value, kind).ok();
        assert_eq!(parsed("4096", Kind::Number), Some(4096));
        assert_eq!(parsed("-1", Kind::Number), None);
        assert_eq!(parsed("on", Kind::OnOff), Some(1));
        assert_eq!(parsed("off", Kind::OnOff), Some(0));
        assert_eq!(parsed("yes", Kind::OnOff), None);
        let lo = Device::open("lo").unwrap();
        assert!(matches!(
            lo.set("ring.rx_max", "1"),
            Err(NicError::Fixed { .. })
        ));
        assert!(matches!(lo.get("ring.size"), Err(NicError::Unknown { .. })));
    }

    #[test]
    fn loopback_has_offloads_and_no_rings() {
        let lo = Device::open("lo").unwrap();
        assert_eq!(lo.get("feature.loopback").unwrap(), "on");
        assert!(matches!(
            lo.get("ring.rx"),
            Err(NicError::Unsupported { .. })
        ));
        assert!(matches!(
            lo.get("feature.made-up"),
            Err(NicError::Unsupported { .. })
        ));
        assert!(matches!(
            lo.set("feature.loopback", "off"),
            Err(NicError::Fixed { .. })
        ));
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let error = Device::open("prony-none").unwrap().get("ring.rx");
        let text = error.unwrap_err().to_string();
        assert!(text.contains("prony-none"), "{text}");
        let long = Device::open("a-name-longer-than-any-device").unwrap();
        assert!(long.get("ring.rx").is_err());
    }
}
