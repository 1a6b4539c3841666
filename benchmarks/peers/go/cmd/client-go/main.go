// The client-go peer of the benchmarks: its shared informers with a handler that counts, typed, dynamic and
// metadata-only, as its users write them. It has no controllers.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"steersman.dev/benchmarks/peers/go/internal/bench"
	"steersman.dev/benchmarks/peers/go/internal/meter"
)

func main() {
	var o bench.Options
	o.Register()
	flag.Parse()
	o.CheckClientGo()
	if o.Mode != "informer" {
		bench.Impossible("client-go has informers, but no controllers")
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o bench.Options) error {
	klog.SetLogger(logr.Discard())
	config, err := o.Config()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	m := meter.New()
	m.Mark("starting")
	go m.Obey()
	var synced []cache.InformerSynced
	var factories []factory
	for _, namespace := range o.Watched() {
		all, err := newFactory(o, config, namespace)
		if err != nil {
			return err
		}
		for _, kind := range o.Kinds() {
			registered, err := count(all, kind, m)
			if err != nil {
				return err
			}
			synced = append(synced, registered)
		}
		all.Start(ctx.Done())
		factories = append(factories, all)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	m.Mark("synced")
	<-ctx.Done()
	for _, all := range factories {
		all.Shutdown()
	}
	return nil
}

func count(f factory, kind bench.Kind, m *meter.Meter) (cache.InformerSynced, error) {
	informer, err := f.informer(kind)
	if err != nil {
		return nil, err
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(any, bool) { m.Seen.Add(1) },
		UpdateFunc: func(_, _ any) { m.Events.Add(1) },
	})
	if err != nil {
		return nil, err
	}
	return registration.HasSynced, nil
}
