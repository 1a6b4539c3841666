package bench;

import com.fasterxml.jackson.annotation.JsonInclude;
import io.fabric8.kubernetes.api.model.Namespaced;
import io.fabric8.kubernetes.client.CustomResource;
import io.fabric8.kubernetes.model.annotation.Group;
import io.fabric8.kubernetes.model.annotation.Version;
import java.util.List;
import java.util.Objects;

/** The custom resource of the benchmarks, as a user of the SDK writes one. */
@Group("bench.steersman.dev")
@Version("v1")
public class Widget extends CustomResource<Widget.Spec, Widget.Status> implements Namespaced {

  /** What the user wants. */
  @JsonInclude(JsonInclude.Include.NON_NULL)
  public static class Spec {
    public String image;
    public int replicas;
    public int port;
    public List<EnvVar> env;
    public Resources resources;
    public String schedule;
    public boolean suspend;
  }

  /** A name and a value. */
  public static class EnvVar {
    public String name;
    public String value;
  }

  /** What one replica asks for. */
  public static class Resources {
    public String cpu;
    public String memory;
  }

  /** What the controller saw. */
  public static class Status {
    public long observedGeneration;
    public String phase;
    public int readyReplicas;
    public String endpoint;

    @Override
    public boolean equals(Object other) {
      return other instanceof Status s
          && observedGeneration == s.observedGeneration
          && readyReplicas == s.readyReplicas
          && Objects.equals(phase, s.phase)
          && Objects.equals(endpoint, s.endpoint);
    }

    @Override
    public int hashCode() {
      return Objects.hash(observedGeneration, phase, readyReplicas, endpoint);
    }
  }
}
