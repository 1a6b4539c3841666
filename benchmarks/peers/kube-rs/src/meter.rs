//! Counts what this process did and answers the driver: one line on stdin, one JSON line on stdout.

use std::io::{BufRead, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use kube::api::ObjectMeta;

const STAMP: &str = "bench.steersman.dev/sent-at";

/// The counters of this peer; latencies are nanoseconds from the server's stamp to the reconcile.
pub static METER: Meter = Meter::new();

pub struct Meter {
    pub seen: AtomicU64,
    pub events: AtomicU64,
    pub reconciles: AtomicU64,
    pub patches: AtomicU64,
    pub errors: AtomicU64,
    latencies: Mutex<Vec<i64>>,
}

impl Meter {
    const fn new() -> Self {
        Self {
            seen: AtomicU64::new(0),
            events: AtomicU64::new(0),
            reconciles: AtomicU64::new(0),
            patches: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            latencies: Mutex::new(Vec::new()),
        }
    }

    /// Note the latency of an object that carries the time at which the server sent it.
    pub fn stamped(&self, metadata: &ObjectMeta) {
        let now = since_epoch().as_nanos() as i64;
        let stamp = metadata.annotations.as_ref().and_then(|a| a.get(STAMP));
        match stamp.and_then(|s| s.parse::<i64>().ok()) {
            Some(sent) if sent != 0 => self.latencies.lock().unwrap().push(now - sent),
            _ => {}
        }
    }

    /// Report on stdout, with the latencies since the last report; a mark named "poll" is cheap: it leaves these out,
    /// and what there is to be said of memory.
    pub fn mark(&self, name: &str) {
        let cpu = cpu_seconds();
        let (mut latencies, rss, peak) = match name {
            "poll" => (Vec::new(), 0, 0),
            _ => (std::mem::take(&mut *self.latencies.lock().unwrap()), rss(), peak()),
        };
        latencies.sort_unstable();
        let count = latencies.len();
        let at = |q: f64| match count {
            0 => 0.0,
            _ => latencies[((q * count as f64) as usize).min(count - 1)] as f64 / 1e9,
        };
        let line = serde_json::json!({
            "mark": name, "cpu": cpu, "rss": rss, "peak": peak, "wall": since_epoch().as_secs_f64(),
            "seen": self.seen.load(Relaxed), "events": self.events.load(Relaxed),
            "reconciles": self.reconciles.load(Relaxed), "patches": self.patches.load(Relaxed),
            "errors": self.errors.load(Relaxed),
            "p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "max": at(1.0), "latencies": count,
        });
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }

    /// Serve the driver from a thread of its own; the process ends when stdin closes.
    pub fn obey(&'static self) {
        std::thread::spawn(|| {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                let (verb, name) = line.split_once(' ').unwrap_or((&line, ""));
                if verb == "settle" {
                    // SAFETY: malloc_trim only returns free pages of glibc's own arenas to the system.
                    unsafe { libc::malloc_trim(0) };
                    let _ = std::fs::write("/proc/self/clear_refs", "5");
                }
                self.mark(name);
            }
            std::process::exit(0);
        });
    }
}

fn since_epoch() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn cpu_seconds() -> f64 {
    // SAFETY: getrusage fills the struct that it is given.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn rss() -> u64 {
    status("VmRSS:")
}

/// The high-water mark of RSS since the process started or last settled.
fn peak() -> u64 {
    status("VmHWM:")
}

fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}
