// The controller-runtime peer of the webhook benchmark: its webhook server with one typed mutation of Pods, written as
// its users write it. The driver asks for its counters by lines on stdin.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var answered atomic.Int64

// sidecars adds a label and a container, as an injector does.
type sidecars struct{}

func (sidecars) Default(_ context.Context, pod *corev1.Pod) error {
	answered.Add(1)
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
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: certs})
	server.Register("/mutate--v1-pod", admission.WithDefaulter[*corev1.Pod](scheme, sidecars{}))
	go obey()
	go func() {
		for server.StartedChecker()(nil) != nil {
			time.Sleep(5 * time.Millisecond)
		}
		mark("ready")
	}()
	return server.Start(ctrl.SetupSignalHandler())
}

func mark(name string) {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"mark": name, "cpu": float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9, "rss": rss(),
		"wall": float64(time.Now().UnixNano()) / 1e9, "answered": answered.Load(),
	})
}

func rss() int {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(statm))[1])
	return pages * os.Getpagesize()
}

// obey answers "mark NAME" until stdin closes.
func obey() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		_, name, _ := strings.Cut(lines.Text(), " ")
		mark(name)
	}
	os.Exit(0)
}
