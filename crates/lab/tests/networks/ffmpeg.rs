//! A stock application without knowledge of Earmark: ffmpeg sends RTP and RTCP, and routers that measure foreign
//! streams reserve for it.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use earmark_control::ReservationRow;
use earmark_core::Rate;
use earmark_scenario::topology::DEMO;
use earmark_testkit::wait::wait_for;
use libtest_mimic::Failed;

use crate::Outcome;
use crate::net::{Net, REFRESH, SLACK};
use crate::stream::{Stream, loss, watch};

/// One channel of linear PCM, 48 000 samples of 16 bits a second, in packets of 1 200 octets: 12 of RTP and 594 samples.
const PACKETS_PER_SECOND: f64 = 48_000.0 / 594.0;
/// Length of a packet with its IP and UDP headers, bits.
const PACKET_BITS: f64 = 8.0 * (20.0 + 8.0 + 1_200.0);
/// Factor by which routers raise the measured rate.
const HEADROOM: f64 = 1.2;
/// Largest factor of rounding up to five binary digits.
const ROUNDING: f64 = 17.0 / 16.0;
/// Least interval of ffmpeg's reports after the first, which comes with the first packet.
const BETWEEN_REPORTS: Duration = Duration::from_secs(5);
/// Duration of the streams.
const LENGTH: Duration = Duration::from_secs(8);
/// Timeout of a stream: five missing reports, 1.3 s each.
const SILENCE: Duration = Duration::from_millis(6_500);

/// Returns the reason why ffmpeg cannot be used, if so.
pub(crate) fn obstacle() -> Option<String> {
    let ffmpeg = Command::new("ffmpeg").arg("-version").stdout(Stdio::null()).status();
    let runs = ffmpeg.is_ok_and(|status| status.success());
    (!runs).then(|| "ffmpeg is not installed".to_owned())
}

/// Two streams go from h1 to h2, whose hosts have no daemon. With their second report both are reserved on either
/// router at their measured rate. A flood beside the first one causes no loss. The first sends BYE at its end, and is
/// released at once; the other is killed, and times out.
pub(crate) fn a_stream_of_ffmpeg_is_measured() -> Outcome {
    const WINDOW: Duration = Duration::from_secs(1);
    let net = Net::with(DEMO, "ffmpeg", REFRESH, |options| {
        options.bare_hosts = true;
        options.settings.interface = "measure_rtp = true\n".to_owned();
        let yessir = "refresh = \"1s\"\nlifetime_factor = 5\n".to_owned();
        options.settings.protocols.insert("yessir", yessir);
    })?;
    let h2 = net.address("h2", true);
    let [first, second] = [5_004, 5_006].map(|port| SocketAddr::new(h2, port));
    let (first_sink, _second_sink) =
        (Listener::start(&net, first)?, Listener::start(&net, second)?);
    // The first sends from a known even port and the odd one after it, the second from any ports.
    let mut polite = Ffmpeg::start(&net, first, "&localrtpport=6004", &["-rtpflags", "send_bye"])?;
    let silent = Ffmpeg::start(&net, second, "", &[])?;
    let began = Instant::now();

    let rate = PACKETS_PER_SECOND * PACKET_BITS * HEADROOM;
    for node in ["r1", "r2"] {
        let within = (BETWEEN_REPORTS + SLACK).saturating_sub(began.elapsed());
        let rows = wait_for("both streams are reserved", within, || {
            let rows = rows(&net, node)?;
            Ok((rows.len() == 2).then_some(rows))
        })?;
        for row in &rows {
            let of_stream = row.rate_bps as f64 / rate;
            assert!(
                (0.97..ROUNDING * 1.03).contains(&of_stream),
                "{of_stream} of the rate: {row:?}"
            );
        }
        assert_eq!(rows.iter().map(|row| row.destination_port).collect::<Vec<_>>(), [5_004, 5_006]);
        assert_eq!(rows[0].senders[0].port, 6_004, "{rows:?}");
        let mut classes: Vec<u64> = rows.iter().map(|row| row.rate_bps).collect();
        let kernel = net.reserved(node, "eth1")?;
        let mut kernel: Vec<u64> = kernel.into_iter().map(Rate::as_bps).collect();
        classes.sort_unstable();
        kernel.sort_unstable();
        assert_eq!(kernel, classes);
    }
    let killed = Instant::now();
    drop(silent);

    let flood = Stream::flood(&net, "h1", "h2", true)?;
    watch(Duration::from_millis(300));
    let (since, from) = (Instant::now(), watch(WINDOW));
    let until = Instant::now();
    let lost = loss(&flood.stop()?[0], from, WINDOW);
    assert!(lost > 0.3, "the link is not full: the flood lost {lost}");

    assert!(polite.ends(LENGTH + SLACK - began.elapsed())?, "ffmpeg complains");
    for node in ["r1", "r2"] {
        wait_for("the first is gone", SLACK, || {
            let rows = rows(&net, node)?;
            Ok(rows.iter().all(|row| row.destination_port != 5_004).then_some(()))
        })?;
    }
    if killed.elapsed() + BETWEEN_REPORTS < SILENCE {
        assert_eq!(rows(&net, "r1")?.len(), 1, "nobody said that the second has ended");
    }
    for node in ["r1", "r2"] {
        let within = (SILENCE + SLACK).saturating_sub(killed.elapsed());
        wait_for("the second is gone", within, || Ok(rows(&net, node)?.is_empty().then_some(())))?;
        net.await_reserved((node, "eth1"), &[], SLACK)?;
    }
    let heard = first_sink.stop()?;
    let of_window: Vec<u16> =
        heard.iter().filter(|(at, _)| (since..until).contains(at)).map(|(_, n)| *n).collect();
    let sent = PACKETS_PER_SECOND * WINDOW.as_secs_f64();
    assert!(of_window.len() as f64 > 0.9 * sent, "{} packets of {sent}", of_window.len());
    assert_eq!(missing(&of_window), BTreeSet::new(), "packets are lost beside the flood");
    Ok(())
}

