package bench;

import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.ConfigBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.dsl.MixedOperation;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import io.javaoperatorsdk.operator.Operator;
import io.javaoperatorsdk.operator.api.config.ControllerConfigurationOverrider;
import io.javaoperatorsdk.operator.api.reconciler.Reconciler;
import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

/**
 * The java-operator-sdk peer of the benchmarks: informers of its client, or controllers of the SDK, written as its
 * users write them and told nothing about the stub server that they talk to.
 */
public final class Main {
  private final Options options;
  private final Meter meter = new Meter();
  private final KubernetesClient client;

  private Main(Options options) {
    this.options = options;
    meter.mark("starting");
    meter.obey();
    // For a watch it prefers a WebSocket, which a neutral server need not speak, to lines over HTTP.
    // On a busy machine the JVM needs more than the default of ten seconds for its first connection.
    Config config =
        new ConfigBuilder(Config.fromKubeconfig(new File(options.kubeconfig)))
            .withOnlyHttpWatches(true)
            .withConnectionTimeout(60_000)
            .build();
    client = new KubernetesClientBuilder().withConfig(config).build();
  }

  /** Runs until SIGTERM, or until stdin closes. */
  public static void main(String[] arguments) throws InterruptedException {
    Options options = Options.parse(arguments);
    check(options);
    Main main = new Main(options);
    if (options.informs()) {
      main.inform();
    } else {
      main.operate();
    }
    Thread.currentThread().join();
  }

  private static void check(Options o) {
    if (!Set.of("widgets", "pods", "configmaps").contains(o.kind)) {
      Options.impossible("kind " + o.kind + " is not there");
    }
    if (!Set.of("informer", "noop", "patch", "apply").contains(o.mode)) {
      Options.impossible("mode " + o.mode + " is not there");
    }
    if (o.form.equals("metadata")) {
      Options.impossible("the Java client has no metadata-only form");
    }
    if (o.form.equals("unstructured") && !o.informs()) {
      Options.impossible("the SDK's controllers are typed");
    }
    if ((o.mode.equals("patch") || o.mode.equals("apply")) && !o.kind.equals("widgets")) {
      Options.impossible("mode " + o.mode + " is there for widgets");
    }
    if (o.controllers > 1 && o.informs()) {
      Options.impossible("controllers need a mode with a controller");
    }
  }

  private void inform() {
    var started = new ArrayList<CompletableFuture<Void>>();
    var informers = new ArrayList<SharedIndexInformer<?>>();
    if (options.form.equals("unstructured")) {
      String version = options.kind.equals("widgets") ? "bench.steersman.dev/v1" : "v1";
      String kind = switch (options.kind) {
        case "pods" -> "Pod";
        case "configmaps" -> "ConfigMap";
        default -> "Widget";
      };
      informers.addAll(informersOf(client.genericKubernetesResources(version, kind)));
    } else {
      switch (options.kind) {
        case "pods" -> informers.addAll(informersOf(client.pods()));
        case "configmaps" -> informers.addAll(informersOf(client.configMaps()));
        default -> informers.addAll(informersOf(client.resources(Widget.class)));
      }
    }
    informers.forEach(informer -> started.add(informer.start().toCompletableFuture()));
    CompletableFuture.allOf(started.toArray(CompletableFuture[]::new)).join();
    meter.mark("synced");
    onTermination(client::close);
  }

  /** One informer, or one for each namespace. */
  private <T extends HasMetadata> List<SharedIndexInformer<T>> informersOf(MixedOperation<T, ?, ?> operation) {
    var scopes = new ArrayList<SharedIndexInformer<T>>();
    if (options.namespaces == 0) {
      scopes.add(operation.inAnyNamespace().runnableInformer(0));
    }
    for (String namespace : options.scopes()) {
      scopes.add(operation.inNamespace(namespace).runnableInformer(0));
    }
    scopes.forEach(informer -> informer.addEventHandler(new Counting<>()));
    return scopes;
  }

  private final class Counting<T> implements ResourceEventHandler<T> {
    @Override
    public void onAdd(T object) {
      meter.seen.incrementAndGet();
    }

    @Override
    public void onUpdate(T before, T after) {
      meter.events.incrementAndGet();
    }

    @Override
    public void onDelete(T object, boolean unknownFinalState) {}
  }

  private void operate() {
    Operator operator =
        new Operator(
            o -> o.withKubernetesClient(client).withConcurrentReconciliationThreads(options.workers));
    for (int i = 0; i < options.controllers; i++) {
      String name = "bench-" + i;
      boolean counts = i == 0;
      switch (options.kind) {
        case "pods" -> register(operator, new Reconcilers.Pods(meter), name, counts);
        case "configmaps" -> register(operator, new Reconcilers.ConfigMaps(meter), name, counts);
        default -> {
          switch (options.mode) {
            case "patch" -> register(operator, new Reconcilers.Reporting(meter), name, counts);
            case "apply" -> register(operator, new Reconcilers.Owning(meter), name, counts);
            default -> register(operator, new Reconcilers.Widgets(meter), name, counts);
          }
        }
      }
    }
    operator.start();
    meter.mark("synced");
    onTermination(operator::stop);
  }

  /** Every controller of the SDK has an informer of its own. */
  private <P extends HasMetadata> void register(
      Operator operator, Reconciler<P> reconciler, String name, boolean counts) {
    operator.register(
        reconciler,
        overrider -> {
          ControllerConfigurationOverrider<P> o = overrider.withName(name);
          if (options.namespaces > 0) {
            o.settingNamespaces(options.scopes());
          }
          if (counts) {
            o.withOnAddFilter(this::added).withOnUpdateFilter(this::updated);
          }
        });
  }

  private boolean added(HasMetadata object) {
    meter.seen.incrementAndGet();
    return true;
  }

  /** Counts what the SDK's own generation filter lets through. */
  private boolean updated(HasMetadata after, HasMetadata before) {
    if (!Objects.equals(after.getMetadata().getGeneration(), before.getMetadata().getGeneration())) {
      meter.events.incrementAndGet();
    }
    return true;
  }

  /** A JVM that a signal ends has status 143; this one is asked to say that it ended well. */
  private static void onTermination(Runnable stop) {
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      stop.run();
      Runtime.getRuntime().halt(0);
    }));
  }
}
