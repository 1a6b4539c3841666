"""The operator, on which controllers and webhooks are declared. `steersman run` runs it."""

from steersman import Operator

operator = Operator("sidecarset")
