"""The CronJob of the Kubebuilder book: `steersman run cronjobs:operator`."""

from steersman import Operator

operator = Operator("cronjobs")

from cronjobs import controller, conversion, webhooks  # noqa: E402 - they declare themselves on the operator

__all__ = ["controller", "conversion", "operator", "webhooks"]
