// Command kube-apiserver is the API server of the test control plane.
package main

import (
	"os"
	_ "time/tzdata" // CronJobs name time zones, and the machine may have no zone files

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
