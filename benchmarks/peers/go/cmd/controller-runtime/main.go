// The controller-runtime peer of the benchmarks: informers or controllers of a kind, in each of its forms, written
// as its users write them and told nothing about the server it talks to.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"steersman.dev/benchmarks/peers/go/internal/bench"
	"steersman.dev/benchmarks/peers/go/internal/meter"
)

type peer struct {
	bench.Options
	m           *meter.Meter
	sharedReads bool
}

func main() {
	p := peer{m: meter.New()}
	p.Register()
	flag.BoolVar(&p.sharedReads, "unsafe-disable-deep-copy", false, "read from the cache without copying, which its documentation advises against")
	flag.Parse()
	p.CheckClientGo()
	if err := p.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (p *peer) run() error {
	log.SetLogger(logr.Discard())
	config, err := p.Config()
	if err != nil {
		return err
	}
	scheme, err := bench.Scheme()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Cache:   p.cacheOptions(),
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: p.Form == "unstructured"}},
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if p.Mode != "informer" {
		for i := range p.Controllers {
			if err := p.addController(mgr, i); err != nil {
				return err
			}
		}
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return p.observe(ctx, mgr) })); err != nil {
		return err
	}
	p.m.Mark("starting")
	go p.m.Obey()
	return mgr.Start(ctx)
}

func (p *peer) cacheOptions() crcache.Options {
	options := crcache.Options{}
	if p.Namespaces > 0 {
		options.DefaultNamespaces = map[string]crcache.Config{}
		for _, namespace := range p.Watched() {
			options.DefaultNamespaces[namespace] = crcache.Config{}
		}
	}
	if p.Strip {
		options.DefaultTransform = crcache.TransformStripManagedFields()
	}
	if p.sharedReads {
		options.DefaultUnsafeDisableDeepCopy = &p.sharedReads
	}
	return options
}

// observe counts in mode informer, and says when the informers, which controllers share, have synced.
func (p *peer) observe(ctx context.Context, mgr ctrl.Manager) error {
	var synced []cache.InformerSynced
	for _, kind := range p.Kinds() {
		informer, err := mgr.GetCache().GetInformer(ctx, kind.As(p.Form))
		if err != nil {
			return err
		}
		if p.Mode != "informer" {
			synced = append(synced, informer.HasSynced)
			continue
		}
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    func(any, bool) { p.m.Seen.Add(1) },
			UpdateFunc: func(_, _ any) { p.m.Events.Add(1) },
		})
		if err != nil {
			return err
		}
		synced = append(synced, registration.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return ctx.Err()
	}
	p.m.Mark("synced")
	<-ctx.Done()
	return nil
}

func name(i int) string { return fmt.Sprintf("bench-%d", i) }
