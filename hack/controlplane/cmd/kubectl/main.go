// Command kubectl is the client that matches the test control plane's version.
package main

import (
	_ "k8s.io/client-go/plugin/pkg/client/auth" // OIDC kubeconfigs, as in released builds
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
