package bench;

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.api.model.ObjectMetaBuilder;
import io.fabric8.kubernetes.api.model.Pod;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.api.reconciler.ErrorStatusUpdateControl;
import io.javaoperatorsdk.operator.api.reconciler.Reconciler;
import io.javaoperatorsdk.operator.api.reconciler.UpdateControl;
import io.javaoperatorsdk.operator.api.reconciler.Workflow;
import io.javaoperatorsdk.operator.api.reconciler.dependent.Dependent;

/** One reconciler for each mode with a controller, as users of the SDK write them. */
final class Reconcilers {
  private Reconcilers() {}

  /** Reads its object and writes nothing. */
  abstract static class Reading<P extends HasMetadata> implements Reconciler<P> {
    final Meter meter;

    Reading(Meter meter) {
      this.meter = meter;
    }

    UpdateControl<P> work(P object, Context<P> context) {
      return UpdateControl.noUpdate();
    }

    @Override
    public UpdateControl<P> reconcile(P object, Context<P> context) {
      long nth = meter.reconciles.incrementAndGet();
      meter.stamped(object);
      UpdateControl<P> control = work(object, context);
      if (nth == 1) {
        meter.mark("first-reconcile");
      }
      return control;
    }

    @Override
    public ErrorStatusUpdateControl<P> updateErrorStatus(P object, Context<P> context, Exception error) {
      meter.errors.incrementAndGet();
      System.err.println(object.getMetadata().getName() + ": " + error); // the driver shows it when the run fails
      return ErrorStatusUpdateControl.defaultErrorProcessing();
    }
  }

  static final class Widgets extends Reading<Widget> {
    Widgets(Meter meter) {
      super(meter);
    }
  }

  static final class Pods extends Reading<Pod> {
    Pods(Meter meter) {
      super(meter);
    }
  }

  static final class ConfigMaps extends Reading<ConfigMap> {
    ConfigMaps(Meter meter) {
      super(meter);
    }
  }

  /** Writes status with one patch: a server-side apply of a fresh object, the SDK's default and its documents' way. */
  static final class Reporting extends Reading<Widget> {
    Reporting(Meter meter) {
      super(meter);
    }

    @Override
    UpdateControl<Widget> work(Widget widget, Context<Widget> context) {
      var metadata = widget.getMetadata();
      var status = new Widget.Status();
      status.observedGeneration = metadata.getGeneration();
      status.phase = "Ready";
      status.readyReplicas = widget.getSpec().replicas;
      status.endpoint = metadata.getName() + "." + metadata.getNamespace() + ".svc:8080";
      if (status.equals(widget.getStatus())) {
        return UpdateControl.noUpdate();
      }
      var patch = new Widget();
      patch.setMetadata(
          new ObjectMetaBuilder()
              .withName(metadata.getName())
              .withNamespace(metadata.getNamespace())
              .build());
      patch.setStatus(status);
      meter.patches.incrementAndGet();
      return UpdateControl.patchStatus(patch);
    }
  }

  /** Makes sure of three children: the SDK does it, with dependent resources, before it calls reconcile. */
  @Workflow(
      dependents = {
        @Dependent(type = Children.Config.class),
        @Dependent(type = Children.Front.class),
        @Dependent(type = Children.Run.class)
      })
  static final class Owning extends Reading<Widget> {
    Owning(Meter meter) {
      super(meter);
    }
  }
}
