// Command kube-controller-manager runs the built-in controllers of the test control plane.
package main

import (
	"os"
	_ "time/tzdata" // CronJobs name time zones, and the machine may have no zone files

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() { os.Exit(cli.Run(app.NewControllerManagerCommand())) }
