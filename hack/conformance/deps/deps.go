//go:build deps

// Package deps names what is built from Kubernetes' module, so that `go mod tidy` keeps the modules that it needs.
package deps

import (
	_ "bitbucket.org/bertimus9/systemstat"
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/images/agnhost"
	_ "k8s.io/kubernetes/test/images/nonewprivs"
	_ "k8s.io/kubernetes/test/images/resource-consumer"
)
