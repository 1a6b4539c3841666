// Package bench is what the Go peers share: their command line, the kinds they know and how they reach the server.
//
// The command line is that of every peer, but with Go's flags (controller-runtime owns -kubeconfig, so ours is
// -bench-kubeconfig). A combination that a peer cannot do ends the process with status 3.
package bench

import (
	"flag"
	"fmt"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options is what a run is about.
type Options struct {
	Kubeconfig, Kind, Mode, Form, Wire string
	Controllers, Namespaces, Workers   int
	Strip                              bool // drop managedFields before objects are cached
}

// Register adds the flags that every peer has.
func (o *Options) Register() {
	flag.StringVar(&o.Kubeconfig, "bench-kubeconfig", "", "kubeconfig of the server (required)")
	flag.StringVar(&o.Kind, "kind", "widgets", "widgets, pods, configmaps or another built-in kind's plural; mixed: an informer of each")
	flag.StringVar(&o.Mode, "mode", "informer", "informer, noop (a reconcile that reads), patch (and writes status) or apply (and makes sure of children)")
	flag.StringVar(&o.Form, "form", "typed", "typed, unstructured or metadata")
	flag.StringVar(&o.Wire, "wire", "", "json or protobuf; default: json, but protobuf for metadata where client-go knows no other")
	flag.IntVar(&o.Controllers, "controllers", 1, "controllers of the kind, which share its informer")
	flag.IntVar(&o.Namespaces, "namespaces", 0, "confine the peer to bench-0 … bench-<N-1>; 0: all namespaces")
	flag.IntVar(&o.Workers, "workers", 16, "concurrent reconciles of each controller")
	flag.BoolVar(&o.Strip, "strip-managed-fields", false, "use the cache transform that drops managedFields")
}

// Check ends the process where the options make no sense (status 2) or cannot be done by any client (3).
func (o *Options) Check() {
	if o.Wire == "" {
		o.Wire = "json"
	}
	switch {
	case o.Kubeconfig == "":
		usage("-bench-kubeconfig is required")
	case !slices.Contains([]string{"informer", "noop", "patch", "apply"}, o.Mode):
		usage("unknown mode " + o.Mode)
	case !slices.Contains([]string{"typed", "unstructured", "metadata"}, o.Form):
		usage("unknown form " + o.Form)
	case !slices.Contains([]string{"json", "protobuf"}, o.Wire):
		usage("unknown wire format " + o.Wire)
	case o.Controllers < 1 || o.Namespaces < 0 || o.Workers < 1:
		usage("-controllers and -workers are at least 1, -namespaces at least 0")
	case len(o.Kinds()) == 0:
		usage("unknown kind " + o.Kind)
	case o.Wire == "protobuf" && o.Kind == "widgets" && o.Form != "metadata" && o.Mode != "apply":
		Impossible("custom resources have no protobuf form")
	case o.Kind == "mixed" && o.Mode != "informer":
		Impossible("kind mixed is there for mode informer")
	case o.Mode == "informer" && o.Controllers > 1:
		Impossible("mode informer has no controllers")
	case o.Mode == "patch" && (o.Kind != "widgets" || o.Form == "metadata"):
		Impossible("mode patch needs Widgets with their spec")
	case o.Mode == "apply" && (o.Kind != "widgets" || o.Form != "typed"):
		Impossible("mode apply is there for typed Widgets")
	}
}

// CheckClientGo is Check for what is built on client-go, whose forms are tied to an encoding.
func (o *Options) CheckClientGo() {
	if o.Wire == "" && o.Form == "metadata" {
		o.Wire = "protobuf"
	}
	o.Check()
	switch {
	case o.Form == "metadata" && o.Wire == "json":
		Impossible("client-go's metadata client always asks for protobuf")
	case o.Form == "unstructured" && o.Wire == "protobuf":
		Impossible("client-go reads unstructured objects from JSON only")
	}
}

// Watched is the namespaces that the peer is confined to; one empty name stands for all of them.
func (o *Options) Watched() []string {
	if o.Namespaces == 0 {
		return []string{""}
	}
	names := make([]string, o.Namespaces)
	for i := range names {
		names[i] = fmt.Sprintf("bench-%d", i)
	}
	return names
}

// Config reaches the server. With wire json every client speaks JSON; with protobuf the content type is left to the peer.
func (o *Options) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // API priority and fairness has replaced client-side limits
	if o.Wire == "json" {
		config.ContentType = runtime.ContentTypeJSON
	}
	return config, nil
}

// Impossible says what cannot be done, and ends the process as every peer does in that case.
func Impossible(what string) {
	fmt.Fprintln(os.Stderr, what)
	os.Exit(3)
}

func usage(what string) {
	fmt.Fprintln(os.Stderr, what)
	os.Exit(2)
}