/// Returns a router's reservations, by the data port.
fn rows(net: &Net, node: &str) -> Result<Vec<ReservationRow>, Failed> {
    let mut rows = net.client(node)?.show_reservations()?.rows;
    rows.sort_by_key(|row| row.destination_port);
    Ok(rows)
}

/// Returns the sequence numbers that a span skips.
fn missing(numbers: &[u16]) -> BTreeSet<u16> {
    let Some(&first) = numbers.first() else { return BTreeSet::new() };
    let heard: BTreeSet<u16> = numbers.iter().map(|n| n.wrapping_sub(first)).collect();
    let last = heard.last().copied().unwrap_or(0);
    (0..last).filter(|n| !heard.contains(n)).map(|n| n.wrapping_add(first)).collect()
}

/// An ffmpeg process at h1, killed when dropped.
struct Ffmpeg(Child);

impl Ffmpeg {
    /// Sends a tone to an address for some seconds, in real time; reports go to the next port.
    fn start(net: &Net, to: SocketAddr, ports: &str, more: &[&str]) -> Result<Ffmpeg, Failed> {
        let url = format!("rtp://{to}?rtcpport={}&pkt_size=1200{ports}", to.port() + 1);
        let length = LENGTH.as_secs().to_string();
        let mut command = net.namespace("h1").command("ffmpeg")?;
        command.args(["-nostdin", "-loglevel", "error", "-re", "-f", "lavfi"]);
        command.args(["-i", "sine=sample_rate=48000", "-t", &length, "-c:a", "pcm_s16be"]);
        command.args(["-f", "rtp"]).args(more).arg(url);
        // ffmpeg prints a description of the session (SDP), which is not needed here.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Ffmpeg(command.spawn()?))
    }

    /// Waits for the end of the process; returns whether it was successful.
    fn ends(&mut self, within: Duration) -> Result<bool, Failed> {
        let status = wait_for("ffmpeg ends", within, || Ok(self.0.try_wait()?))?;
        Ok(status.success())
    }
}

impl Drop for Ffmpeg {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Receiver at an address of h2, on a thread of its own: arrival times and sequence numbers.
struct Listener {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Vec<(Instant, u16)>>>,
    /// Socket for reports, without which the kernel would refuse them by ICMP.
    _reports: UdpSocket,
}

impl Listener {
    fn start(net: &Net, on: SocketAddr) -> Result<Listener, Failed> {
        let bind = |at: SocketAddr| net.namespace("h2").run_in(|| UdpSocket::bind(at));
        let (data, reports) = (bind(on)??, bind(SocketAddr::new(on.ip(), on.port() + 1))??);
        data.set_read_timeout(Some(Duration::from_millis(50)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut packet, mut heard) = ([0; 2_048], Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                match data.recv(&mut packet) {
                    Ok(12..) => {
                        heard.push((Instant::now(), u16::from_be_bytes([packet[2], packet[3]])));
                    }
                    Ok(_) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(heard)
        });
        Ok(Listener { stop, thread, _reports: reports })
    }

    fn stop(self) -> Result<Vec<(Instant, u16)>, Failed> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.thread.join().map_err(|_| "the listener died")??)
    }
}
