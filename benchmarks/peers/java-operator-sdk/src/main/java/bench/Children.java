package bench;

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.ContainerBuilder;
import io.fabric8.kubernetes.api.model.ContainerPortBuilder;
import io.fabric8.kubernetes.api.model.EnvVarBuilder;
import io.fabric8.kubernetes.api.model.IntOrString;
import io.fabric8.kubernetes.api.model.ObjectMeta;
import io.fabric8.kubernetes.api.model.ObjectMetaBuilder;
import io.fabric8.kubernetes.api.model.Quantity;
import io.fabric8.kubernetes.api.model.Service;
import io.fabric8.kubernetes.api.model.ServiceBuilder;
import io.fabric8.kubernetes.api.model.ServicePortBuilder;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.apps.DeploymentBuilder;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.processing.dependent.kubernetes.CRUDKubernetesDependentResource;
import java.util.Map;

/** What a Widget owns. */
final class Children {
  private Children() {}

  private static Map<String, String> labels(Widget widget) {
    return Map.of("app.kubernetes.io/name", widget.getMetadata().getName());
  }

  private static ObjectMeta metadata(Widget widget, String name) {
    return new ObjectMetaBuilder()
        .withName(name)
        .withNamespace(widget.getMetadata().getNamespace())
        .withLabels(labels(widget))
        .build();
  }

  /** The ConfigMap. */
  public static class Config extends CRUDKubernetesDependentResource<ConfigMap, Widget> {
    @Override
    protected ConfigMap desired(Widget widget, Context<Widget> context) {
      return new ConfigMapBuilder()
          .withMetadata(metadata(widget, widget.getMetadata().getName() + "-config"))
          .withData(Map.of("image", widget.getSpec().image, "schedule", widget.getSpec().schedule))
          .build();
    }
  }

  /** The Service. */
  public static class Front extends CRUDKubernetesDependentResource<Service, Widget> {
    @Override
    protected Service desired(Widget widget, Context<Widget> context) {
      var port =
          new ServicePortBuilder()
              .withName("http")
              .withPort(80)
              .withTargetPort(new IntOrString(widget.getSpec().port))
              .build();
      return new ServiceBuilder()
          .withMetadata(metadata(widget, widget.getMetadata().getName()))
          .withNewSpec()
          .withSelector(labels(widget))
          .withPorts(port)
          .endSpec()
          .build();
    }
  }

  /** The Deployment. */
  public static class Run extends CRUDKubernetesDependentResource<Deployment, Widget> {
    @Override
    protected Deployment desired(Widget widget, Context<Widget> context) {
      var spec = widget.getSpec();
      var container =
          new ContainerBuilder()
              .withName("widget")
              .withImage(spec.image)
              .withEnv(
                  spec.env.stream()
                      .map(e -> new EnvVarBuilder().withName(e.name).withValue(e.value).build())
                      .toList())
              .withPorts(
                  new ContainerPortBuilder().withName("http").withContainerPort(spec.port).build())
              .withNewResources()
              .withRequests(
                  Map.of("cpu", new Quantity(spec.resources.cpu), "memory", new Quantity(spec.resources.memory)))
              .endResources()
              .build();
      return new DeploymentBuilder()
          .withMetadata(metadata(widget, widget.getMetadata().getName()))
          .withNewSpec()
          .withReplicas(spec.replicas)
          .withNewSelector()
          .withMatchLabels(labels(widget))
          .endSelector()
          .withNewTemplate()
          .withNewMetadata()
          .withLabels(labels(widget))
          .endMetadata()
          .withNewSpec()
          .withContainers(container)
          .endSpec()
          .endTemplate()
          .endSpec()
          .build();
    }
  }
}
