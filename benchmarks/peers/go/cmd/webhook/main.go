// The controller-runtime peer of the webhook benchmark: its webhook server with one typed mutation of Pods, written as
// its users write it. The driver asks for its counters by lines on stdin.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"steersman.dev/benchmarks/peers/go/internal/meter"
)

// sidecars adds a label and a container, as an injector does, and counts the Pods as reconciles.
type sidecars struct{ m *meter.Meter }

func (s sidecars) Default(_ context.Context, pod *corev1.Pod) error {
	s.m.Reconciles.Add(1)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels["bench.steersman.dev/injected"] = "true"
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
		Name:  "agent",
		Image: "registry.example/agent:1",
		Env:   []corev1.EnvVar{{Name: "ROLE", Value: "sidecar"}},
	})
	return nil
}

func main() {
	var certs string
	var port int
	flag.StringVar(&certs, "cert-dir", "", "directory with tls.crt and tls.key")
	flag.IntVar(&port, "port", 0, "where to listen on 127.0.0.1")
	flag.Parse()
	if err := run(certs, port); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(certs string, port int) error {
	log.SetLogger(logr.Discard())
	m := meter.New()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: certs})
	server.Register("/mutate--v1-pod", admission.WithDefaulter[*corev1.Pod](scheme, sidecars{m}))
	go m.Obey()
	go func() {
		for server.StartedChecker()(nil) != nil {
			time.Sleep(5 * time.Millisecond)
		}
		m.Mark("ready")
	}()
	return server.Start(ctrl.SetupSignalHandler())
}
