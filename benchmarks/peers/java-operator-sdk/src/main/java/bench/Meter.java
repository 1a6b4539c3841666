package bench;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.management.OperatingSystemMXBean;
import io.fabric8.kubernetes.api.model.HasMetadata;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.JMException;
import javax.management.ObjectName;

/** Counts what this process did and answers the driver: one line on stdin, one JSON line on stdout. */
final class Meter {
  private static final String STAMP = "bench.steersman.dev/sent-at";
  private static final ObjectMapper JSON = new ObjectMapper();

  final AtomicLong seen = new AtomicLong();
  final AtomicLong events = new AtomicLong();
  final AtomicLong reconciles = new AtomicLong();
  final AtomicLong patches = new AtomicLong();
  final AtomicLong errors = new AtomicLong();
  private long[] latencies = new long[1024];
  private int measured;

  /** Note the latency of an object that carries the time at which the server sent it. */
  void stamped(HasMetadata object) {
    Instant now = Instant.now();
    String stamp = object.getMetadata().getAnnotations().get(STAMP);
    long sent = stamp == null ? 0 : Long.parseLong(stamp);
    if (sent == 0) {
      return;
    }
    long latency = now.getEpochSecond() * 1_000_000_000L + now.getNano() - sent;
    synchronized (this) {
      if (measured == latencies.length) {
        latencies = Arrays.copyOf(latencies, 2 * measured);
      }
      latencies[measured++] = latency;
    }
  }

  /** Report on stdout. A mark named "poll" is cheap: without memory, and without the latencies since the last other. */
  synchronized void mark(String name) {
    boolean poll = name.equals("poll");
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("mark", name);
    line.put("cpu", cpuNanos() / 1e9);
    line.put("rss", poll ? 0 : status("VmRSS:"));
    line.put("peak", poll ? 0 : status("VmHWM:"));
    Instant now = Instant.now();
    line.put("wall", now.getEpochSecond() + now.getNano() / 1e9);
    line.put("seen", seen.get());
    line.put("events", events.get());
    line.put("reconciles", reconciles.get());
    line.put("patches", patches.get());
    line.put("errors", errors.get());
    long[] sorted = new long[0];
    if (!poll) {
      sorted = Arrays.copyOf(latencies, measured);
      measured = 0;
      Arrays.sort(sorted);
    }
    line.put("p50", at(sorted, 0.5));
    line.put("p99", at(sorted, 0.99));
    line.put("p999", at(sorted, 0.999));
    line.put("max", at(sorted, 1));
    line.put("latencies", sorted.length);
    try {
      System.out.println(JSON.writeValueAsString(line));
      System.out.flush();
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Serve the driver from a thread of its own; the process ends when stdin closes. */
  void obey() {
    Thread thread = new Thread(this::answer, "meter");
    thread.setDaemon(true);
    thread.start();
  }

  private void answer() {
    try (var lines = new BufferedReader(new InputStreamReader(System.in))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String[] words = line.split(" ", 2);
        if (words[0].equals("settle")) {
          settle();
        }
        mark(words.length > 1 ? words[1] : "");
      }
    } catch (IOException closed) {
      // The driver is gone: end like at the end of its lines.
    }
    Runtime.getRuntime().halt(0);
  }

  /** Give back what memory can be given back: collect twice, so that references that need it go, and trim malloc. */
  private static void settle() throws IOException {
    System.gc();
    System.gc();
    try {
      var command = new ObjectName("com.sun.management:type=DiagnosticCommand");
      ManagementFactory.getPlatformMBeanServer().invoke(command, "systemTrimNativeHeap", null, null);
    } catch (JMException unknown) {
      // A JVM without this command keeps its native heap.
    }
    Files.writeString(Path.of("/proc/self/clear_refs"), "5");
  }

  private static double at(long[] sorted, double q) {
    return sorted.length == 0 ? 0 : sorted[Math.min(sorted.length - 1, (int) (q * sorted.length))] / 1e9;
  }

  /** The kernel counts it in steps of 10 ms for a JVM; it has no call for the exact value. */
  private static long cpuNanos() {
    return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
  }

  private static long status(String field) {
    try {
      for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
        if (line.startsWith(field)) {
          return Long.parseLong(line.replaceAll("\\D+", "")) * 1024;
        }
      }
    } catch (IOException unreadable) {
      return 0;
    }
    return 0;
  }
}
