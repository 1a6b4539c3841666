// The bare peer of the benchmarks: TLS, HTTP/1.1 or HTTP/2, and nothing that looks like a Kubernetes client.
//
// It reads the bytes of watches, counts their events and decodes nothing; in mode patch it finds name and generation
// by a search in the bytes. What it reaches is what the server can give, which says how far a real client's number
// is from being the server's. It opens no second watch: one that ends, ends the process with status 1.
package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"steersman.dev/benchmarks/peers/go/internal/bench"
	"steersman.dev/benchmarks/peers/go/internal/meter"
	"steersman.dev/benchmarks/peers/go/internal/widget"
)

// transport is one way to speak to the server.
type transport interface {
	// watch feeds the body of a stream to sink until it ends. The bytes are sink's until it returns.
	watch(path, accept string, sink func([]byte)) error
	// patch sends a merge patch and waits for the answer, which must be a 200.
	patch(path string, body []byte) error
}

func main() {
	var o bench.Options
	o.Register()
	version := flag.String("http", "1.1", "the version of HTTP: 1.1 or 2")
	flag.Parse()
	o.Check()
	switch {
	case o.Mode == "noop" || o.Mode == "apply":
		bench.Impossible("the bare peer has no controllers; mode patch writes for every event")
	case *version != "1.1" && *version != "2":
		bench.Impossible("the bare peer speaks HTTP 1.1 and 2, not " + *version)
	case *version == "2" && len(o.Kinds())*len(o.Watched())+o.Workers > streams:
		bench.Impossible("more watches and patches than one HTTP/2 connection may have streams")
	case o.Controllers > 1 || o.Strip:
		bench.Impossible("the bare peer has neither controllers nor objects")
	}
	if err := run(o, *version); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o bench.Options, version string) error {
	config, err := o.Config()
	if err != nil {
		return err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	m := meter.New()
	m.Mark("starting")
	go m.Obey()
	transport, err := dial(version, server.Host, config.CAData, config.CAFile)
	if err != nil {
		return err
	}
	failed := make(chan error)
	var due *queue
	if o.Mode == "patch" {
		due = newQueue()
		for range o.Workers {
			go work(transport, due, m)
		}
	}
	watches := len(o.Kinds()) * len(o.Watched())
	synced := make(chan struct{})
	for _, kind := range o.Kinds() {
		for _, namespace := range o.Watched() {
			c := &counter{m: m, due: due, known: map[string]string{}, synced: func() { synced <- struct{}{} }}
			sink := (&lines{each: c.line}).feed
			if o.Wire == "protobuf" && (kind.Resource.Group != widget.GroupVersion.Group || o.Form == "metadata") {
				sink = (&frames{each: c.frame}).feed
			}
			go func() {
				err := transport.watch(path(kind, namespace), accept(o), sink)
				failed <- fmt.Errorf("the watch of %s ended: %w", kind.Resource.Resource, err)
			}()
		}
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM, os.Interrupt)
	for {
		select {
		case <-synced:
			if watches--; watches == 0 {
				m.Mark("synced")
			}
		case err := <-failed:
			return err
		case <-terminated:
			return nil
		}
	}
}

func path(kind bench.Kind, namespace string) string {
	var b strings.Builder
	if kind.Resource.Group == "" {
		b.WriteString("/api/" + kind.Resource.Version)
	} else {
		b.WriteString("/apis/" + kind.Resource.Group + "/" + kind.Resource.Version)
	}
	if namespace != "" {
		b.WriteString("/namespaces/" + namespace)
	}
	b.WriteString("/" + kind.Resource.Resource)
	b.WriteString("?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=3600&watch=true")
	return b.String()
}

func accept(o bench.Options) string {
	as := ""
	if o.Form == "metadata" {
		as = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	}
	if o.Wire == "protobuf" {
		return "application/vnd.kubernetes.protobuf" + as + ",application/json" + as
	}
	return "application/json" + as
}
