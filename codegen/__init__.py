"""Generators of the files that describe Kubernetes: models, API documents, schemas, protobuf fields, first objects.

`python -m codegen` (`make generate`) writes all of them, `--check` compares. The Kubernetes release is
`steersman.version.KUBERNETES_VERSION`. docs/kubernetes-versions.md describes how to move to the next release.
"""
