package bench;

/** The command line, which is the same for every peer. What the SDK cannot do ends the process with status 3. */
final class Options {
  String kubeconfig = "";
  String kind = "widgets";
  String mode = "informer";
  String form = "typed";
  int controllers = 1;
  int namespaces = 0;
  int workers = 16;

  static Options parse(String[] arguments) {
    Options o = new Options();
    if (arguments.length % 2 != 0) {
      end(2, "every flag needs a value");
    }
    for (int i = 0; i < arguments.length; i += 2) {
      String value = arguments[i + 1];
      switch (arguments[i]) {
        case "--kubeconfig" -> o.kubeconfig = value;
        case "--kind" -> o.kind = value;
        case "--mode" -> o.mode = value;
        case "--form" -> o.form = value;
        case "--controllers" -> o.controllers = number(arguments[i], value);
        case "--namespaces" -> o.namespaces = number(arguments[i], value);
        case "--workers" -> o.workers = number(arguments[i], value);
        case "--wire" -> {
          if (!value.equals("json")) {
            impossible("the Java client speaks JSON only");
          }
        }
        default -> end(2, "unknown flag " + arguments[i]);
      }
    }
    if (o.kubeconfig.isEmpty()) {
      end(2, "--kubeconfig is required");
    }
    return o;
  }

  boolean informs() {
    return mode.equals("informer");
  }

  /** The namespaces to be confined to; none: all. */
  String[] scopes() {
    String[] names = new String[namespaces];
    for (int i = 0; i < namespaces; i++) {
      names[i] = "bench-" + i;
    }
    return names;
  }

  static void impossible(String what) {
    end(3, what);
  }

  private static void end(int status, String what) {
    System.err.println(what);
    System.exit(status);
  }

  private static int number(String flag, String value) {
    try {
      return Integer.parseInt(value);
    } catch (NumberFormatException error) {
      end(2, flag + " needs a number, not " + value);
      return 0;
    }
  }
}
