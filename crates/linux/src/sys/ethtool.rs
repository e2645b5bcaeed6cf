//! The ethtool calls of a socket (`SIOCETHTOOL`, `include/uapi/linux/ethtool.h`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// Buffer for an answer, aligned as the kernel requires.
#[repr(C, align(8))]
struct Answer<const LENGTH: usize>([u8; LENGTH]);

/// Sends a command to the driver of the interface `name`. `structure` holds a structure of ethtool that begins with its
/// command; the kernel writes the answer over it.
///
/// # Errors
/// The kernel's error: `ENODEV` if there is no such interface, `EOPNOTSUPP` if the driver does not support the command.
///
/// The kernel must not write past the structure: the caller passes one as large as its command's, including the
/// variable part that the numbers in it announce.
fn ask<const LENGTH: usize>(
    socket: BorrowedFd<'_>,
    name: &str,
    structure: &mut Answer<LENGTH>,
) -> io::Result<()> {
    // SAFETY: all octets zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let last = request.ifr_name.len() - 1; // the last octet stays zero
    if name.len() > last {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, octet) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = octet as libc::c_char;
    }
    request.ifr_ifru.ifru_data = structure.0.as_mut_ptr().cast();
    // SAFETY: `request` outlives the call and points to `structure`, which is borrowed mutably until it returns and
    // which the callers in this module make as large as what their commands write.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Octets of `struct ethtool_link_settings`, and of the three bit maps of 127 words at most that follow it.
const LINK_SETTINGS: usize = 48;
const BIT_MAPS: usize = 3 * 127 * 4;
const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;
/// Offset of the number of words of a bit map (`link_mode_masks_nwords`).
const WORDS: usize = 15;

/// Returns the speed of a link as its driver reports it, Mb/s; `u32::MAX` means unknown.
pub(crate) fn link_speed(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    let mut settings = Answer([0; LINK_SETTINGS + BIT_MAPS]);
    let command = ETHTOOL_GLINKSETTINGS.to_ne_bytes();
    settings.0[..4].copy_from_slice(&command);
    // The first answer gives only the length of the bit maps: the negative of their number of words, a signed octet.
    ask(socket, name, &mut settings)?;
    let words = (settings.0[WORDS] as i8).unsigned_abs();
    settings.0[..LINK_SETTINGS].fill(0);
    settings.0[..4].copy_from_slice(&command);
    settings.0[WORDS] = words.min(127);
    ask(socket, name, &mut settings)?;
    let mut speed = [0; 4];
    speed.copy_from_slice(&settings.0[4..8]);
    Ok(u32::from_ne_bytes(speed))
}

/// Commands that answer with one number (`struct ethtool_value`).
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Feature {
    /// `ETHTOOL_GTSO`: whether the interface cuts TCP's large packets into segments.
    TcpSegmentation = 0x1e,
    /// `ETHTOOL_GGSO`: whether large packets are cut just before they reach the driver.
    GenericSegmentation = 0x23,
}

/// Whether a feature is switched on.
pub(crate) fn feature(socket: BorrowedFd<'_>, name: &str, feature: Feature) -> io::Result<bool> {
    let mut value = Answer([0; 8]);
    value.0[..4].copy_from_slice(&(feature as u32).to_ne_bytes());
    ask(socket, name, &mut value)?;
    Ok(value.0[4..] != [0; 4])
}

/// Commands that set one number (`struct ethtool_value`).
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Switch {
    /// `ETHTOOL_STSO`: segmentation of TCP by the driver.
    Segmentation = 0x1f,
    /// `ETHTOOL_SGRO`: joining of incoming packets (generic receive offload).
    ReceiveJoining = 0x2c,
}

/// Switches a feature on or off.
pub(crate) fn set(socket: BorrowedFd<'_>, name: &str, switch: Switch, on: bool) -> io::Result<()> {
    let mut value = Answer([0; 8]);
    value.0[..4].copy_from_slice(&(switch as u32).to_ne_bytes());
    value.0[4..].copy_from_slice(&u32::from(on).to_ne_bytes());
    ask(socket, name, &mut value)
}
